"""``agentbench init``: settings, a suite, a gate and a workflow for a repository."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from agentbench_core import InputError
from agentbench_core.harness import NAME_PATTERN, App, say
from agentbench_tasks.init.files import LEAST_PAIRS, Plan, plan, write
from agentbench_tasks.init.found import Found, find


@click.command("init")
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--suite", metavar="NAME", default="", help="Name of the suite. [default: derived from the project's name]"
)
@click.option("--model", metavar="NAME", default="", help="Model of the agent. [default: rules instead of a model]")
@click.option("--dry-run", is_flag=True, help="Show what would be written, without writing anything.")
@click.pass_obj
def init(app: App, /, directory: Path, suite: str, model: str, dry_run: bool) -> int:
    """Prepare a repository for AgentBench: settings, a suite, a gate, and a workflow for GitHub Actions.

    \b
    agentbench init
    agentbench init services/shop --model MAKER/MODEL

    Everything else is detected: the repository, how its tests are run, the Docker engine, keys, and agents. No code of
    the repository is run. Existing files are not changed, so that the command can be repeated.
    """
    if suite and not re.fullmatch(NAME_PATTERN, suite):
        raise InputError(f"{suite!r} is not a valid suite: use at most 64 lowercase letters, digits, '.', '_' and '-'")
    found = find(directory, app.registry, suite)
    planned = plan(found, model)
    _print("found", _found(found))
    if not dry_run:
        write(planned)
    _print("would write" if dry_run else "wrote", planned.written or ["nothing: all files exist"])
    _print("kept", planned.kept)
    _print("note", _notes(found, planned, model))
    _print("next", _next(found, directory))
    return 0


def _print(title: str, lines: Iterable[str]) -> None:
    """Print lines beside a title, or nothing without lines."""
    for number, line in enumerate(lines):
        say(f"{title if number == 0 else '':11}  {line}")


def _count(tasks: int) -> str:
    return f"{tasks} {'task' if tasks == 1 else 'tasks'}"


def _found(found: Found) -> Iterator[str]:
    repository = found.repository
    if repository is None:
        yield f"directory   {found.directory}, not in a git repository"
    else:
        facts = [f"branch {repository.branch}" if repository.branch else "", repository.remote or "no remote"]
        yield f"repository  {repository.root} ({', '.join(filter(None, facts))})"
    listed = f"; requirements: {', '.join(found.requirements)}" if found.requirements else ""
    yield f"tests       {', '.join(found.tests) or 'none found'}{listed}"
    yield f"Python      {found.python_note or found.python}"
    yield f"engine      {f'Docker {found.engine}' if found.engine else 'none'}"
    yield f"keys        {', '.join(found.keys) or 'none'}"
    yield f"agents      {', '.join(found.agents)}"
    yield f"suite       {found.suite}, {_count(found.tasks)}"


def _notes(found: Found, planned: Plan, model: str) -> Iterator[str]:
    """Everything that the user must do by hand, in one list."""
    repository = found.repository
    if repository is None:
        yield "not a git repository: mining and the workflow require one; to create it, run: git init"
    elif not repository.has_commits:
        yield f"{repository.root} has no commits yet, so there are no fixes to mine"
    elif repository.shallow:
        yield "this clone is shallow; to mine tasks, first run: git fetch --unshallow"
    if found.tests and not found.tests[0].startswith("pytest"):
        yield "the tests are not run directly by pytest: `agentbench tasks mine` requires --test-command"
    if not found.python:
        yield "the default image has no suitable Python: pass --python VERSION=IMAGE to `agentbench tasks mine`"
    if not found.engine:
        yield "cannot reach a Docker engine; for a remedy, run: agentbench doctor"
    if found.tasks < min(LEAST_PAIRS.values()):
        yield f"the gate cannot pass with {_count(found.tasks)}; gate.yaml lists how many tasks each margin requires"
    if planned.example:
        yield f"tasks/{found.suite}/example is a small task for trying things out; remove it once there are other tasks"
    if not model and any(path.endswith("/current.yaml") for path in planned.new):
        yield "--model was not passed: set the model in configs/variants/current.yaml and candidate.yaml"
    if any(path.startswith(".github/") for path in planned.new):
        yield "on GitHub, create the `OPENROUTER_API_KEY` secret, unless you use another provider"
        if not found.source:
            yield "on GitHub, create the `AGENTBENCH_SOURCE` variable with the git URL to install AgentBench from"


def _next(found: Found, directory: Path) -> Iterator[str]:
    if directory.resolve() != Path.cwd():
        yield f"cd {shlex.quote(str(directory))}"
    repository = found.repository
    if repository is not None and repository.has_commits:
        root = os.path.relpath(repository.root, found.directory)
        inside = os.path.relpath(found.directory, repository.root)
        only = "" if inside == "." else f" --paths {shlex.quote(f'{inside}/**')}"
        yield f"agentbench tasks mine --repo {shlex.quote(root)} --suite {found.suite}{only} --limit 30"
    else:
        yield f"agentbench validate-tasks --suite {found.suite}"
    yield "agentbench run --variant configs/variants/current.yaml --out artifacts/current"
    yield "agentbench report gate --plan --baseline artifacts/current/* --config gate.yaml"
