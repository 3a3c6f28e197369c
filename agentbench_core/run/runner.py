"""Run a group: every variant on every task, as often as asked, some at once, each in its own run directory."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import itertools
import os
import platform
import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import attrs
from ulid import ULID

import agentbench_core
from agentbench_core.errors import InputError, Interrupted
from agentbench_core.evidence.layout import run_directory_name
from agentbench_core.evidence.reader import open_run
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.contracts import Reporter, SandboxProvider
from agentbench_core.plugin.registry import Provenance
from agentbench_core.run.attempt import Bench, make_attempt
from agentbench_core.run.listening import Listener, Shielded
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.preparation import Preparations
from agentbench_core.run.records import local_time
from agentbench_core.run.variant import Variant
from agentbench_core.values.events import RunFinished, RunStarted
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import AttemptRecord, HarnessInfo, PluginEntry, RunManifest, TaskEntry
from agentbench_core.workspace.scratch import Scratch

_FOR_EVER = 1e8  # seconds; about three years, and safe to hand to every clock


@attrs.frozen(kw_only=True)
class Group:
    """What a command runs: variants that share tasks, and how."""

    suite: str
    tasks: Sequence[Task]
    variants: Sequence[Variant]
    repeats: int
    workers: int
    out: Path
    argv: Sequence[str]
    plugins: Sequence[Provenance]


@attrs.frozen(kw_only=True)
class FinishedRun:
    """One run of a group. ``status`` is ``completed`` or ``interrupted``."""

    variant: Variant
    directory: Path
    records: tuple[AttemptRecord, ...]
    planned: int
    status: str


@attrs.define(kw_only=True)
class _Run:
    manifest: RunManifest
    store: Store
    variant: Variant
    plans: list[AttemptPlan]
    records: list[AttemptRecord] = attrs.field(factory=list)


def run_group(group: Group, listener: Listener) -> Sequence[FinishedRun]:
    """Make every planned attempt; on an interrupt mark what runs, and return what there is.

    Raises:
        UnavailableError: the sandbox cannot work here; nothing was recorded.
        InputError: there can be no run directory at that place.
        RunStoppedError: results cannot be written any more.
    """
    listener = Shielded(listener)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_signals_as_ctrl_c())
        for variant in group.variants:
            variant.try_out()
        provider: SandboxProvider = group.variants[0].sandbox.make()
        stack.callback(provider.close)
        provider.preflight()
        for leftover in (*Scratch.sweep("run"), *provider.sweep()):
            listener.note(f"removed what a dead run left behind: {leftover}")
        scratch = Scratch("run")
        stack.callback(scratch.close)
        stop = Deadline(_FOR_EVER)
        bench = Bench(
            shared=Preparations(provider, scratch, stop),
            llms={v.name: v.llm.make() for v in group.variants if v.llm is not None},
            stop=stop,
            listener=listener,
        )
        group_id = str(ULID())
        runs = [stack.enter_context(_open(group, variant, group_id)) for variant in group.variants]
        status = _make_attempts(group, runs, bench)
        for run in runs:
            run.store.emit(RunFinished(status=status, attempts=len(run.records)), durable=True)
        return [_finish(run, status, listener) for run in runs]


def _make_attempts(group: Group, runs: Sequence[_Run], bench: Bench) -> str:
    """All attempts of all runs; those of one task follow each other, since they share its environment."""
    queue = sorted(
        ((plan, run) for run in runs for plan in run.plans), key=lambda pair: (pair[0].task.spec.id, pair[0].repeat)
    )
    status = "completed"
    pool = ThreadPoolExecutor(group.workers, thread_name_prefix="attempt")
    try:
        pending: dict[Future[AttemptRecord], _Run] = {
            pool.submit(make_attempt, plan, bench, run.store): run for plan, run in queue
        }
        while pending:
            try:
                _collect(pending)
            except KeyboardInterrupt:
                if status == "interrupted":
                    bench.listener.note("interrupted again: killed\x1b[?25h")  # a live display hides the cursor
                    os._exit(130)  # sandboxes die with us, records are on disk
                status = "interrupted"
                bench.listener.note("interrupted: marking what runs; once more kills it")
                bench.stop.end(Interrupted("the run was interrupted"))
                pending = {future: run for future, run in pending.items() if not future.cancel()}
    finally:
        bench.stop.end(Interrupted("the run ended"))
        pool.shutdown(wait=True, cancel_futures=True)
    return status


def _collect(pending: dict[Future[AttemptRecord], _Run]) -> None:
    """Take in what has finished; short waits, so that signals are seen."""
    done, _ = concurrent.futures.wait(pending, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED)
    for future in done:
        run = pending.pop(future)
        run.records.append(future.result())


@contextlib.contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and a terminal that is closed stop a run as Ctrl-C does."""
    with contextlib.ExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                with contextlib.suppress(ValueError):  # not in the main thread: whoever called us handles signals
                    stack.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
        yield


@contextlib.contextmanager
def _open(group: Group, variant: Variant, group_id: str) -> Iterator[_Run]:
    run_id = str(ULID())
    started = datetime.datetime.now().astimezone()
    model = variant.model.name if variant.model else ""
    directory = _fresh(group.out / run_directory_name(started, group.suite, variant.name, model))
    secrets = {name for task in group.tasks for name in task.spec.artifacts.redact}
    store = Store(directory, Redactor(os.environ, secrets))
    try:
        manifest = _manifest(group, variant, run_id, group_id)
        store.write_manifest(manifest)
        plans = [
            AttemptPlan(run_id=run_id, attempt_id=str(ULID()), task=task, variant=variant, repeat=repeat)
            for task in group.tasks
            for repeat in range(1, group.repeats + 1)
        ]
        store.emit(RunStarted(run_id=run_id, attempts=len(plans)))
        yield _Run(manifest=manifest, store=store, variant=variant, plans=plans)
    finally:
        store.close()


def _fresh(directory: Path) -> Path:
    """The directory, or with a number when another run of the same second has it."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            candidate = directory if number == 1 else directory.with_name(f"{directory.name}-{number}")
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()
                return candidate
    except OSError as error:
        raise InputError(
            f"cannot make {directory}: {error.strerror}", remedy="Choose another place: --out DIR"
        ) from None
    raise AssertionError("the loop ends by returning")


def _finish(run: _Run, status: str, listener: Listener) -> FinishedRun:
    """Write the reports; a reporter that fails loses its own report and nothing else."""
    for ready in run.variant.reporters:
        try:
            reporter: Reporter = ready.make()
            reporter.report(open_run(run.store.directory), run.store.directory)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the results are safe; the report can be made again
            listener.note(f"reporter {ready.name!r} failed: {type(error).__name__}: {error}")
    return FinishedRun(
        variant=run.variant,
        directory=run.store.directory,
        records=tuple(run.records),
        planned=len(run.plans),
        status=status,
    )


def _manifest(group: Group, variant: Variant, run_id: str, group_id: str) -> RunManifest:
    return RunManifest(
        run_id=run_id,
        group_id=group_id,
        created_at=local_time(),
        harness=HarnessInfo(version=agentbench_core.__version__, git_sha=_git_sha()),
        argv=tuple(group.argv),
        suite=group.suite,
        variant=variant.name,
        variant_digest=variant.digest,
        agent=variant.agent_names,
        repeats=group.repeats,
        config=variant.leaves,
        tasks=tuple(
            TaskEntry(id=task.spec.id, digest=task.digest, path=str(task.directory), commit=task.spec.repo.commit)
            for task in group.tasks
        ),
        plugins=tuple(
            PluginEntry(name=source.plugin, distribution=source.distribution, version=source.version)
            for source in group.plugins
        ),
        platform={
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": str(os.cpu_count()),
        },
    )


def _git_sha() -> str:
    """Commit of the harness's own checkout; empty when it is installed from a package."""
    home = Path(agentbench_core.__file__).parent.parent
    if not (home / ".git").exists():
        return ""
    command = ["git", "-C", str(home), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
