"""Events and evidence where nothing is recorded: tasks are looked at, and a person at the terminal wants to know."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from agentbench_core.evidence.redaction import Redactor
from agentbench_core.values.events import Event, Warning_
from agentbench_core.values.execution import Output

_TAIL = 15  # lines of each stream


@attrs.frozen
class Notes:
    """Implements ``EventLog``: of all events, warnings are for the person at the terminal."""

    note: Callable[[str], None]

    def emit(self, event: Event) -> None:
        """Tell a warning."""
        if isinstance(event, Warning_):
            self.note(event.message)


class Printed:
    """Implements ``Evidence``: of all that is kept of an attempt, the last output is what explains how it ended."""

    def __init__(self, *streams: Output) -> None:
        self._streams = streams

    def write(self, name: str, data: bytes | str) -> None:
        """Not needed."""

    def append_json(self, name: str, value: object) -> None:
        """Not needed."""

    def log(self, phase: str, stdout: Output, stderr: Output, *, full: bool) -> None:
        """Keep the last one."""
        self._streams = (stdout, stderr)

    def tail(self, redactor: Redactor) -> str:
        """The last lines of each stream, without secrets."""
        texts = [redactor.clean(stream.data).decode("utf-8", "backslashreplace") for stream in self._streams]
        return "\n".join(line for text in texts for line in text.strip().splitlines()[-_TAIL:])
