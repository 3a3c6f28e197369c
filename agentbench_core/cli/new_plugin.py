"""``agentbench plugins new``: a plugin to begin with."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from agentbench_core.cli.app import App, say
from agentbench_core.cli.flags import OneOf, run_settings
from agentbench_core.inputs.new_plugin import PLUGIN_KINDS, NewPlugin, write_plugin


@click.command("new")
@click.argument("name")
@click.option("--kind", type=OneOf(list(PLUGIN_KINDS)), required=True, help="What it adds to AgentBench.")
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default=".",
    help="Where its directory is made.",
)
@click.pass_obj
def new_plugin(app: App, name: str, kind: str, into: Path) -> None:
    """Make a plugin that works, to be turned into your own: a distribution with code, tests, README and CI.

    NAME is what users will say, such as my-agent; the distribution is then agentbench-my-agent.
    """
    taken = {each for component in app.registry.all(kind) for each in component.names}
    made = write_plugin(into, name, kind, taken=taken)
    say(f"made {made.directory}: {PLUGIN_KINDS[kind].summary}")
    say()
    for command in _steps(made):
        say(f"  {command}")
    say()
    say(f"then make it your own: {made.directory / 'src' / made.names.module / 'plugin.py'}")


def _steps(made: NewPlugin) -> Iterator[str]:
    """What to type next, word for word, from where the user is."""
    directory, agentbench = _with_slash(made.directory), _program("agentbench")
    yield f"{_program('pip')} install -e {shlex.quote(f'{directory}[test]')}"
    yield f"{agentbench} plugins check {made.names.component}"
    yield f"{_program('pytest')} {shlex.quote(directory)}"
    settings = run_settings()
    task = _some_task(Path(settings.tasks), settings.suite)
    if task is None:
        yield f"{agentbench} tasks new first --suite mine"
        task = Path(settings.tasks, "mine/first")
    yield f"{agentbench} run-task --task {shlex.quote(str(task))} {made.run}"


def _with_slash(directory: Path) -> str:
    """As pip needs it, which takes a bare name for that of a distribution on an index."""
    text = str(directory)
    return text if os.sep in text else f"./{text}"


def _program(name: str) -> str:
    """How a program of this environment is started: by its name, where a shell finds this one by it."""
    ours = Path(sys.executable).parent / name
    found = shutil.which(name)
    if not ours.exists() or (found is not None and Path(found).absolute() == ours):
        return name
    here = Path.cwd()
    return shlex.quote(str(ours.relative_to(here) if ours.is_relative_to(here) else ours))


def _some_task(root: Path, suite: str) -> Path | None:
    """A task of the usual suite, or of another one."""
    found = sorted(root.glob("*/*/task.yaml"))
    usual = [path for path in found if path.parent.parent.name == suite]
    return next((path.parent for path in (*usual, *found)), None)
