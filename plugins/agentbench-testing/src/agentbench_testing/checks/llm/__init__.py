"""Checks of providers of models."""
