"""The gate: rules, checks and the verdict whether a candidate may replace a baseline."""
