"""``flakes.yaml`` of a suite: failure rates of its graders and environments, and quarantined tasks.

No data in it comes from agents: ``validate-tasks --flakes`` measures with the reference solution and the empty patch.
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import attrs

from agentbench_core.converter import load
from agentbench_core.inputs.documents import read_yaml
from agentbench_core.inputs.suite import Task
from agentbench_core.schema import FieldValueError, option

FLAKES_FILE = "flakes.yaml"  #: name of the file in the directory of a suite

_DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_NAMED = 5  # maximum number of tasks listed in one note


@attrs.frozen(kw_only=True)
class EnvironmentChecks:
    """Failures outside the grader: a failed setup, a broken sandbox."""

    checks: int = option(
        help="number of times that an environment was prepared or used; a failed setup counts once", minimum=0
    )
    failed: int = option(help="number of failures", minimum=0)
    rate: float = option(help="`failed` divided by `checks`", minimum=0, maximum=1)
    low: float = option(help="lower bound of the 95% Wilson interval", minimum=0, maximum=1)
    high: float = option(help="upper bound of the 95% Wilson interval", minimum=0, maximum=1)

    def __attrs_post_init__(self) -> None:
        if self.failed > self.checks:
            raise FieldValueError("failed", f"found {self.failed}, but `checks` is {self.checks}")


@attrs.frozen(kw_only=True)
class Measured:
    """Measurements of one task in one sandbox."""

    digest: str = option(help="digest of the task; if it changes, the entry expires")
    date: str = option(help="date of the last measurement", pattern=_DATE)
    expires: str = option(help="the last day on which this entry is valid", pattern=_DATE)
    harness: str = option(help="AgentBench version used for the last measurement")
    checks: int = option(help="number of grader checks: baseline, empty patch and reference solution", minimum=1)
    flaky: int = option(
        help="number of wrong results: the reference solution failed, the empty patch passed, ...", minimum=0
    )
    rate: float = option(help="`flaky` divided by `checks`", minimum=0, maximum=1)
    low: float = option(help="lower bound of the 95% Wilson interval", minimum=0, maximum=1)
    high: float = option(help="upper bound of the 95% Wilson interval", minimum=0, maximum=1)
    environment: EnvironmentChecks = option(help="failures of setups and sandboxes, which do not affect verdicts")
    quarantined: bool = option(help="whether `rate` is above `quarantine_above`")

    def __attrs_post_init__(self) -> None:
        if self.flaky > self.checks:
            raise FieldValueError("flaky", f"found {self.flaky}, but `checks` is {self.checks}")


@attrs.frozen(kw_only=True)
class TaskFlakes:
    """A task's measurements, and manual decisions about it."""

    quarantined: bool = option(False, help="true: manual quarantine in every sandbox; requires a `reason`")
    reason: str = option("", help="reason for the quarantine")
    digest: str = option("", help="for a manual quarantine: the task digest for which it is valid")
    expires: str = option("", help="for a manual quarantine: the last day it is valid", pattern=f"(?:{_DATE})?")
    measured: Mapping[str, Measured] = option(attrs.Factory(dict), help="measurements by sandbox name")

    def __attrs_post_init__(self) -> None:
        if self.quarantined and not self.reason.strip():
            raise FieldValueError("reason", "missing: a quarantined task needs a reason")


@attrs.frozen(kw_only=True)
class Flakes:
    """The contents of ``flakes.yaml``."""

    quarantine_above: float = option(
        0.02, help="a task is quarantined in a sandbox where its `rate` is above this", minimum=0, maximum=1
    )
    expires_after_days: int = option(
        90, help="number of days that a measurement remains valid", minimum=1, maximum=3650
    )
    tasks: Mapping[str, TaskFlakes] = option(attrs.Factory(dict), help="entries by task id")


@attrs.frozen(kw_only=True)
class Quarantine:
    """The quarantine of some tasks as of today."""

    reasons: Mapping[str, str]
    """The reason for each quarantined task, by id."""
    flaky: Mapping[str, str]
    """The measured flakes of each flaky task, quarantined or not, by id."""
    notes: tuple[str, ...]
    """Outdated entries, one sentence per file."""


def read_flakes(suite: Path) -> Flakes:
    """The contents of a suite's ``flakes.yaml``; empty without a file. Raises InputError listing every problem."""
    path = suite / FLAKES_FILE
    if not os.path.lexists(path):
        return Flakes()
    data = read_yaml(path)
    return load({} if data is None else data, Flakes, where=str(path))


def quarantine(tasks: Sequence[Task], sandbox: str | None, today: datetime.date) -> Quarantine:
    """The tasks that are quarantined in a sandbox, or in any sandbox (``None``), according to their suites' files.

    Entries that have expired, or whose digest differs from the task's, have no effect.
    """
    reasons: dict[str, str] = {}
    flaky: dict[str, str] = {}
    outdated: dict[Path, list[Task]] = {}
    files: dict[Path, Flakes] = {}
    for task in tasks:
        suite = task.directory.parent
        if suite not in files:
            files[suite] = read_flakes(suite)
        entry = files[suite].tasks.get(task.spec.id)
        if entry is None:
            continue
        result, flakes_seen, is_outdated = _status(entry, task.digest, sandbox, today.isoformat())
        if result:
            reasons[task.spec.id] = "; ".join(result)
        if flakes_seen:
            flaky[task.spec.id] = "; ".join(flakes_seen)
        if is_outdated:
            outdated.setdefault(suite, []).append(task)
    notes = tuple(_out_of_date(suite, is_outdated) for suite, is_outdated in outdated.items())
    return Quarantine(reasons=reasons, flaky=flaky, notes=notes)


def _status(
    entry: TaskFlakes, digest: str, sandbox: str | None, today: str
) -> tuple[Sequence[str], Sequence[str], bool]:
    """Why a task is quarantined, its measured flakes, and whether a part of its entry is outdated."""
    result, flakes_seen, is_outdated = [], [], False
    if entry.quarantined:
        if entry.digest not in ("", digest) or (entry.expires and entry.expires < today):
            is_outdated = True
        else:
            result.append(f"by hand: {' '.join(entry.reason.split())}")
    for name, measured in entry.measured.items():
        if sandbox not in (None, name):
            continue
        if measured.digest != digest or measured.expires < today:
            is_outdated = True
        elif measured.quarantined or measured.flaky:
            share = f"{measured.flaky} of {measured.checks} checks flaked in {name}"
            if measured.flaky == measured.checks:  # edited by hand: a task that always fails is broken, not flaky
                share = f"{measured.checks} of {measured.checks} checks failed in {name}"
            flakes = f"{share}, {rate_text(measured.flaky, measured.checks)}, {measured.date}"
            result += [flakes] * measured.quarantined
            flakes_seen += [flakes] * bool(measured.flaky)
    return result, flakes_seen, is_outdated


def _out_of_date(suite: Path, tasks: Sequence[Task]) -> str:
    names = ", ".join(task.spec.id for task in tasks[:_NAMED])
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    command = f"agentbench validate-tasks --suite {tasks[0].spec.suite} --times 20 --flakes"
    return f"{suite / FLAKES_FILE} is out of date for {names}{more}: validate again ({command})"


def rate_text(events: int, of: int) -> str:
    """A rate with its interval: ``10.0% (95% CI 2.8% to 30.1%)``."""
    low, high = wilson(events, of)
    return f"{events / of if of else 0:.1%} (95% CI {low:.1%} to {high:.1%})"


def wilson(events: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a rate, from ``events`` among ``of`` independent checks; within 0 to 1.

    With ``p = events / of``, ``n = of`` and ``z`` the normal quantile of ``(1 + confidence) / 2``::

        (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)

    Its width is never 0, even for 0 of n and n of n. For n = 0, it is 0 to 1.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927) 209.

    Raises:
        ValueError: ``events`` is not within 0 to ``of``, or ``confidence`` is not between 0 and 1.
    """
    if not 0 <= events <= of:
        raise ValueError(f"events must be between 0 and {of}: {events}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1: {confidence}")
    if not of:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = events / of
    middle = rate + z * z / (2 * of)
    half = z * math.sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    low = 0.0 if events == 0 else (middle - half) / scale  # exact at the ends, despite rounding
    high = 1.0 if events == of else (middle + half) / scale
    return max(0.0, low), min(1.0, high)
