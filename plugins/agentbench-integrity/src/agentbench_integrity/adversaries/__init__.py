"""Adversarial agents: what agents have done, or could do, to pass without solving a task. One file per theme."""
