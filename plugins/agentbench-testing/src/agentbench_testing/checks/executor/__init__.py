"""Checks of executors."""
