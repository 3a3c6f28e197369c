"""The agents: one module per program, and what they have in common."""
