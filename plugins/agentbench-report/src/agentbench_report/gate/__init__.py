"""The gate: rules, checks, and the verdict on whether a candidate may replace a baseline."""
