"""Metered access of agents to tools, model, money and the machine."""
