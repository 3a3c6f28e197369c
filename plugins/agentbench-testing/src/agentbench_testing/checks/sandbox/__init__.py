"""Checks of sandboxes."""
