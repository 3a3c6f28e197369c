"""Open the runs of a command: new ones and resumed ones."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from ulid import ULID

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, RunStoppedError
from agentbench_core.evidence import journal
from agentbench_core.evidence.attempt_files import write_refused
from agentbench_core.evidence.layout import EVENTS, SUMMARY, run_directory_name, task_directory
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.evidence.tags import read_tags, write_tags
from agentbench_core.inputs.suite import Task
from agentbench_core.plugin.registry import Provenance
from agentbench_core.run.attempt.record import local_time
from agentbench_core.run.attempt.writing import RunWriter
from agentbench_core.run.group.differences import blocking_changes, differences
from agentbench_core.run.group.manifest import make_manifest
from agentbench_core.run.group.resume import resume
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.variant import Variant
from agentbench_core.values.events import RunResumed, RunStarted, Warning_
from agentbench_core.values.messages import ModelFacts
from agentbench_core.values.record import ReproducedRun, Resumption, RunManifest
from agentbench_core.values.shard import Shard, planned_repeats

_SHOWN = 10  # maximum names or differences in one message


@attrs.frozen(kw_only=True)
class RunPlan:
    """The plan of a command: variants, their tasks, and settings of the run.

    ``resumed`` maps variants to run directories to resume; other variants get new runs. ``allow_changes``: resume even
    if something that can affect results has changed. ``max_cost_usd`` is the maximum cost of each run. ``like`` maps
    variants to the run directories whose plan is repeated. ``presets`` is the version of the model presets that the
    settings use. ``quarantined`` maps quarantined tasks to reasons; they are attempted, but excluded from headlines.
    ``flaky`` maps tasks, quarantined or not, to their measured flakes. Both are keyed by task id. ``tags`` are added to
    the tags of each run. With ``shard``, only its attempts are run.
    """

    suite: str
    tasks: Sequence[Task]
    variants: Sequence[Variant]
    repeats: int
    workers: int
    out: Path
    min_free_mb: int
    argv: Sequence[str]
    plugins: Sequence[Provenance]
    resumed: Mapping[str, RunDirectory] = attrs.field(factory=dict)
    allow_changes: bool = False
    like: Mapping[str, RunDirectory] = attrs.field(factory=dict)
    presets: str = "none"
    max_cost_usd: float | None = None
    tags: Mapping[str, str] = attrs.field(factory=dict)
    quarantined: Mapping[str, str] = attrs.field(factory=dict)
    flaky: Mapping[str, str] = attrs.field(factory=dict)
    shard: Shard | None = None
    redactor: Redactor = attrs.field(init=False)

    @redactor.default
    def _for_all_tasks(self) -> Redactor:
        ours = {self.suite, *(variant.name for variant in self.variants)}
        for task in self.tasks:
            directories = (task_directory(task.spec.id, number) for number in range(1, self.repeats + 1))
            ours |= {task.spec.id, str(task.directory.resolve()), *directories}
        secret = {name for task in self.tasks for name in task.spec.artifacts.redact}
        for variant in self.variants:  # options ending in _env contain the name of a secret variable
            secret |= {*variant.settings.artifacts.redact}
            secret |= {str(leaf.value) for key, leaf in variant.settings_with_origins.items() if key.endswith("_env")}
        return Redactor(os.environ, secret, ours=ours)


def planned_manifest(group: RunPlan, variant: Variant, group_id: str, model: ModelFacts | None) -> RunManifest:
    """The manifest of a variant's run. Raises InputError if a resumed run does not match the plan or installation."""
    before = group.resumed.get(variant.name)
    now = make_manifest(
        run_id=before.manifest.run_id if before else str(ULID()),
        group_id=before.manifest.group_id if before else group_id,
        argv=group.argv,
        suite=group.suite,
        variant=variant,
        repeats=group.repeats,
        tasks=group.tasks,
        plugins=group.plugins,
        quarantined=group.quarantined,
        presets=group.presets,
        model=model,
        shard=group.shard,
    )
    cleaned = load(group.redactor.clean_value(dump(now)), RunManifest, where="the manifest")
    if before is None:
        return attrs.evolve(now, like=_reproduced_run(group.like.get(variant.name), cleaned, variant))
    _check_plan(before, group)
    list(before.every_record())  # detect damage before writing anything
    different = blocking_changes(before.manifest, cleaned, variant.plugins)
    if different and not group.allow_changes:
        raise InputError(
            "\n  ".join([f"{before.directory} does not match the current installation:", *_some(different)]),
            remedy="Undo the changes, or accept them with --allow-changes (recorded in run.json).",
        )
    resumption = Resumption(at=local_time(), argv=tuple(group.argv), changes=different)
    retained = {name: getattr(before.manifest, name) for name in ("created_at", "argv", "like", "merged")}
    first = attrs.evolve(now, **retained)
    same = attrs.evolve(before.manifest, tasks=now.tasks, model=now.model)  # task paths may have changed
    return attrs.evolve(first if different else same, resumed=(*before.manifest.resumed, resumption))


def _reproduced_run(then: RunDirectory | None, now: RunManifest, variant: Variant) -> ReproducedRun | None:
    if then is None:
        return None
    return ReproducedRun(
        run_id=then.manifest.run_id,
        directory=str(then.directory.resolve()),
        differences=differences(then.manifest, now, variant.plugins),
    )


def _some(differences: Sequence[str]) -> Sequence[str]:
    more = len(differences) - _SHOWN
    return [*differences[:_SHOWN], f"and {more} more"] if more > 0 else differences


def _check_plan(before: RunDirectory, group: RunPlan) -> None:
    """Raise InputError if the run has no events, or the plan lacks attempts of it, even with ``allow_changes``."""
    manifest = before.manifest
    if not (before.directory / EVENTS).exists():
        raise InputError(f"{before.directory} has no {EVENTS}: it can be read but not resumed")
    if group.repeats < manifest.repeats:
        raise InputError(
            f"{before.directory} has {manifest.repeats} repeats, which cannot be reduced to {group.repeats}"
        )
    missing = sorted({task.id for task in manifest.tasks} - {task.spec.id for task in group.tasks})
    if missing:
        raise InputError(
            f"tasks of {before.directory} no longer exist: {', '.join(_some(missing))}",
            remedy="Restore them, or pass their directory: --tasks DIR",
        )


@contextlib.contextmanager
def open_run_writer(
    group: RunPlan, variant: Variant, manifest: RunManifest, observer: RunObserver
) -> Iterator[RunWriter]:
    """Open and lock the directory of a run, and plan its remaining attempts."""
    before = group.resumed.get(variant.name)
    directory = before.directory if before else _fresh(group, variant)
    store = Store(directory, group.redactor)
    try:
        plans = [
            AttemptPlan(
                run_id=manifest.run_id,
                attempt_id=str(ULID()),
                task=task,
                variant=variant,
                agent=variant.agent_for(task),
                scorer=variant.scorer,
                repeat=repeat,
                flaky=group.flaky.get(task.spec.id, ""),
            )
            for task in group.tasks
            for repeat in planned_repeats(task.spec.id, group.repeats, group.shard)
        ]
        if before is not None and open_run(directory).manifest != before.manifest:
            raise InputError(
                f"another process has resumed {directory} in the meantime", remedy="Check that run, then try again."
            )
        if before is None:
            _begin(store, manifest)
            _tag(store, group)
            store.emit(RunStarted(run_id=manifest.run_id, attempts=len(plans)))
            observer.run_started(variant.name, directory, len(plans), (), 0.0)
            yield RunWriter(store=store, variant=variant, plans=plans, planned=len(plans))
            return
        for note in store.recovery:
            store.emit(Warning_(message=note))
            observer.note(f"{directory.name}: {note}")
        _tag(store, group)
        rest = resume(before, store, plans, allow_changes=group.allow_changes)
        if rest.plans:  # otherwise the manifest is kept, regardless of later changes
            store.write_manifest(manifest)
        (directory / SUMMARY).unlink(missing_ok=True)  # outdated from now on
        kept = len(rest.recorded)
        store.emit(RunResumed(kept=kept, attempts=len(rest.plans)))
        observer.run_started(variant.name, directory, len(plans), rest.recorded, before.spent_usd())
        if not rest.plans:
            observer.note(f"{directory.name}: all attempts are already recorded ({kept}); nothing to do")
        yield RunWriter(store=store, variant=variant, plans=rest.plans, planned=len(plans), recorded=kept)
    finally:
        store.close()


def _begin(store: Store, manifest: RunManifest) -> None:
    """Write the manifest of a new run. On failure, remove the directory, since it could not be resumed."""
    try:
        store.write_manifest(manifest)
    except RunStoppedError as error:
        with contextlib.suppress(RunStoppedError):
            store.close()
        shutil.rmtree(store.directory, ignore_errors=True)
        raise RunStoppedError(
            error.message, remedy="Nothing was recorded. Choose another directory: --out DIR"
        ) from None


def _tag(store: Store, group: RunPlan) -> None:
    """Add the tags of the command to the run's tags, which a resumed run may already have."""
    if group.tags:
        try:
            write_tags(store.directory, {**read_tags(store.directory), **group.redactor.clean_value(dict(group.tags))})
        except OSError as error:
            raise write_refused(store.directory, error) from None


def _fresh(group: RunPlan, variant: Variant) -> Path:
    """Create a directory; a number is added to its name if a run that started in the same second has that name."""
    model = variant.model.name if variant.model else ""
    name = run_directory_name(datetime.datetime.now().astimezone(), group.suite, variant.name, model, group.shard)
    try:
        group.out.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            candidate = group.out / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                journal.checkpoint(candidate.mkdir)
                candidate.mkdir()
                return candidate
    except OSError as error:
        raise InputError(
            f"cannot create {group.out / name}: {error.strerror}", remedy="Choose another directory: --out DIR"
        ) from None
    raise AssertionError("the loop ends by returning")
