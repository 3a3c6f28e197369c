"""Find the tasks of a suite that no longer work, and move them out of it."""

from __future__ import annotations

import datetime
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import attrs

import agentbench_core
from agentbench_core import AgentBenchError, InputError
from agentbench_core.harness import Task, read_task, replace_text
from agentbench_tasks.rules import Problem, Rule
from agentbench_tasks.validation import TaskReport

RETIRED = ".retired"
"""Directory in a suite for retired tasks, which are no longer part of the suite."""

_MACHINE = frozenset(
    {Rule.CHECKED, Rule.BASELINE_IN_TIME, Rule.EMPTY_PATCH_IN_TIME, Rule.ORACLE_IN_TIME, "network_off"}
)
"""Rules that can be broken by the machine: by its sandbox, its network or its load."""

_GONE = re.compile(r"\(from versions: (?!none\))|has no commit [0-9a-f]{40}")
"""Setup messages about something that no longer exists. Without a network, pip lists no other versions."""
_NETWORK = re.compile(
    r"Retrying \(|Max retries|Temporary failure in name resolution|Name or service not known|Could not resolve"
    r"|[Cc]onnection (refused|reset|timed out|aborted)|Network is unreachable|Read timed out|ProxyError|SSLError"
    r"|HTTP error (429|5\d\d)|No space left"
)
"""Setup messages about the network or the disk."""

Action = Literal["kept", "retired", "unknown"]


@attrs.frozen(kw_only=True)
class Decision:
    """The decision about a task after its checks."""

    report: TaskReport
    action: Action
    reason: str  #: one sentence; empty for a valid task


def decide(reports: Sequence[TaskReport]) -> Sequence[Decision]:
    """Decide for each task of a suite whether to retire it.

    A task is retired if it broke a rule in every check and the machine cannot be the cause. If no task is valid, the
    machine may be the cause, so none is retired.
    """
    machine_works = any(report.verdict == "valid" for report in reports)
    return [_decision(report, machine_works) for report in reports]


def _decision(report: TaskReport, machine_works: bool) -> Decision:
    if report.verdict == "valid":
        return Decision(report=report, action="kept", reason="")
    first = report.problems[0][0]
    if report.verdict == "flaky":
        return Decision(report=report, action="kept", reason=f"flaky: {first.reason}")
    rotten = _rotten(report)
    if rotten is None:
        return Decision(report=report, action="unknown", reason=f"possibly caused by this machine: {first.reason}")
    if not machine_works:
        reason = f"no task in the suite is valid here, possibly because of this machine: {rotten.reason}"
        return Decision(report=report, action="unknown", reason=reason)
    return Decision(report=report, action="retired", reason=rotten.reason)


def _rotten(report: TaskReport) -> Problem | None:
    """A problem of every check that the machine cannot have caused; ``None`` without one."""
    for problem, times in report.problems:
        if times < len(report.checks) or problem.rule in _MACHINE:
            continue
        text = f"{problem.reason}\n{problem.output}"
        if problem.rule == Rule.SETUP and (_NETWORK.search(text) or not _GONE.search(text)):
            continue
        return problem
    return None


def retire(decision: Decision, *, sandbox: str, now: datetime.datetime) -> Path:
    """Move a task to the retired tasks of its suite, with the reasons in ``retired.json``. Returns its new directory.

    Raises:
        InputError: the task has changed since it was checked, or cannot be moved. It is still part of the suite.
    """
    task, directory = decision.report.task, decision.report.task.directory
    if not _is_unchanged(task):
        raise InputError(f"{directory} has changed since it was checked", remedy="Run the command again.")
    text = json.dumps(_record(decision, sandbox, now), indent=2, ensure_ascii=False)
    replace_text(directory / "retired.json", f"{text}\n")
    target = _free(directory.parent / RETIRED / directory.name)
    try:
        target.parent.mkdir(exist_ok=True)
        directory.rename(target)
    except OSError as error:
        raise InputError(f"{directory} cannot be moved to {target}: {error.strerror}") from None
    return target


def _record(decision: Decision, sandbox: str, now: datetime.datetime) -> dict[str, object]:
    report = decision.report
    return {
        "task": report.task.spec.id,
        "digest": report.task.digest,
        "retired_at": now.isoformat(timespec="seconds"),
        "checks": len(report.checks),
        "reasons": [
            {"rule": str(problem.rule), "times": times, "reason": problem.reason, "output": problem.output}
            for problem, times in report.problems
        ],
        "sandbox": sandbox,
        "versions": {"agentbench": agentbench_core.__version__, "python": platform.python_version()},
        "platform": platform.platform(),
    }


def _is_unchanged(task: Task) -> bool:
    try:
        return read_task(task.directory).digest == task.digest
    except AgentBenchError:
        return False


def _free(target: Path) -> Path:
    """The target, or with a number if an earlier task of this name was retired."""
    names = (target, *(target.with_name(f"{target.name}@{number}") for number in range(2, 10_000)))
    return next(path for path in names if not path.exists())
