"""Propose assertions for a task. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from agentbench_core import InputError
from agentbench_core.harness import (
    AttemptPlan,
    ConfiguredComponent,
    Session,
    Task,
    Variant,
    WarningLog,
    calibration_context,
    hidden_paths,
)
from agentbench_tasks.checks import DoNothing
from agentbench_tasks.strengthen.calls import Call, Skipped, find_calls
from agentbench_tasks.strengthen.command_line import runs_pytest
from agentbench_tasks.strengthen.inputs import other_inputs
from agentbench_tasks.strengthen.observing import Probe, observe
from agentbench_tasks.strengthen.proposals import Proposal, make_proposals

MARK = "# Written by `agentbench tasks strengthen`:"
"""A comment in files with accepted proposals, whose calls are not varied again."""
_MAX_CALLS = 60
"""Maximum number of different calls that are varied."""
_INPUTS = 48
"""Other inputs per call."""


@attrs.frozen(kw_only=True)
class Found:
    """The proposals for a task."""

    proposals: Sequence[Proposal]
    skipped: Sequence[Skipped]  #: comparisons without a proposal, with the reason
    calls: int  #: number of different calls that were varied


def plan_for(task: Task, variant: Variant) -> AttemptPlan:
    """A plan for calibrating the task's scorer."""
    idle = ConfiguredComponent.own_agent("idle", DoNothing())
    return AttemptPlan(
        run_id="", attempt_id="", task=task, variant=variant, agent=idle, scorer=variant.scorer, repeat=1
    )


def propose(
    task: Task,
    variant: Variant,
    session: Session,
    tests: Sequence[str],
    *,
    times: int = 3,
    limit: int = 20,
    seed: int = 0,
) -> Found:
    """Propose assertions for the hidden tests of a task.

    Args:
        task: a valid task with a reference solution.
        variant: its sandbox, tools and limits are used.
        session: an open session that contains the task.
        tests: ids of the tests that fail before the fix and pass after it.
        times: number of runs in which a value must be the same.
        limit: maximum number of proposals.
        seed: selects the inputs.

    Raises:
        InputError: proposals need something that the task does not have.
        CalibrationError: the calls could not be run.
        SetupError: the environment cannot be set up.
        SandboxError: the sandbox failed.
    """
    require(task)
    calls, skipped = _calls(task, tests)
    earlier = [file.data.decode("utf-8", "replace") for file in task.hidden if MARK.encode() in file.data]
    probes = [
        probe
        for call in calls
        for inputs in other_inputs(call.inputs, _INPUTS, f"{seed} {call.where}")
        for probe in [Probe(call=call, inputs=inputs)]
        if not any(probe.source in text for text in earlier)
    ]
    if not probes:
        return Found(proposals=(), skipped=skipped, calls=len(calls))
    log = WarningLog(session.observer.note)
    shared = session.shared
    prepared = shared.environment(task, shared.source(task), log)
    with calibration_context(plan_for(task, variant), prepared, shared, log) as context:
        observed = observe(context, probes, times=times, seed=seed)
    session.stop.check()
    proposals, without = make_proposals(observed, limit)
    return Found(proposals=proposals, skipped=(*without, *skipped), calls=len(calls))


def require(task: Task) -> None:
    """Raise InputError if the task lacks something that proposals need."""
    where = f"{task.spec.id}: no assertions can be proposed"
    if not task.script:
        raise InputError(f"{where}: the task has no reference solution", remedy="Add oracle.patch to task.yaml.")
    if not any(path.endswith(".py") for path in hidden_paths(task)):
        raise InputError(f"{where}: the task has no hidden tests in Python", remedy="Add them under validation.files.")
    if not runs_pytest(task.spec.validation.passing_command):
        raise InputError(
            f"{where}: passing_command does more than run pytest",
            remedy="Use a plain command, for example: python -m pytest -q",
        )


def _calls(task: Task, tests: Sequence[str]) -> tuple[Sequence[Call], Sequence[Skipped]]:
    """The calls in failing tests of hidden files."""
    by_file: Mapping[str, bytes] = {p: file.data for p, file in zip(hidden_paths(task), task.hidden, strict=True)}
    calls: list[Call] = []
    skipped: list[Skipped] = []
    for path, data in by_file.items():
        names = {rest.partition("[")[0] for file, _, rest in (test.partition("::") for test in tests) if file == path}
        if names and path.endswith(".py") and MARK.encode() not in data:
            found, left_out = find_calls(data.decode("utf-8", "replace"), path, names)
            calls += found
            skipped += left_out
    if len(calls) > _MAX_CALLS:
        skipped += [
            Skipped(where=call.where, reason="the limit on the number of calls was reached")
            for call in calls[_MAX_CALLS:]
        ]
    return calls[:_MAX_CALLS], skipped
