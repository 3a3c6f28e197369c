"""Parse Python source, which may be untrusted, also in several threads at the same time."""

from __future__ import annotations

import ast
import threading
import warnings

_TRIES = 10
_LOCK = threading.Lock()


def parse_python(source: str | bytes) -> ast.Module:
    """Parse Python like :func:`ast.parse`, but thread-safe.

    Plugins should not call ``ast.parse`` while attempts run: warning filters are global, and CPython 3.11 shares its
    recursion depth counter between threads and may raise SystemError for valid source
    (https://github.com/python/cpython/issues/106905).

    Raises SyntaxError, ValueError, RecursionError and MemoryError, like ``ast.parse``.
    """
    for _ in range(_TRIES):
        try:
            with _LOCK, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # for example about escape sequences in task files
                return ast.parse(source)
        except SystemError:
            continue
    raise ValueError("cannot parse Python while other threads are parsing")
