"""Checks of agents."""
