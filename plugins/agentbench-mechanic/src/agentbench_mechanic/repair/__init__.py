"""Search-based program repair: suspicious lines, small changes that could fix them, and test runs.

Self-contained: it needs only the standard library, and pytest to run tests. The mechanic uploads it to the sandbox as
text, and runs it there as ``python -m repair``.
"""
