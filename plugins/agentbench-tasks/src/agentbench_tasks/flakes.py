"""Add checks of tasks to the ``flakes.yaml`` of their suite, and update the quarantine."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

from agentbench_core import InputError, dump
from agentbench_core.harness import (
    FLAKES_FILE,
    EnvironmentChecks,
    Flakes,
    Measured,
    Task,
    TaskFlakes,
    parse_yaml,
    read_flakes,
    replace_text,
    wilson,
)

_HEAD = """\
# Written by `agentbench validate-tasks --flakes` (docs/flakes.md). Your own settings, and tasks that you quarantined by
# hand, are preserved, but comments are not: use `reason` for notes.
"""
_DIGITS = 6  # decimal places of a rate


@attrs.frozen(kw_only=True)
class CheckCounts:
    """Counts of checks. ``environment_checks`` counts setups and sandboxes."""

    checks: int
    flaky: int
    environment_checks: int
    environment_failed: int

    @property
    def broken(self) -> bool:
        """Whether every check failed, which means that the task is broken and not flaky."""
        return 0 < self.checks == self.flaky

    def __add__(self, other: CheckCounts) -> CheckCounts:
        counts, added = attrs.asdict(self), attrs.asdict(other)
        return CheckCounts(**{name: counts[name] + added[name] for name in counts})


def add_checks(
    suite: Path, checked: Sequence[tuple[Task, CheckCounts]], *, sandbox: str, harness: str, today: datetime.date
) -> Mapping[str, Measured]:
    """Add checks to the file of a suite, update the quarantine, and return the new measurements by task id.

    Checks of a task with the same digest in the same sandbox add up until they expire. A task without any successful
    check is broken, not flaky, so nothing is written for it.

    Raises:
        InputError: the file cannot be read or written. Nothing was changed.
    """
    path = suite / FLAKES_FILE
    with _held(suite):
        flakes = read_flakes(suite)
        tasks = dict(flakes.tasks)
        written = {}
        for task, new in checked:
            entry = tasks.get(task.spec.id, TaskFlakes())
            before = entry.measured.get(sandbox)
            adds_up = before is not None and before.digest == task.digest and before.expires >= today.isoformat()
            tally = new + _tally(before) if before is not None and adds_up else new
            if tally.flaky == tally.checks:
                continue
            now = _measured(task.digest, tally, flakes, harness, today)
            written[task.spec.id] = now
            tasks[task.spec.id] = attrs.evolve(entry, measured={**entry.measured, sandbox: now})
        if written:
            _write(path, attrs.evolve(flakes, tasks=_decided(tasks, flakes.quarantine_above)))
    return written


def _tally(measured: Measured) -> CheckCounts:
    around = measured.environment
    return CheckCounts(
        checks=measured.checks,
        flaky=measured.flaky,
        environment_checks=around.checks,
        environment_failed=around.failed,
    )


def _measured(digest: str, tally: CheckCounts, flakes: Flakes, harness: str, today: datetime.date) -> Measured:
    return Measured(
        digest=digest,
        date=today.isoformat(),
        expires=(today + datetime.timedelta(days=flakes.expires_after_days)).isoformat(),
        harness=harness,
        checks=tally.checks,
        flaky=tally.flaky,
        **rate_of(tally.flaky, tally.checks),
        environment=EnvironmentChecks(
            checks=tally.environment_checks,
            failed=tally.environment_failed,
            **rate_of(tally.environment_failed, tally.environment_checks),
        ),
        quarantined=tally.flaky / tally.checks > flakes.quarantine_above,
    )


def rate_of(events: int, of: int) -> Mapping[str, float]:
    """A rate with its 95% CI, as written to the file: ``rate``, ``low``, ``high``."""
    low, high = wilson(events, of)
    return {
        "rate": round(events / of if of else 0.0, _DIGITS),
        "low": round(low, _DIGITS),
        "high": round(high, _DIGITS),
    }


def _decided(tasks: Mapping[str, TaskFlakes], above: float) -> Mapping[str, TaskFlakes]:
    """The same entries, with ``quarantined`` updated for the current limit."""
    return {
        name: attrs.evolve(
            entry,
            measured={
                sandbox: attrs.evolve(measurement, quarantined=measurement.flaky / measurement.checks > above)
                for sandbox, measurement in entry.measured.items()
            },
        )
        for name, entry in sorted(tasks.items())
    }


def _write(path: Path, flakes: Flakes) -> None:
    plain: dict[str, Any] = dump(flakes)
    nothing = dump(TaskFlakes())
    plain["tasks"] = {
        name: {key: value for key, value in entry.items() if value != nothing[key]}
        for name, entry in plain["tasks"].items()
    }
    text = _HEAD + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    if parse_yaml(text, str(path)) != plain:
        raise InputError(f"{path} cannot be rewritten", remedy="Simplify the manually written parts.")
    replace_text(path, text)


@contextlib.contextmanager
def _held(suite: Path) -> Iterator[None]:
    """Lock the suite's directory, so that concurrent commands do not lose updates."""
    try:
        handle = os.open(suite, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"{suite} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
