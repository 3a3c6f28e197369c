"""Check a task, propose assertions for it, and calibrate it with all of them. Works on copies of the task."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from agentbench_core import Calibration, InputError, Interrupted
from agentbench_core.harness import Session, Task, Variant, WarningLog, calibration, open_session
from agentbench_tasks.checks import check_task
from agentbench_tasks.strengthen.calls import Skipped
from agentbench_tasks.strengthen.finding import plan_for, propose
from agentbench_tasks.strengthen.proposals import Proposal
from agentbench_tasks.strengthen.staging import additions, new_text, staged
from agentbench_tasks.validation import TaskReport, Watcher


@attrs.frozen(kw_only=True)
class Examined:
    """A task's proposals, and how hard its verdicts are to forge without and with them."""

    before: Calibration
    with_all: Calibration | None  #: with all proposals; ``None`` if there are none
    lists: Mapping[str, Sequence[str]]  #: its expected tests
    proposals: Sequence[Proposal]
    skipped: Sequence[Skipped]
    calls: int


def examine(
    task: Task, variant: Variant, watcher: Watcher, directory: Path, *, times: int, limit: int, seed: int
) -> Examined:
    """Check a task once, and propose assertions. Only files in ``directory`` are written.

    Raises:
        InputError: the task is not valid, or proposals need something that it does not have.
        UnavailableError: the sandbox is not available.
        KeyboardInterrupt: the user interrupted it; no process is left running.
    """
    copy = staged(task, directory / "before", task.text)
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session([variant], [copy], watcher))
        pool = ThreadPoolExecutor(1, thread_name_prefix="strengthening")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(session.stop.end, Interrupted("the command ended"))

        def work() -> Examined:
            before, lists = _checked(copy, variant, session, watcher)
            if not copy.spec.validation.expected_tests:  # this weakness would hide others
                with_lists = staged(task, directory / "listed", new_text(task, (), lists))
                before = _calibrated(with_lists, variant, session) or before
            found = propose(copy, variant, session, lists["fail_to_pass"], times=times, limit=limit, seed=seed)
            with_all = None
            if found.proposals:
                added = additions(task, found.proposals)
                text = new_text(task, added, lists)
                with_all = _calibrated(staged(task, directory / "all", text, added), variant, session)
            return Examined(
                before=before,
                with_all=with_all,
                lists=lists,
                proposals=found.proposals,
                skipped=found.skipped,
                calls=found.calls,
            )

        return pool.submit(work).result()


def _checked(
    task: Task, variant: Variant, session: Session, watcher: Watcher
) -> tuple[Calibration, Mapping[str, Sequence[str]]]:
    """The calibration of a valid task and its expected tests, which are determined if task.yaml does not list them."""
    check = check_task(task, variant, session, per_test=True)
    watcher.checked(task, 1, check)
    if check.problems:
        raise InputError(
            f"{task.spec.id} is not a valid task: {check.problems[0].reason}",
            remedy="Run: agentbench validate-tasks",
        )
    if check.calibration is None:
        raise InputError(
            f"the {variant.scorer.name!r} scorer does not report how hard its verdicts are to forge",
            remedy="Use a different scorer, for example: --set scorer=tests",
        )
    validation = task.spec.validation
    lists = {"fail_to_pass": validation.fail_to_pass, "pass_to_pass": validation.pass_to_pass}
    if not validation.fail_to_pass:
        found = TaskReport(task=task, checks=(check,), strict=False).expected_tests()
        if found is None or not found.fail_to_pass:
            raise InputError(f"{task.spec.id}: no test fails before the fix and passes after it")
        lists = {"fail_to_pass": found.fail_to_pass, "pass_to_pass": validation.pass_to_pass or found.pass_to_pass}
    return check.calibration, lists


def _calibrated(task: Task, variant: Variant, session: Session) -> Calibration | None:
    log = WarningLog(session.observer.note)
    prepared = session.shared.environment(task, session.shared.source(task), log)
    return calibration(plan_for(task, variant), prepared, session.shared, log, refresh=True)
