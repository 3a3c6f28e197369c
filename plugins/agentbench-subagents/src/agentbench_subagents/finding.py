"""From places as a test run printed them to the files of a workspace. Pure functions over names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from agentbench_subagents.failures import Kind, Location, is_foreign

WHY: Mapping[Kind, str] = {
    "raised": "an exception was raised here",
    "frame": "called on the way to the exception",
    "import": "a name could not be imported from here",
    "test": "holds a failing test",
}

_MOST = 2000
"""Places that are looked for: an output may name a million."""


@attrs.frozen(kw_only=True)
class Found:
    """What some output names."""

    files: Mapping[str, tuple[Location, ...]]
    """Files of the workspace with the places in them, in the order in which they were named."""
    elsewhere: tuple[str, ...]
    """Paths that the workspace does not have, or that fit more than one of its files."""


def find(places: Iterable[Location], paths: Iterable[str]) -> Found:
    """The files among ``paths`` that the first ``places`` lie in, without installed packages and standard library."""
    known = _Paths(paths)
    files: dict[str, tuple[Location, ...]] = {}
    elsewhere: dict[str, None] = {}
    for place in itertools.islice((place for place in places if not is_foreign(place.path)), _MOST):
        path = known.meant(place.path)
        if path is None:
            elsewhere[place.path] = None
        else:
            files[path] = (*files.get(path, ()), place)
    return Found(files=files, elsewhere=tuple(elsewhere))


def reasons(places: Iterable[Location]) -> str:
    """Why a file with these places is worth a look, in words."""
    return "; ".join(dict.fromkeys(WHY[place.kind] for place in places))


class _Paths:
    """Python files, found by any end of their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._all = {path for path in paths if path.endswith(".py")}
        self._by_end: dict[str, list[str]] = {}
        for path in sorted(self._all):
            for end in _ends(path.split("/")):
                self._by_end.setdefault(end, []).append(path)

    def meant(self, named: str) -> str | None:
        """The file that shares the longest end with a path as it was printed; none where two share the same.

        Printed paths are absolute inside some sandbox, or relative to some directory; a module that is a package
        is its ``__init__.py``. A file must be named as a whole, or up to its root by a longer path: ``a/x.py`` does
        not name ``b/x.py``.
        """
        parts = [part for part in named.split("/") if part not in ("", ".")]
        package = [*parts[:-1], parts[-1].removesuffix(".py"), "__init__.py"] if parts else []
        for wanted in (parts, package):
            to_the_root = (end for end in _ends(wanted) if end in self._all)
            matching = self._by_end.get("/".join(wanted)) or list(itertools.islice(to_the_root, 1))
            if len(matching) == 1:
                return matching[0]
            if named in matching:
                return named
        return None


def _ends(parts: Sequence[str]) -> Iterator[str]:
    """The whole path, and what is left of it without its first directories."""
    return ("/".join(parts[start:]) for start in range(len(parts)))
