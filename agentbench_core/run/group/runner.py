"""Run a plan: every variant on every task, with repeats, in parallel, each variant in its own run directory."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from ulid import ULID

from agentbench_core.errors import AgentBenchError, Interrupted, Obstacles
from agentbench_core.evidence.reader import open_run
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.plugin.contracts import Reporter
from agentbench_core.plugin.executor import Executor, ExpectedAttempts
from agentbench_core.run.attempt.session import Session, open_session
from agentbench_core.run.attempt.work import AttemptQueue
from agentbench_core.run.attempt.writing import RunWriter
from agentbench_core.run.group.differences import environment_differences, environments_differ, in_words
from agentbench_core.run.group.group import RunPlan, open_run_writer, planned_manifest
from agentbench_core.run.group.manifest import running_harness
from agentbench_core.run.metering.llm import MeteredModels
from agentbench_core.run.metering.models import OpenModel, RunBudget, RunModel
from agentbench_core.run.observer import RunObserver, SafeObserver
from agentbench_core.run.readiness import check_out
from agentbench_core.run.remote.coordinator import Coordinator
from agentbench_core.run.remote.documents import RunDocument
from agentbench_core.run.remote.orders import run_document
from agentbench_core.run.signals import FOR_EVER, Interrupts, in_thread, run_in_thread
from agentbench_core.run.variant import ConfiguredComponent
from agentbench_core.run.waiting import DiskGuard, run_preflight
from agentbench_core.values.events import RunFinished, Warning_
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import RunManifest
from agentbench_core.values.shard import planned_count

_GRACE_SEC = 30.0
"""Seconds that an executor has to end after the last attempt."""


@attrs.frozen(kw_only=True)
class RunResult:
    """The result of one run. ``status`` is ``completed``, ``interrupted`` or ``stopped`` (see ``reason``)."""

    directory: Path
    status: str
    reason: str = ""
    report_interrupted: bool = False
    """Whether a reporter was interrupted. The results are complete in any case."""


def run_group(group: RunPlan, observer: RunObserver) -> Sequence[RunResult]:
    """Run every planned attempt that has no record yet. On an interrupt, record running attempts and return.

    Raises:
        UnavailableError: the sandbox or a model is not available; nothing was recorded.
        InputError: the run directory cannot be created, or a run cannot be resumed.
        RunStoppedError: results can no longer be written.
    """
    observer, obstacles = SafeObserver(observer, group.redactor), Obstacles()
    if len(group.resumed) < len(group.variants):
        with obstacles.gathered():
            check_out(group.out)
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(
            open_session(
                group.variants,
                group.tasks,
                observer,
                workers=group.workers,
                max_cost_usd=group.max_cost_usd,
                min_free_mb=group.min_free_mb,
                obstacles=obstacles,
                elsewhere=group.variants[0].executor.can("remote"),
            )
        )
        executor = stack.enter_context(_open_executor(group, session.stop, observer.note))
        group_id = str(ULID())
        facts = {name: model.facts for name, model in session.offered.items()}
        manifests = [planned_manifest(group, variant, group_id, facts.get(variant.name)) for variant in group.variants]
        for warning in dict.fromkeys(warning for known in facts.values() for warning in known.warnings):
            observer.note(warning)
        for like in (manifest.like for manifest in manifests if manifest.like and not group.resumed):
            observer.note(in_words(like))
        interrupts = Interrupts(session.stop)
        stack.enter_context(interrupts.handling())
        runs = [
            stack.enter_context(open_run_writer(group, variant, manifest, observer))
            for variant, manifest in zip(group.variants, manifests, strict=True)
        ]
        directories = [session.shared.directory, *(run.store.directory for run in runs)]
        offered = session.offered
        session = attrs.evolve(
            session,
            models={
                r.variant.name: MeteredModels.opener(_model(r, group, offered[r.variant.name]))
                for r in runs
                if r.variant.name in offered
            },
            space=DiskGuard(directories, group.min_free_mb, observer.note, session.stop),
            opened=time.monotonic(),
        )
        _make_attempts(executor, group, runs, session, interrupts)
        for run, manifest in zip(runs, manifests, strict=True):
            _compare(run, manifest, observer)
        ends = [_end(run, interrupts, group.redactor) for run in runs]
        for run, end in zip(runs, ends, strict=True):
            finished = RunFinished(status=end.status, attempts=run.recorded, reason=end.reason)
            run.store.emit(finished, durable=True)
        interrupts.ends = Deadline(FOR_EVER)
        written = [_report(run, interrupts.ends, observer) for run in runs]
        for run, end in zip(runs, ends, strict=True):
            observer.run_finished(run.variant.name, end.directory, end.status, end.reason)
        return [attrs.evolve(end, report_interrupted=not all_) for end, all_ in zip(ends, written, strict=True)]


def _model(run: RunWriter, group: RunPlan, model: OpenModel) -> RunModel:
    before = group.resumed.get(run.variant.name)
    budget = RunBudget(group.max_cost_usd, before.spent_usd() if before else 0.0)
    return RunModel(**attrs.asdict(model, recurse=False), budget=budget, stop=run.stop)


@contextlib.contextmanager
def _open_executor(group: RunPlan, stop: Deadline, note: Callable[[str], None]) -> Iterator[Executor]:
    """The executor of a group, after its preflight. Raises UnavailableError if it cannot run attempts."""
    ready, seconds = group.variants[0].executor, group.variants[0].settings.run.preflight_sec
    planned = [planned_count([task.spec.id for task in group.tasks], group.repeats, group.shard)] * len(group.variants)
    executor: Executor = ready.make()
    try:
        expected = ExpectedAttempts(attempts=sum(planned), places=group.workers, deadline=stop.within(seconds))
        run_preflight(ready.component, lambda: executor.preflight(expected), seconds=seconds)
        yield executor
    finally:
        _close(executor, ready.name, note)


def _close(executor: Executor, name: str, note: Callable[[str], None]) -> None:
    """Close an executor. Results are already on disk, so errors are just shown to the user."""
    try:
        executor.close()
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; it is noted
        note(f"executor {name!r} failed to close: {type(error).__name__}: {error}")


def _make_attempts(
    executor: Executor, group: RunPlan, runs: Sequence[RunWriter], session: Session, interrupts: Interrupts
) -> None:
    """Run the attempts of all runs. If the executor fails, the runs stop; they can be resumed."""

    def remote(queue: AttemptQueue, lease_sec: float) -> Coordinator:
        return Coordinator(queue, session, _run_documents(group, runs, session), _environment_differences, lease_sec)

    work, name = AttemptQueue(session, runs, group.workers, remote), group.variants[0].executor.name
    thread, ended = in_thread(lambda: executor.run(work), f"executor {name}")
    shown = False
    try:
        while thread.is_alive() and not work.error and not (work.ended and not work.running):
            thread.join(0.2)  # short, so that signals are handled
            if interrupts.interrupted and not shown:
                shown = True
                session.observer.note(
                    "interrupted: recording running attempts. Press Ctrl-C again to exit immediately."
                )
    finally:
        session.stop.end(Interrupted("the run ended"))
        _wait(thread, work)
    if work.error:
        raise work.error
    problem = ended.exception() if ended.done() else TimeoutError(f"it did not end within {_GRACE_SEC:g} s")
    if problem:
        text = str(problem) if isinstance(problem, AgentBenchError) else f"{type(problem).__name__}: {problem}"
        session.observer.note(f"executor {name!r} failed: {text}")
        for run in runs:
            if run.recorded < run.planned:
                run.stop.request(f"executor {name!r} failed: {text}")


def _run_documents(group: RunPlan, runs: Sequence[RunWriter], session: Session) -> Mapping[str, RunDocument]:
    """The facts that workers need about each run with attempts, by run id."""
    documents = {}
    for run in (run for run in runs if run.plans):
        offered = session.offered.get(run.variant.name)
        documents[run.plans[0].run_id] = run_document(
            run.plans[0].run_id,
            run.variant,
            offered.facts if offered else None,
            running_harness(),
            group.plugins,
            group.redactor,
        )
    return documents


def _environment_differences(one: Mapping[str, str], other: Mapping[str, str]) -> Sequence[str]:
    """How the environments of one task on two workers differ."""
    return environments_differ({"task": one}, {"task": other}, machines=False)


def _wait(thread: threading.Thread, work: AttemptQueue) -> None:
    """Wait until all attempts are recorded, and then briefly for the executor to end."""
    grace = Deadline(_GRACE_SEC)
    while thread.is_alive() and not grace.expired:
        thread.join(0.2)
        if work.running:
            grace = Deadline(_GRACE_SEC)


def _compare(run: RunWriter, manifest: RunManifest, observer: RunObserver) -> None:
    """Report and record how the environments of a run differ from the run whose plan it repeats."""
    if manifest.like is None or not run.plans:
        return
    result = environment_differences(manifest.like, open_run(run.store.directory))
    for difference in result:
        observer.note(f"comparison with {manifest.like.directory}: {difference}")
        run.store.emit(Warning_(message=f"comparison with run {manifest.like.run_id}: {difference}"))
    if result:
        every = tuple(dict.fromkeys((*manifest.like.differences, *result)))
        run.store.write_manifest(attrs.evolve(manifest, like=attrs.evolve(manifest.like, differences=every)))


def _end(run: RunWriter, interrupts: Interrupts, redactor: Redactor) -> RunResult:
    missing = run.planned - run.recorded
    if missing and not interrupts.interrupted:
        run.stop.request(f"{missing} attempt was not run" if missing == 1 else f"{missing} attempts were not run")
    status = "interrupted" if interrupts.interrupted else "stopped" if run.stop.reason else "completed"
    return RunResult(directory=run.store.directory, status=status, reason=redactor.clean_text(run.stop.reason))


def _report(run: RunWriter, stop: Deadline, observer: RunObserver) -> bool:
    """Write the reports; if a reporter fails, only its report is missing. False if a reporter was interrupted."""
    for ready in run.variant.reporters:
        observer.report_started(ready.name)
        done = write_report(ready, run.store.directory, observer.note, stop=stop, clean=run.store.clean_file)
        observer.report_finished(ready.name)
        if not done:
            return False
    return True


def write_report(
    ready: ConfiguredComponent,
    directory: Path,
    note: Callable[[str], None],
    *,
    stop: Deadline | None = None,
    clean: Callable[[Path], None] = lambda path: None,
) -> bool:
    """Write the report of a recorded run into its directory. If the reporter fails, a note reports it.

    Args:
        ready: the reporter.
        directory: the run directory.
        note: receives error messages.
        stop: when to give up; by default, never.
        clean: called with each file that was written.

    Returns:
        False if the reporter was interrupted.
    """

    def write() -> None:
        reporter: Reporter = ready.make()
        for path in reporter.report(open_run(directory), directory):
            clean(path)

    reported = run_in_thread(write, f"reporter {ready.name}", stop or Deadline(FOR_EVER), grace=0)
    if not reported.done():
        note(f"reporter {ready.name!r} was interrupted: its report is missing, but the results are complete")
        return False
    if (error := reported.exception()) is not None:  # results are safe; the report can be generated again
        note(f"reporter {ready.name!r} failed: {type(error).__name__}: {error}")
    return True
