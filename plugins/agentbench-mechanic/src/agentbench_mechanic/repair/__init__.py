"""Program repair by trying: where a program may be wrong, small changes that could mend it, and tests that judge.

Stands alone: needs the standard library, and pytest where it runs tests. The mechanic sends it into the sandbox as
text, and runs it there as ``python -m repair``.
"""
