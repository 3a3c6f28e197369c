"""State shared by the attempts of one command, opened before the first and closed after the last."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from agentbench_core.errors import Obstacles
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.sandbox import Environment, SandboxProvider
from agentbench_core.run.attempt.preparation import Baseline, PreparedTasks, WriteSource, write_checkout
from agentbench_core.run.attempt.record import AttemptResult
from agentbench_core.run.attempt.scoring import ScoringRun
from agentbench_core.run.metering.llm import OpenModels
from agentbench_core.run.metering.models import OpenModel, open_models
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.readiness import check_git
from agentbench_core.run.recording import AttemptEvents, Recording
from agentbench_core.run.signals import FOR_EVER, signals_as_ctrl_c
from agentbench_core.run.variant import Variant
from agentbench_core.run.waiting import DiskGuard, run_preflight
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Score
from agentbench_core.workspace.scratch import Scratch


@attrs.frozen(kw_only=True)
class Session:
    """Prepared tasks, models, the deadline that an interrupt ends, the disk guard and the observer."""

    shared: PreparedTasks  #: prepared tasks
    offered: Mapping[str, OpenModel]
    """Models after their preflight, by variant."""
    stop: Deadline
    """Ends with the command, or earlier if the user interrupts it."""
    space: DiskGuard  #: waits while the disk is full
    observer: RunObserver  #: receives progress and notes
    models: Mapping[str, OpenModels] = attrs.field(factory=dict)
    """Opens the models of an attempt, by variant."""
    accept: Callable[[AttemptPlan, Environment], None] = lambda plan, environment: None
    """Raises RunStoppedError if an environment differs from the one of other attempts on the task."""
    opened: float = attrs.field(factory=time.monotonic)
    """When the attempts started, on the monotonic clock; in a resumed run, when the remaining ones started."""

    def baseline(self, task: Task, log: AttemptEvents) -> Baseline:
        """The baseline of a task, in its prepared environment. SetupError, SandboxError and Interrupted propagate."""
        prepared = self.shared.environment(task, self.shared.source(task), log)
        return self.shared.baseline(task, prepared.environment, log)

    def score(self, plan: AttemptPlan, result: AttemptResult, recording: Recording) -> Score:
        """Score an attempt's change with the plan's scorer. SandboxError and Interrupted propagate."""
        assert result.prepared is not None, "the attempt must have a change to score"
        assert result.change is not None, "the attempt must have a change to score"
        judge = ScoringRun(plan=plan, prepared=result.prepared, shared=self.shared, recording=recording)
        return judge.score(result.change, self.stop.within(plan.limits.timeout_sec))


@contextlib.contextmanager
def open_session(
    variants: Sequence[Variant],
    tasks: Sequence[Task],
    observer: RunObserver,
    *,
    workers: int = 1,
    max_cost_usd: float | None = None,
    min_free_mb: int = 0,
    obstacles: Obstacles | None = None,
    elsewhere: bool = False,
) -> Iterator[Session]:
    """Instantiate all components, run the preflights of the sandbox and the models, and create a scratch directory.

    Args:
        variants: the variants to run; all have the same sandbox.
        tasks: the tasks that the sandbox must be able to prepare.
        observer: receives notes for the user.
        workers: number of parallel attempts, for providers that limit their callers.
        max_cost_usd: maximum cost of each run.
        min_free_mb: attempts wait while fewer MiB of disk space than this are free.
        obstacles: problems that were found before; more problems are added, and all are raised together.
        elsewhere: attempts run in other processes, so the sandbox need not be available here.

    Raises:
        PluginError: a component cannot be created.
        InputError: the settings of a model are invalid.
        UnavailableError: git, the sandbox or a model is not available; the message lists everything that is not.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_ctrl_c())
        stop, obstacles = Deadline(FOR_EVER), Obstacles() if obstacles is None else obstacles
        with obstacles.gathered():
            check_git()
        for variant in variants:
            with obstacles.gathered():
                variant.instantiate_all()
        with obstacles.gathered():
            offered = stack.enter_context(open_models(variants, workers, max_cost_usd, stop, observer.note))
        provider = None
        with obstacles.gathered():
            if not elsewhere:
                provider = stack.enter_context(open_sandbox(variants[0], tasks, observer.note))
        with obstacles.gathered():
            shared = stack.enter_context(open_preparations(provider, stop, observer.note))
        obstacles.refuse()
        yield Session(
            shared=shared,
            offered=offered,
            stop=stop,
            space=DiskGuard([shared.directory], min_free_mb, observer.note, stop),
            observer=observer,
        )


@contextlib.contextmanager
def open_sandbox(variant: Variant, tasks: Sequence[Task], note: Callable[[str], None]) -> Iterator[SandboxProvider]:
    """Open the variant's sandbox provider, and run its preflight for ``tasks``.

    Raises UnavailableError if the sandbox is not available.
    """
    sandbox = variant.sandbox
    with contextlib.closing(sandbox.make()) as provider:
        specs = [task.spec.environment_spec() for task in tasks]
        run_preflight(sandbox.component, lambda: provider.preflight(specs), seconds=variant.settings.run.preflight_sec)
        for leftover in provider.sweep():
            note(f"removed leftovers from a dead run: {leftover}")
        yield provider


@contextlib.contextmanager
def open_preparations(
    provider: SandboxProvider | None,
    stop: Deadline,
    note: Callable[[str], None],
    write_source: WriteSource = write_checkout,
) -> Iterator[PreparedTasks]:
    """Create a directory for forks; without a provider, only for the sources of tasks."""
    for leftover in Scratch.sweep("run"):
        note(f"removed leftovers from a dead run: {leftover}")
    scratch = Scratch("run")
    try:
        yield PreparedTasks(provider, scratch, stop, write_source)
    finally:
        _close(scratch, note)


def _close(scratch: Scratch, note: Callable[[str], None]) -> None:
    leftover = scratch.close()
    if leftover is not None:
        note(f"could not remove {leftover}; the next run will try again")
