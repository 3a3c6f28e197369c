"""Attempts that other processes run: the side that writes the run, and the side of a worker."""
