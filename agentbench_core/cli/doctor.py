"""``agentbench doctor``: finds what a run needs but lacks, with a remedy for each problem."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core.cli.app import App, print_json, say
from agentbench_core.cli.flags import PROJECT_FILE, base_layers, json_flag, settings_flags, task_flag
from agentbench_core.cli.groups import gathered_variants
from agentbench_core.cli.machine import cache_checks, machine_checks
from agentbench_core.cli.selection import selected_tasks
from agentbench_core.cli.variants import resolved_variants
from agentbench_core.converter import load
from agentbench_core.errors import AgentBenchError, Obstacles
from agentbench_core.inputs.config import Resolved, Settings, resolve
from agentbench_core.inputs.suite import read_suite, suites
from agentbench_core.plugin.registry import Component, provided_by
from agentbench_core.run.readiness import (
    BY_DEFAULT,
    Check,
    check_git,
    check_out,
    checked,
    llm_checks,
    run_checks,
    sandbox_checks,
)
from agentbench_core.run.variant import ConfiguredComponent, configured, wrong_components
from agentbench_core.values.dates import DateRange
from agentbench_core.values.text import escape_control, quantity

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}
_STATUS_WIDTH = max(map(len, _COLOURS))
_NARROWEST = 40
"""Minimum width in columns of the text beside the names of the checks."""


@click.command()
@settings_flags
@task_flag
@json_flag
@click.pass_obj
def doctor(app: App, /, as_json: bool, task_globs: tuple[str, ...], **typed: Any) -> int:
    """Check this machine for problems and suggest fixes.

    \b
    agentbench doctor
    agentbench doctor --suite custom-dev --agent baseline --model NAME

    Without flags, checks everything that is installed, and the project's settings. With flags of `run`, checks what
    that run needs, and queries the provider about the model. Nothing is changed or pulled.

    Exit code: 3 if no run can start; with flags, if that run cannot start.
    """
    asked = bool(task_globs) or any(value not in (None, ()) for value in typed.values())
    found = _that_run(app, typed, task_globs) if asked else _everything(app)
    checks = [*machine_checks(), *found, *plugin_checks(app), *cache_checks()]
    failed = any(check.status == "failed" for check in checks)
    if as_json:
        print_json([{key: getattr(check, key) for key in ("name", "status", "detail", "remedy")} for check in checks])
    else:
        print_checks(checks)
        good, bad = ("this run can start", "this run cannot start") if asked else ("runs can start", "no run can start")
        say(_sum(checks, bad if failed else good))
    return 3 if failed else 0


def _that_run(app: App, typed: dict[str, Any], globs: Sequence[str]) -> Iterator[Check]:
    """The checks of the run with these flags."""
    problems = Obstacles()
    selected = resolved_variants(
        app, typed, lambda settings: selected_tasks(settings, globs, DateRange()), obstacles=problems
    )
    if selected.complete:
        variants = gathered_variants(app, selected.variants, selected.tasks, problems, allow_unisolated=False)
        tasks = quantity(len(selected.tasks), "task")
        for variant in variants:
            yield Check("agent", "ok", f"{variant.agent_names or 'none'} ({tasks})")
    yield from (Check.failure("settings", error) for error in problems.errors)
    shown = []
    for resolved in selected.variants.values() or [selected.shared]:
        ask = bool(typed.get("model") or typed.get("llm"))
        for check in run_checks(resolved, selected.tasks, app.registry, complete=selected.complete, ask=ask):
            known = check.error is not None and str(check.error) in map(str, problems.errors)
            if check not in shown and not known:
                shown.append(check)
                yield check


def _everything(app: App) -> Iterator[Check]:
    """The checks of the project, and of all sandboxes and model providers; one that fails prevents only some runs."""
    yield checked("git", check_git)
    resolved = resolve([])
    try:
        resolved = resolve(base_layers(app), app.registry.name_of)
    except AgentBenchError as error:
        yield Check("settings", "failed", error.message, error.remedy or "Fix that file.")
    else:
        for wrong in wrong_components(resolved, app.registry):
            yield Check("settings", "warning", f"{PROJECT_FILE}: {wrong.message}", wrong.remedy)
    yield _tasks(Path(resolved.settings.run.tasks))
    yield checked("results", lambda: check_out(Path(resolved.settings.run.out)))
    sandboxes = app.registry.all("sandbox")
    usable = False
    for component in sandboxes:
        results = _sandbox(app, resolved, component)
        usable |= all(check.status != "failed" for check in results)
        yield from map(_lowered, results)
    if not sandboxes:
        remedy = f"{provided_by('sandbox', Settings().sandbox.name)}."
        yield Check("sandbox", "failed", "none installed; a run requires one", remedy)
    elif not usable:
        yield Check("sandbox", "failed", "none is usable; a run requires one", "Fix one of the sandboxes listed above.")
    seconds = resolved.settings.run.preflight_sec
    for component in app.registry.all("llm"):
        if not component.capabilities & {"replays", "offline"}:
            ready = _with_options(app, resolved, component)
            yield from map(_lowered, [ready] if isinstance(ready, Check) else llm_checks(ready, seconds))


def check_sandboxes(app: App, names: Collection[str] = ()) -> Mapping[str, Sequence[Check]]:
    """The checks of installed sandboxes, by name, with the options of the project; one without failures can be used.

    ``names`` selects some of them. Raises UnknownNameError, PluginError, and InputError for an invalid project file.
    """
    resolved = resolve(base_layers(app), app.registry.name_of)
    every = [app.registry.find("sandbox", name) for name in names] or app.registry.all("sandbox")
    return {component.name: _sandbox(app, resolved, component) for component in every}


def _sandbox(app: App, resolved: Resolved, component: Component) -> Sequence[Check]:
    """The checks of a sandbox for a task that configures nothing."""
    ready = _with_options(app, resolved, component)
    if isinstance(ready, Check):
        return [ready]
    return list(sandbox_checks(ready, [BY_DEFAULT], resolved.settings.run.preflight_sec))


def _with_options(app: App, resolved: Resolved, component: Component) -> ConfiguredComponent | Check:
    """A component with the project's options if the project selects it, else with defaults; a check if that fails."""
    name, kind = f"{component.kind} {component.name}", component.kind
    try:
        if getattr(resolved.settings, kind).name in component.names:
            return configured(app.registry, resolved, kind, component.name)
        assert component.options is not None, "components of these kinds must have options"
        return ConfiguredComponent(component=component, options=load({}, component.options, where=name))
    except AgentBenchError as error:
        return Check.failure(name, error)


def _lowered(check: Check) -> Check:
    """The check of a component that not every run uses."""
    return attrs.evolve(check, status="warning") if check.status == "failed" else check


def _tasks(root: Path) -> Check:
    names = suites(root)
    try:
        counts = [f"{name} ({len(read_suite(root, name))})" for name in names]
    except AgentBenchError as error:
        return Check("tasks", "warning", error.message, error.remedy or "Fix that file.")
    remedy = "Change to the directory that contains ./tasks, or create a task: agentbench tasks new ID --suite NAME"
    detail = f"suites in {root}: {', '.join(counts) or 'none'}"
    return Check("tasks", "ok", detail) if counts else Check("tasks", "warning", detail, remedy)


def plugin_checks(app: App) -> Iterator[Check]:
    """The problems of installed plugins."""
    for plugin in app.plugins.plugins:
        source, name = plugin.source, plugin.source.plugin
        release = f"{source.distribution} {source.version}"
        if plugin.status == "broken":
            remedy = f"See the traceback: agentbench --debug plugins show {name}\n"
            remedy += f"Upgrade or remove it: pip install -U {source.distribution}"
            yield Check(f"plugin {name}", "warning", f"{release} is broken: {plugin.problem}", remedy)
        for note in plugin.notes:
            remedy = f"Report it to the plugin's author. See: agentbench plugins check {name}"
            yield Check(f"plugin {name}", "warning", f"{release}: {note}", remedy)
    for kind, name in sorted(app.registry.conflicts()):
        remedy = "Disable one of them: --no-plugin NAME. See: agentbench plugins list"
        yield Check(f"{kind} {name}", "warning", "registered by more than one plugin", remedy)


def print_checks(checks: Sequence[Check]) -> None:
    """Print checks as a table; on a terminal, with colors and lines that fit its width."""
    terminal = sys.stdout.isatty()
    coloured = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    names = max(len(check.name) for check in checks)
    indent = _STATUS_WIDTH + names + 4
    width = max(shutil.get_terminal_size().columns - indent, _NARROWEST) if terminal else sys.maxsize
    for check in checks:
        lines = [
            part
            for line in escape_control(check.detail).splitlines()
            for part in textwrap.wrap(line, width, break_on_hyphens=False)
        ]
        lines += [f"-> {line}" for line in check.remedy.splitlines()]  # not wrapped: commands are copied
        status = f"{check.status:{_STATUS_WIDTH}}"
        rest = f"  {check.name:{names}}  {lines[0] if lines else ''}"
        if coloured:
            say(rest, styled=click.style(status, fg=_COLOURS[check.status]))
        else:
            say(f"{status}{rest}")
        for line in lines[1:]:
            say(f"{'':{indent}}{line}")


def _sum(checks: Sequence[Check], end: str) -> str:
    counts = {status: sum(check.status == status for check in checks) for status in ("failed", "warning")}
    words = [f"{n} {status}{'s' if status == 'warning' and n != 1 else ''}" for status, n in counts.items() if n]
    return f"{', '.join(words) or 'no problems'}: {end}"
