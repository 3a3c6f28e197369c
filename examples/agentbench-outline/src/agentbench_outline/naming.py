"""Which files of a workspace are meant: by what a failing command printed, and by imports. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

_WORD = re.compile(r"[\w./+-]+", re.ASCII)
_MOST = 500  # names in one output
_LONGEST = 400  # characters of a name


def named(output: str, paths: Iterable[str]) -> list[str]:
    """The ``paths`` that some output names, in the order in which it names them.

    Printed paths may be absolute inside some sandbox: the longest path that a printed one ends with is meant.
    """
    known = set(paths)
    words = (match[0][-_LONGEST:].rstrip(".") for match in _WORD.finditer(output))
    printed = itertools.islice((word for word in words if word.endswith(".py")), _MOST)
    ends = (next((end for end in _ends(each) if end in known), "") for each in printed)
    return list(dict.fromkeys(filter(None, ends)))


def imported(names: Iterable[str], by: str, paths: Sequence[str]) -> list[str]:
    """The ``paths`` that are meant by what the file ``by`` imports: ``shop.cart.Cart`` by any ``.../shop/cart.py``.

    A name may be that of a module, or of something in one. Of several files that fit, the one nearest to the root is
    meant. Relative names begin beside ``by``.
    """
    found: dict[str, None] = {}
    for name in names:
        for end in _modules(name.lstrip(".")):
            if fitting := _fitting(end, len(name) - len(name.lstrip(".")), by, paths):
                found[min(fitting, key=lambda path: (path.count("/"), path))] = None
                break
    return list(found)


def _ends(printed: str) -> Iterator[str]:
    """The whole path, and what is left of it without its first directories."""
    parts = [part for part in printed.split("/") if part not in ("", ".")]
    return ("/".join(parts[start:]) for start in range(len(parts)))


def _modules(name: str) -> Iterator[str]:
    """The files that a dotted name may mean, relative to where it begins; the whole name comes first."""
    parts = name.split(".")
    for module in filter(None, ("/".join(parts), "/".join(parts[:-1]))):
        yield from (f"{module}.py", f"{module}/__init__.py")
    if len(parts) == 1:
        yield "__init__.py"


def _fitting(end: str, level: int, by: str, paths: Sequence[str]) -> list[str]:
    if level:
        exactly = "/".join([*by.split("/")[:-level], end])
        return [path for path in paths if path == exactly]
    return [] if end == "__init__.py" else [path for path in paths if path == end or path.endswith(f"/{end}")]
