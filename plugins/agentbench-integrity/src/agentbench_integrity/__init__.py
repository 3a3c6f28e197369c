"""Hard-to-forge verdicts: the `tests` scorer, the `integrity` auditor, adversarial agents and `tasks attack`."""
