"""A properties file that keeps what it does not change."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from propfile.lines import LogicalLine, logical_lines
from propfile.reader import read_property
from propfile.writer import write_property


class Document(MutableMapping[str, str]):
    """The properties of a file as a mapping; comments, blank lines and untouched lines stay as they are."""

    def __init__(self, text: str = "") -> None:
        self._lines: list[tuple[str | None, str | None, tuple[str, ...]]] = [
            _entry(line) for line in logical_lines(text)
        ]

    def __getitem__(self, key: str) -> str:
        for name, value, _ in reversed(self._lines):
            if name == key and value is not None:
                return value
        raise KeyError(key)

    def __setitem__(self, key: str, value: str) -> None:
        entry = (key, value, (write_property(key, value),))
        positions = self._positions(key)
        if not positions:
            self._lines.append(entry)
        elif self[key] != value:
            self._lines[positions[-1]] = entry

    def __delitem__(self, key: str) -> None:
        positions = self._positions(key)
        if not positions:
            raise KeyError(key)
        for position in reversed(positions):
            del self._lines[position]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _, _ in self._lines if name is not None))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __str__(self) -> str:
        return "".join(line + "\n" for _, _, raw in self._lines for line in raw)

    def _positions(self, key: str) -> list[int]:
        return [index for index, (name, _, _) in enumerate(self._lines) if name == key]


def _entry(line: LogicalLine) -> tuple[str | None, str | None, tuple[str, ...]]:
    if not line.is_property:
        return None, None, line.raw
    key, value = read_property(line)
    return key, value, line.raw
