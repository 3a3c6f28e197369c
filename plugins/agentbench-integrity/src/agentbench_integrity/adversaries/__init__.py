"""Adversarial agents: ways to pass without solving a task, observed or possible. One module per theme."""
