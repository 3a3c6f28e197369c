"""What stands in for the harness, for a model, a sandbox or time: for the checks, and for tests of one's own."""
