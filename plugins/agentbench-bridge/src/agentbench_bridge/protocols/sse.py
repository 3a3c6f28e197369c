"""Server-sent events, parsed while they arrive."""

from __future__ import annotations

import attrs

_BOM = "\ufeff"


@attrs.frozen
class Event:
    """One event."""

    name: str
    """The ``event`` field; empty if the server sends none."""
    data: str  #: its ``data`` lines, joined by line breaks


@attrs.define
class EventParser:
    """Parses bytes, split anywhere, into events.

    Lines end with LF, CR or CRLF. Invalid UTF-8 becomes U+FFFD. The time is linear, however long lines are.
    """

    _rest: bytearray = attrs.field(factory=bytearray, init=False)
    """The incomplete last line."""
    _after_cr: bool = attrs.field(default=False, init=False)
    _first: bool = attrs.field(default=True, init=False)
    _name: str = attrs.field(default="", init=False)
    _data: list[str] = attrs.field(factory=list, init=False)

    def feed(self, data: bytes) -> list[Event]:
        """The events that are complete after these bytes."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        events = [self._line(line.decode("utf-8", "replace")) for line in lines]
        return [event for event in events if event is not None]

    def close(self) -> list[Event]:
        """The last event, if the stream ended without an empty line."""
        line = bytes(self._rest)
        self._rest.clear()
        events = [self._line(line.decode("utf-8", "replace")) if line else None, self._line("")]
        return [event for event in events if event is not None]

    def _line(self, line: str) -> Event | None:
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        if not line:
            data, name = self._data, self._name
            self._data, self._name = [], ""
            return Event(name, "\n".join(data)) if data else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
