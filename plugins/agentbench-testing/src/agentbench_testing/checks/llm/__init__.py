"""Checks of model providers."""
