"""May a candidate replace a baseline: the rules, the checks, the verdict."""
