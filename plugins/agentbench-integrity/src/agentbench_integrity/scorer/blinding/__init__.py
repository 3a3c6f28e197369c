"""Blinded assertions: hidden tests without the values that they expect; the host compares what they record."""
