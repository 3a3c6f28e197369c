"""``agentbench run``, ``run-task`` and ``replay``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core.cli.app import App, say
from agentbench_core.cli.completion import any_path
from agentbench_core.cli.flags import replay_flags, settings_flags, task_flag, variant_flags
from agentbench_core.cli.groups import add_checks, gathered_variants, make_group, replayed_group, resumed_group
from agentbench_core.cli.like import like_group
from agentbench_core.cli.page import print_page
from agentbench_core.cli.progress.choice import progress, progress_flag
from agentbench_core.cli.progress.lines import Display
from agentbench_core.cli.run_names import RUN
from agentbench_core.cli.selection import date_flags, selected_tasks
from agentbench_core.cli.variants import resolved_variants
from agentbench_core.errors import InputError, Obstacles, RunStoppedError
from agentbench_core.evidence.layout import SUMMARY
from agentbench_core.evidence.reader import open_run
from agentbench_core.evidence.tags import parse_tag
from agentbench_core.inputs.config import RunSettings
from agentbench_core.inputs.suite import Task, read_task
from agentbench_core.inputs.variants import read_presets
from agentbench_core.run.group.group import RunPlan
from agentbench_core.run.group.runner import RunResult, run_group
from agentbench_core.run.variant import Variant, wrong_components
from agentbench_core.values.dates import DateRange
from agentbench_core.values.failures import Outcome
from agentbench_core.values.shard import Shard, parse_shard, planned_count


class ShardType(click.ParamType[Shard]):
    """A shard, such as ``2/8``."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        """Parse it."""
        return parse_shard(value)


_UNISOLATED = click.option(
    "--allow-unisolated", is_flag=True, help="Allow agents that use a model to run in a sandbox that is not isolated."
)


@click.command()
@settings_flags
@task_flag
@date_flags
@click.option(
    "--resume",
    "resumed",
    metavar="RUN",
    type=RUN,
    multiple=True,
    help="Resume an unfinished run.",
)
@click.option(
    "--like",
    metavar="RUN",
    type=RUN,
    multiple=True,
    help="Repeat the plan of an earlier run as a new run.",
)
@click.option(
    "--tag",
    "tags",
    metavar="KEY=VALUE",
    multiple=True,
    help="Add a tag to the run, so that `agentbench runs list --tag` can find it. Repeatable.",
)
@click.option(
    "--shard",
    metavar="I/N",
    type=ShardType(),
    help="Run only part I of N of the attempts; the other machines run the other parts. See `agentbench runs merge`.",
)
@click.option(
    "--allow-changes", is_flag=True, help="With --resume: continue even if tasks, settings or versions have changed."
)
@_UNISOLATED
@progress_flag
@click.pass_obj
def run(
    app: App,
    /,
    task_globs: tuple[str, ...],
    dates: DateRange,
    resumed: tuple[Path, ...],
    like: tuple[Path, ...],
    tags: tuple[str, ...],
    shard: Shard | None,
    allow_changes: bool,
    allow_unisolated: bool,
    display: str,
    **typed: Any,
) -> int:
    """Run variants on the tasks of a suite, and print a summary.

    \b
    agentbench run --suite custom-dev --agent scripted
    agentbench run --suite custom-dev --variant baseline --sandbox docker --model NAME
    agentbench run --suite custom-dev --variant ONE --variant OTHER --repeats 5
    agentbench run --suite mine --variant baseline --since 2025-03-01
    agentbench run --resume RUN
    agentbench run --like RUN
    agentbench run --suite custom-dev --variant baseline --shard 1/3

    Each variant gets its own run directory with one record per attempt, all events, and the evidence.

    With --resume, attempts without a record are run, and attempts that ended with an infrastructure error are
    retried, with the settings and tasks of that run. With --like, the plan in the run.json of an earlier run is
    repeated as a new run; differences are printed and recorded.

    Exit codes: 0 all attempts ran, regardless of their results; 2 invalid input; 3 this machine lacks a requirement;
    4 the run ended early; 130 interrupted.
    """
    if resumed and like:
        raise click.UsageError("--resume continues a run and --like starts a new one; pass only one of them")
    if shard and resumed:
        raise click.UsageError("--resume continues a run with its own shard; remove --shard")
    if allow_changes and not resumed:
        raise click.UsageError("--allow-changes is valid only with --resume")
    for flag, value in (("--resume", resumed), ("--like", like)):
        if value and (task_globs or dates.is_limited):
            unused = " ".join([*(["--task"] if task_globs else []), *([str(dates)] if dates.is_limited else [])])
            raise click.UsageError(f"{flag} uses the tasks of the run; remove {unused}")

    def find(settings: RunSettings) -> Sequence[Task]:
        return selected_tasks(settings, task_globs, dates)

    parsed = dict(map(parse_tag, tags))
    if like:
        group = like_group(app, like, typed, allow_unisolated=allow_unisolated)
    elif resumed:
        group = resumed_group(app, resumed, typed, allow_changes=allow_changes, allow_unisolated=allow_unisolated)
    else:
        group = _new_group(app, typed, find, allow_unisolated)
    shard = shard or group.shard
    try:
        planned_count([task.spec.id for task in group.tasks], group.repeats, shard)
    except ValueError as error:
        raise InputError(str(error), remedy="Use fewer repeats.") from None
    return _run(app, attrs.evolve(group, tags=parsed, shard=shard), allow_unisolated, display)


@click.command()
@click.option(
    "--task",
    "task_file",
    metavar="FILE",
    required=True,
    shell_complete=any_path,
    help="Path to a task.yaml, or to its directory.",
)
@variant_flags
@_UNISOLATED
@progress_flag
@click.pass_obj
def run_task(app: App, /, task_file: str, allow_unisolated: bool, display: str, **typed: Any) -> int:
    """Run variants on one task, given its task.yaml.

    \b
    agentbench run-task --task tasks/custom-dev/NAME --agent scripted
    """
    task = read_task(Path(task_file))
    return _run(app, _new_group(app, typed, lambda _: [task], allow_unisolated), allow_unisolated, display)


@click.command()
@click.argument("run_dir", metavar="RUN", type=RUN)
@replay_flags
@task_flag
@_UNISOLATED
@progress_flag
@click.pass_obj
def replay(
    app: App, /, run_dir: Path, task_globs: tuple[str, ...], allow_unisolated: bool, display: str, **typed: Any
) -> int:
    """Repeat every attempt of a run with its recorded model responses: offline, and at no cost.

    \b
    agentbench replay RUN

    Tools and tests run again. If an agent sends a request that was not recorded, its attempt stops, and the difference
    is shown. Records are marked as replayed. Exit code: 1 if a request was not recorded.
    """
    group = replayed_group(app, run_dir, typed, task_globs, allow_unisolated=allow_unisolated)
    return _run(app, group, allow_unisolated, display)


def _new_group(
    app: App, typed: Mapping[str, Any], find: Callable[[RunSettings], Sequence[Task]], allow_unisolated: bool
) -> RunPlan:
    obstacles = Obstacles()
    selected = resolved_variants(app, typed, find, allow_unisolated=allow_unisolated, obstacles=obstacles)
    resolved, tasks = selected.variants, selected.tasks
    variants: Sequence[Variant] = ()
    if selected.complete:  # otherwise the missing settings would also be reported as problems
        variants = gathered_variants(app, resolved, tasks, obstacles, allow_unisolated=allow_unisolated)
    else:
        for wrong in wrong_components(selected.shared, app.registry):
            obstacles.add(wrong)
    if obstacles:
        for each in resolved.values() or [selected.shared]:
            add_checks(each, tasks, app.registry, obstacles, complete=selected.complete)
    obstacles.refuse()
    return make_group(app, selected.shared.settings.run, tasks[0].spec.suite, tasks, variants, read_presets().version)


def _run(app: App, group: RunPlan, allow_unisolated: bool, display: str) -> int:
    with progress(
        display,
        workers=group.workers,
        max_cost_usd=group.max_cost_usd,
        isolated=group.variants[0].sandbox.can("isolated"),
        quarantined=group.quarantined,
    ) as shown:
        _warn_broken_plugins(app, shown)
        finished = run_group(group, shown)
    for run_ in finished:
        _print_summary(run_)
    for run_ in finished:
        if run_.status == "stopped":
            shown.message(f"the run ended early: {run_.reason}")
    unfinished = [run_ for run_ in finished if run_.status != "completed"]
    if unfinished:
        flags = [part for run_ in unfinished for part in ("--resume", str(run_.directory))]
        flags += ["--allow-unisolated"] if allow_unisolated else []
        shown.message(f"resume with: {shlex.join(['agentbench', 'run', *flags])}")
    interrupted = any(run_.status == "interrupted" for run_ in unfinished)
    if unfinished:
        return 130 if interrupted else RunStoppedError.exit_code
    if any(run_.report_interrupted for run_ in finished):
        return 130
    return 1 if _report_unreplayed(group, finished, shown) else 0


def _report_unreplayed(group: RunPlan, finished: Sequence[RunResult], shown: Display) -> bool:
    """Report attempts that could not be replayed, and return whether there are any."""
    if not any(variant.llm and variant.llm.can("replays") for variant in group.variants):
        return False
    missed = [
        f"{run_.directory}: {record.task_id}, repeat {record.repeat}"
        for run_ in finished
        for record in open_run(run_.directory).records()
        if record.replayed and record.outcome is Outcome.LLM_ERROR
    ]
    if missed:
        first, more = missed[0], f", and {len(missed) - 1} more" if len(missed) > 1 else ""
        shown.message(f"some attempts were not replayed (see `agentbench runs show` for the reasons): {first}{more}")
    return bool(missed)


def _warn_broken_plugins(app: App, shown: Display) -> None:
    for plugin in app.plugins.plugins:
        if plugin.status == "broken":
            shown.message(f"plugin {plugin.source.plugin!r} is broken and was not loaded: {plugin.problem}")


def _print_summary(finished: RunResult) -> None:
    say()
    path = finished.directory / SUMMARY
    if path.exists():
        print_page(path.read_text(encoding="utf-8"), finished.directory)
    say(f"evidence: {finished.directory}")
