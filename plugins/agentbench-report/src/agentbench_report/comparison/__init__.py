"""Compare two or more runs: pair their tasks by digest, and refuse runs that are not comparable."""
