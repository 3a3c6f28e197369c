"""The agents: one module per program, and their common code."""
