"""Python parsed, also while other threads parse."""

from __future__ import annotations

import ast
import threading
import warnings

_TRIES = 10
_LOCK = threading.Lock()


def parse_python(source: str | bytes) -> ast.Module:
    """Parse Python as :func:`ast.parse` does, safely in several threads.

    CPython 3.11 counts the depth of all threads together and may raise SystemError for a correct file
    (https://github.com/python/cpython/issues/106905).

    Raises SyntaxError, ValueError, RecursionError, MemoryError as ``ast.parse`` does.
    """
    for _ in range(_TRIES):
        try:
            with _LOCK, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as of escape sequences: the file is not ours
                return ast.parse(source)
        except SystemError:
            continue
    raise ValueError("cannot parse Python here, because other threads parse at the same time")
