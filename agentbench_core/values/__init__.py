"""Frozen values without I/O, used by all layers."""
