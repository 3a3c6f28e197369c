"""Verdicts that hold: the scorer `tests`, the auditor `integrity`, adversarial agents and `tasks attack`."""
