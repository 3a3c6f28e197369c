"""``agentbench doctor``: check this machine for problems, and suggest a fix for each."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import attrs
import click

from agentbench_core.cli.app import App, print_json, say
from agentbench_core.cli.flags import PROJECT_FILE, base_layers, run_settings
from agentbench_core.converter import load
from agentbench_core.errors import AgentBenchError
from agentbench_core.inputs.config import RunSettings, Settings, resolve
from agentbench_core.inputs.suite import read_suite, suites
from agentbench_core.plugin.registry import Component, provided_by
from agentbench_core.run.variant import wrong_components
from agentbench_core.run.waiting import run_preflight
from agentbench_core.values.task import EnvironmentSettings, EnvironmentSpec, Setup

_LOW_DISK = 2 << 30  # bytes
_OLDEST_GIT = (2, 32)
_BY_DEFAULT = EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(), setup=Setup())
"""The environment of a task that configures nothing."""


Status = Literal["ok", "warning", "failed"]


@attrs.frozen
class Check:
    """The result of one check. ``failed`` prevents every run; ``warning`` may prevent some runs."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_obj
def doctor(app: App, as_json: bool) -> int:
    """Check this machine for problems and suggest fixes. Exit code: 3 if no run is possible."""
    checks = [_python(), _git(), _temporary(), *_project(app), *_plugins(app, _patience())]
    if as_json:
        print_json([attrs.asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            say(f"{check.status:7}  {check.name:{width}}  {check.detail}")
            for line in check.remedy.splitlines() if check.status != "ok" else ():
                say(f"{'':7}  {'':{width}}  -> {line}")
    return 3 if any(check.status == "failed" for check in checks) else 0


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def _git() -> Check:
    try:
        answer = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return Check("git", "failed", "not found", "Install git.")
    version = tuple(int(part) for part in answer.split()[2].split(".")[:2])
    status: Status = "ok" if version >= _OLDEST_GIT else "failed"
    return Check("git", status, answer.strip(), "Install git 2.32 or newer.")


def _temporary() -> Check:
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    remedy = "Workspaces are created in this directory. Free disk space, or set TMPDIR."
    return Check("disk", "ok" if free >= _LOW_DISK else "warning", f"{free >> 20} MiB free in {directory}", remedy)


def _project(app: App) -> Iterator[Check]:
    try:
        resolved = resolve(base_layers(app), app.registry.name_of)
        settings = resolved.settings
    except AgentBenchError as error:
        yield Check("settings", "failed", error.message, error.remedy or "Fix that file.")
        return
    for wrong in wrong_components(resolved, app.registry):
        yield Check("settings", "warning", f"{PROJECT_FILE}: {wrong.message}", wrong.remedy)
    yield _tasks(Path(settings.run.tasks))
    out = Path(settings.run.out)
    existing = next(path for path in (out, *out.resolve().parents) if path.exists())
    if os.access(existing, os.W_OK):
        yield Check("results", "ok", f"{out} is writable")
    else:
        yield Check("results", "failed", f"{out} is not writable", "Choose another directory: --out DIR")


def _tasks(root: Path) -> Check:
    names = suites(root)
    try:
        counts = [f"{name} ({len(read_suite(root, name))})" for name in names]
    except AgentBenchError as error:
        return Check("tasks", "warning", error.message, error.remedy or "Fix that file.")
    remedy = "Change to the directory that contains ./tasks, or create a task: agentbench tasks new ID --suite NAME"
    return Check("tasks", "ok" if counts else "warning", f"suites in {root}: {', '.join(counts) or 'none'}", remedy)


def _patience() -> float:
    """Seconds allowed for a sandbox's preflight. Invalid settings are reported by another check."""
    try:
        return run_settings().preflight_sec
    except AgentBenchError:
        return RunSettings().preflight_sec


def _plugins(app: App, patience: float) -> Iterator[Check]:
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
    sandboxes = app.registry.all("sandbox")
    for component in sandboxes:
        yield from _sandbox(component, patience)
    if not sandboxes:
        remedy = f"{provided_by('sandbox', Settings().sandbox.name)}."
        yield Check("sandbox", "failed", "none installed; a run requires one", remedy)


def _sandbox(component: Component, patience: float) -> Iterator[Check]:
    name = f"sandbox {component.name}"
    try:
        assert component.options is not None
        provider = component.make(load({}, component.options, where=name))
        try:
            warnings = list(run_preflight(component, lambda: provider.preflight([_BY_DEFAULT]), seconds=patience) or ())
        finally:
            provider.close()
    except AgentBenchError as error:
        yield Check(name, "warning", error.message, error.remedy)
        return
    except Exception as error:  # noqa: BLE001 - a sandbox may raise anything; it fails only its own check
        remedy = f"Contact the author of {component.source.distribution}."
        yield Check(name, "warning", f"{type(error).__name__}: {error}", remedy)
        return
    isolated = "isolates" if "isolated" in component.capabilities else "works, but is not isolated"
    yield Check(name, "ok", isolated)
    for warning in warnings:
        detail, _, remedy = warning.partition("\n")
        yield Check(name, "warning", detail, remedy)
