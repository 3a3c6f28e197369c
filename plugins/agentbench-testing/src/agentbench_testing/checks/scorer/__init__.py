"""Checks of scorers."""
