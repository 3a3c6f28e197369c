"""``agentbench runs workspace``: write the workspace of an attempt, from the task's code and the saved changes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

from agentbench_core.cli.app import say
from agentbench_core.cli.flags import tasks_flag
from agentbench_core.cli.run_names import RUN
from agentbench_core.converter import load
from agentbench_core.errors import InputError, ToolError, did_you_mean
from agentbench_core.evidence import layout
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.inputs.suite import Task, read_suite
from agentbench_core.run.attempt.final_state import FinalState
from agentbench_core.values.limits import Deadline
from agentbench_core.values.text import name_some
from agentbench_core.workspace.pristine import FILE_SIZE_MAX
from agentbench_core.workspace.repos import checkout
from agentbench_core.workspace.snapshot import Snapshots
from agentbench_core.workspace.tree import Tree, remove_tree

_SECONDS = 1800.0  # for fetching and writing the task's code
_STATE_MAX = 1 << 28  # bytes of workspace.json


@click.command("workspace")
@click.argument("run_dir", metavar="RUN", type=RUN)
@click.argument("attempt", metavar="TASK[@REPEAT]")
@click.option(
    "--to", "into", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Directory to create."
)
@tasks_flag
def write_final_workspace(run_dir: Path, attempt: str, into: Path, root: str) -> None:
    """Write the workspace of an attempt as its agent left it.

    DIR receives the task's code with the attempt's changes, and a .git with one commit, so that `git diff` shows the
    changes. Links are not created. Files that setup wrote are included only if the agent changed them.

    \b
    agentbench runs workspace latest TASK --to /tmp/workspace
    """
    run, into = open_run(run_dir), into.absolute()
    task_id, repeat = _attempt(run, attempt)
    state = _final_state(run, task_id, repeat)
    task = next((task for task in read_suite(Path(root), run.manifest.suite) if task.spec.id == task_id), None)
    if task is None:
        raise InputError(
            f"suite {run.manifest.suite!r} in {root} has no task {task_id!r}",
            remedy="Pass the directory that contains the run's suites: --tasks DIR",
        )
    if task.spec.repo.commit != state.commit:
        raise InputError(
            f"{task.directory} is now at commit {task.spec.repo.commit}; the attempt started from {state.commit}",
            remedy="Pass the directory of the original tasks: --tasks DIR",
        )
    _check_new(into)
    is_whole = _write(run, layout.task_directory(task_id, repeat), state, task, into)
    say(f"wrote {into}")
    missing = [*(link.path for link in state.links), *(one.path for one in state.omitted), *state.odd]
    if missing:
        say(f"note: some files are not included (see {layout.WORKSPACE}): {name_some(missing)}", err=True)
    if not is_whole:
        say("note: files that setup wrote into the workspace are not included", err=True)


def _check_new(into: Path) -> None:
    if into.is_symlink() or into.exists():
        raise InputError(f"{into} already exists", remedy="Pass a directory that does not exist yet: --to DIR")
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{into} cannot be created: {error.strerror}") from None


def _attempt(run: RunDirectory, text: str) -> tuple[str, int]:
    known = {layout.task_directory(r.task_id, r.repeat).removeprefix("tasks/"): r for r in run.records()}
    if text not in known:
        raise InputError(
            f"{run.directory} has no attempt {text!r}{did_you_mean(text, known)}",
            remedy=f"To list its attempts: agentbench runs show {run.directory}",
        )
    return known[text].task_id, known[text].repeat


def _final_state(run: RunDirectory, task_id: str, repeat: int) -> FinalState:
    where = run.directory / layout.task_directory(task_id, repeat) / layout.WORKSPACE
    data = run.file(task_id, repeat, layout.WORKSPACE, at_most=_STATE_MAX)
    if data is None:
        raise InputError(
            f"{where} does not exist: the attempt ended early, its workspace was not saved "
            "(artifacts.keep_workspace), or it was recorded by an earlier version",
            remedy=f"Earlier versions saved the whole workspace in {layout.REPO}/.",
        )
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is damaged: {error}") from None
    return load(plain, FinalState, where=str(where))


def _write(run: RunDirectory, attempt: str, state: FinalState, task: Task, into: Path) -> bool:
    """Write the code and the changes. Returns whether setup had changed nothing. Removes everything after an error."""
    deadline = Deadline(_SECONDS)
    checkout(task.spec.repo, beside=task.directory, into=into, deadline=deadline)
    try:
        with tempfile.TemporaryDirectory(prefix="agentbench-") as scratch:
            is_whole = Snapshots(Path(scratch), deadline).take(into).tree == state.prepared_tree
        with Tree(run.directory) as saved, Tree(into) as workspace:
            gone = (*state.removed, *(link.path for link in state.links), *(one.path for one in state.omitted))
            _remove(workspace, gone)
            new_executables = set(state.executable)
            for path in (*state.executable, *state.not_executable):
                with suppress(ToolError):  # setup wrote this file
                    data = workspace.read(path, limit=FILE_SIZE_MAX)
                    workspace.write(path, data, executable=path in new_executables)
            prefix = f"{attempt}/{layout.REPO}"
            for path in saved.files(prefix) if (run.directory / prefix).is_dir() else ():
                name = path.removeprefix(f"{prefix}/")
                _remove(workspace, [name])  # it may have been a link
                data, executable = saved.read(path, limit=FILE_SIZE_MAX), saved.is_executable(path)
                workspace.write(name, data, executable=executable)
    except BaseException as error:
        remove_tree(into)
        if isinstance(error, ToolError):
            raise InputError(f"{run.directory / attempt} cannot be applied to the task's code: {error}") from None
        raise
    return is_whole


def _remove(workspace: Tree, paths: Iterable[str]) -> None:
    for path in paths:
        try:
            workspace.remove(path)
        except ToolError as error:
            if error.error_type not in ("not_found", "not_a_file"):
                raise
