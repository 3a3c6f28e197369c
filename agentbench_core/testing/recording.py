"""A reporter that remembers what it was given, for tests of whatever makes runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from agentbench_core import AttemptRecord, RunView


@attrs.frozen
class Given:
    """What a reporter was given, once."""

    run: RunView
    """Reads the run directory when it is asked, so only as long as that is there."""
    into: Path
    records: tuple[AttemptRecord, ...]
    """``run.records()`` as they were then."""


class RecordingReporter:
    """Implements ``Reporter``: keeps what it was given, and writes nothing."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        """Each report that was asked for, in order."""

    @property
    def records(self) -> Sequence[AttemptRecord]:
        """Those of the last report; the check fails where none was asked for."""
        assert self.given, "no report was asked for"
        return self.given[-1].records

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """See the contract."""
        self.given.append(Given(run, into, tuple(run.records())))
        return ()
