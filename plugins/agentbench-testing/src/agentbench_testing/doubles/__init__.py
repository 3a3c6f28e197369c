"""Test doubles for the harness, a model, a sandbox or time, for the checks and for your own tests."""
