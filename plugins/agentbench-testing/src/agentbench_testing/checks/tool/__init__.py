"""Checks of tools."""
