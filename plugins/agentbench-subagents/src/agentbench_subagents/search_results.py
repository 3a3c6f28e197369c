"""Match locations in the output of a test run with the files of a workspace. Pure functions over names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from agentbench_subagents.failures import Kind, Location, is_external

WHY: Mapping[Kind, str] = {
    "raised": "an exception was raised here",
    "frame": "called on the way to the exception",
    "import": "a name could not be imported from here",
    "test": "holds a failing test",
}

_MAX_LOCATIONS = 2000
"""Maximum number of locations to match, since the output can name a million."""


@attrs.frozen(kw_only=True)
class FileMatches:
    """The files that the output names."""

    files: Mapping[str, tuple[Location, ...]]
    """Files of the workspace and the locations in them, in the order of the output."""
    unmatched: tuple[str, ...]
    """Paths that the workspace does not have, or that match several of its files."""


def match_files(locations: Iterable[Location], paths: Iterable[str]) -> FileMatches:
    """The files among ``paths`` that contain ``locations``; only the first ``_MAX_LOCATIONS`` are considered.

    Installed packages and the standard library are ignored.
    """
    known = _Paths(paths)
    files: dict[str, tuple[Location, ...]] = {}
    unmatched: dict[str, None] = {}
    own = (location for location in locations if not is_external(location.path))
    for location in itertools.islice(own, _MAX_LOCATIONS):
        path = known.match(location.path)
        if path is None:
            unmatched[location.path] = None
        else:
            files[path] = (*files.get(path, ()), location)
    return FileMatches(files=files, unmatched=tuple(unmatched))


def reasons(locations: Iterable[Location]) -> str:
    """Why a file with these locations is relevant, as text."""
    return "; ".join(dict.fromkeys(WHY[location.kind] for location in locations))


class _Paths:
    """Python files, looked up by any suffix of their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._all = {path for path in paths if path.endswith(".py")}
        self._by_suffix: dict[str, list[str]] = {}
        for path in sorted(self._all):
            for suffix in _suffixes(path.split("/")):
                self._by_suffix.setdefault(suffix, []).append(path)

    def match(self, printed: str) -> str | None:
        """The file that shares the longest suffix with a printed path; ``None`` if there is none, or several.

        Printed paths are absolute inside a sandbox, or relative to some directory; a package stands for
        its ``__init__.py``. One path must be a suffix of the other: ``a/x.py`` does not match ``b/x.py``.
        """
        parts = [part for part in printed.split("/") if part not in ("", ".")]
        package = [*parts[:-1], parts[-1].removesuffix(".py"), "__init__.py"] if parts else []
        for wanted in (parts, package):
            longer = (suffix for suffix in _suffixes(wanted) if suffix in self._all)
            matches = self._by_suffix.get("/".join(wanted)) or list(itertools.islice(longer, 1))
            if len(matches) == 1:
                return matches[0]
            if printed in matches:
                return printed
        return None


def _suffixes(parts: Sequence[str]) -> Iterator[str]:
    """The whole path, then without its first directory, and so on."""
    return ("/".join(parts[start:]) for start in range(len(parts)))
