"""Blinded assertions: hidden tests without their expected values, which the host compares with recorded values."""
