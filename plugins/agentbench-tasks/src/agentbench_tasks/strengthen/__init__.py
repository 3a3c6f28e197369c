"""``tasks strengthen``: propose assertions that compare values that are hard to guess."""
