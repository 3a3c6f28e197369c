"""Find files of a workspace that an output names, or that a file imports. No files are read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

_WORD = re.compile(r"[\w./+-]+", re.ASCII)
_MAX_NAMES = 500  # maximum names considered in one output
_MAX_CHARS = 400  # maximum characters of a name


def named(output: str, paths: Iterable[str]) -> list[str]:
    """The ``paths`` that the output names, in the order of the output.

    Printed paths may be absolute inside a sandbox, so they are matched by their longest suffix.
    """
    known = set(paths)
    words = (match[0][-_MAX_CHARS:].rstrip(".") for match in _WORD.finditer(output))
    printed = itertools.islice((word for word in words if word.endswith(".py")), _MAX_NAMES)
    matches = (next((suffix for suffix in _suffixes(each) if suffix in known), "") for each in printed)
    return list(dict.fromkeys(filter(None, matches)))


def imported(names: Iterable[str], by: str, paths: Sequence[str]) -> list[str]:
    """The ``paths`` that the file ``by`` imports, for example any ``.../shop/cart.py`` for ``shop.cart.Cart``.

    A name can refer to a module or to something in a module. Of several matching files, the one nearest to the root
    is used. Relative names start at the directory of ``by``.
    """
    result: dict[str, None] = {}
    for name in names:
        for suffix in _modules(name.lstrip(".")):
            if matches := _matches(suffix, len(name) - len(name.lstrip(".")), by, paths):
                result[min(matches, key=lambda path: (path.count("/"), path))] = None
                break
    return list(result)


def _suffixes(printed: str) -> Iterator[str]:
    """The whole path, then the path without its first directory, and so on."""
    parts = [part for part in printed.split("/") if part not in ("", ".")]
    return ("/".join(parts[start:]) for start in range(len(parts)))


def _modules(name: str) -> Iterator[str]:
    """Files that a dotted name may refer to, relative to its root; those for the whole name come first."""
    parts = name.split(".")
    for module in filter(None, ("/".join(parts), "/".join(parts[:-1]))):
        yield from (f"{module}.py", f"{module}/__init__.py")
    if len(parts) == 1:
        yield "__init__.py"


def _matches(suffix: str, level: int, by: str, paths: Sequence[str]) -> list[str]:
    if level:
        exactly = "/".join([*by.split("/")[:-level], suffix])
        return [path for path in paths if path == exactly]
    return [] if suffix == "__init__.py" else [path for path in paths if f"/{path}".endswith(f"/{suffix}")]
