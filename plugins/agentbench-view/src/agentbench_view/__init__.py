"""Shows runs in a browser: ``agentbench view``."""
