"""Agents that pack relevant files or delegate to sub-agents, and a tool that reads test output."""
