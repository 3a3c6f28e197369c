"""``agentbench tasks pin``: write the commit of an edited ``repo/`` into task.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from agentbench_core import InputError
from agentbench_core.harness import (
    TASK_FILE,
    Task,
    directory_commit,
    parse_yaml,
    plain_directory,
    read_suite,
    read_task,
    replace_text,
    say,
    select,
    task_flag,
    tasks_flag,
)

_SHOWN = 12  # characters of a commit


@click.command("pin")
@click.argument("task_dir", required=False, type=click.Path(path_type=Path))
@click.option("--suite", metavar="NAME", help="Pin the tasks of a suite instead of a single one.")
@tasks_flag
@task_flag
def pin_tasks(task_dir: Path | None, suite: str | None, root: str, task_globs: tuple[str, ...]) -> int:
    """Write the commit of a task's code into task.yaml, after its repo/ was edited.

    \b
    agentbench tasks pin tasks/my-suite/my-task
    agentbench tasks pin --suite my-suite

    Nothing else in task.yaml changes. TASK_DIR is the directory of task.yaml. Only tasks whose repo.url is a plain
    directory can be pinned; other tasks of a suite are not changed.
    """
    if (task_dir is None) == (suite is None):
        raise click.UsageError("Pass either TASK_DIR or --suite NAME.")
    if task_dir is not None:
        if task_globs:
            raise click.UsageError("--task selects tasks of a suite; remove it, or pass --suite NAME.")
        say(pin(read_task(task_dir)))
        return 0
    assert suite is not None
    return _pin_suite(select(read_suite(Path(root), suite), task_globs))


def _pin_suite(tasks: Sequence[Task]) -> int:
    """Pin each task that can be pinned. A task with an error does not stop the others."""
    failed = False
    for task in tasks:
        try:
            if _directory(task) is None:
                say(f"{task.spec.id}: not pinned, because its code comes from a repository")
            else:
                say(pin(task))
        except InputError as error:
            failed = True
            say(f"{task.spec.id}: {error}", err=True)
    return InputError.exit_code if failed else 0


def pin(task: Task) -> str:
    """Write the commit of a task's directory into its task.yaml, and return a line about it.

    Only the commit is replaced; comments, order and quoting are preserved. The file is written atomically, and only if
    the commit has changed.

    Raises:
        InputError: the code does not come from a plain directory, the directory cannot be read, or task.yaml has
            changed since it was read, is not writable, or has the commit in a place that cannot be replaced.
    """
    directory = _directory(task)
    if directory is None:
        raise InputError(
            f"{task.directory / TASK_FILE}: repo.url is a repository, but only plain directories can be pinned",
            remedy="Set repo.commit to the commit of the repository that the task needs.",
        )
    before, after = task.spec.repo.commit, directory_commit(directory)
    if before == after:
        return f"{task.spec.id}: unchanged, pinned {after[:_SHOWN]}"
    path = (task.directory / TASK_FILE).resolve()
    text = with_commit(task.text, after, str(path))
    if path.read_bytes() != task.text.encode():
        raise InputError(f"{path} changed while the commit was being computed", remedy="Pin the task again.")
    replace_text(path, text)
    return f"{task.spec.id}: pinned {after[:_SHOWN]} (was {before[:_SHOWN]})"


def with_commit(text: str, commit: str, where: str) -> str:
    """The text of a task.yaml with a different ``repo.commit``. Raises InputError if its value is not on one line."""
    expected: Any = parse_yaml(text, where)
    expected["repo"] |= {"commit": commit}
    node = _value(_value(yaml.compose(text, Loader=yaml.SafeLoader), "repo"), "commit")
    start, end = node.start_mark, node.end_mark
    quotes = {"'": ["'"], '"': ['"']}.get(node.style, ["", '"'])  # a SHA of digits needs quotes
    for quote in quotes if start.line == end.line else ():
        result = f"{text[: start.index]}{quote}{commit}{quote}{text[end.index :]}"
        if parse_yaml(result, where) == expected:
            return result
    raise InputError(f"{where}: cannot replace repo.commit", remedy="Write `commit: SHA` on one line.")


def _value(mapping: Any, name: str) -> Any:
    """The node of a field in a valid task.yaml."""
    return next(value for key, value in mapping.value if key.value == name)


def _directory(task: Task) -> Path | None:
    return plain_directory(task.spec.repo, task.directory)
