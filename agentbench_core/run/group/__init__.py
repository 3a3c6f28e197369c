"""A run of several variants."""
