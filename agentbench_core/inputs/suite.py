"""Find and read tasks."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Sequence
from pathlib import Path

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.inputs.documents import read_yaml
from agentbench_core.values.messages import ToolCall
from agentbench_core.values.task import TaskSpec, digest

TASK_FILE = "task.yaml"


@attrs.frozen(kw_only=True)
class Task:
    """A task as it lies on disk. ``digest`` covers what an attempt's result can depend on, hidden tests included."""

    spec: TaskSpec
    directory: Path
    digest: str

    @property
    def hidden_files(self) -> Path | None:
        """The directory of hidden tests."""
        return self.directory / self.spec.validation.files if self.spec.validation.files else None


@attrs.frozen(kw_only=True)
class _Script:
    calls: tuple[ToolCall, ...]


def read_task(path: Path) -> Task:
    """One task by the path of its ``task.yaml``, or of its directory. Raises InputError naming every problem."""
    path = path / TASK_FILE if path.is_dir() else path
    spec = load(read_yaml(path), TaskSpec, where=str(path))
    task = Task(spec=spec, directory=path.parent, digest="")
    for field, name in (
        ("validation.files", spec.validation.files),
        ("oracle.patch", spec.oracle.patch),
        ("oracle.script", spec.oracle.script),
    ):
        _check_beside(path, field, name)
    if spec.oracle.patch and spec.oracle.script:
        raise InputError(f"{path}: oracle: has a patch and a script; keep one of them")
    return attrs.evolve(task, digest=_digest(task))


def suites(root: Path) -> Sequence[str]:
    """Names of the suites below the tasks directory, sorted."""
    return sorted({path.parent.parent.name for path in root.glob(f"*/*/{TASK_FILE}")})


def read_suite(root: Path, suite: str) -> Sequence[Task]:
    """Every task of a suite, sorted by id."""
    if not root.is_dir():
        raise InputError(
            f"there is no tasks directory {str(root)!r}", remedy="Name it with --tasks DIR, or run where ./tasks is."
        )
    paths = sorted((root / suite).glob(f"*/{TASK_FILE}"))
    if not paths:
        known = suites(root)
        raise InputError(
            f"no suite {suite!r} in {root}{did_you_mean(suite, known)}",
            remedy=f"Suites there: {', '.join(known) or 'none'}",
        )
    tasks = sorted((read_task(path) for path in paths), key=lambda task: task.spec.id)
    seen: dict[str, Path] = {}
    for task in tasks:
        where = task.directory / TASK_FILE
        if task.spec.suite != suite:
            raise InputError(f"{where}: suite: is {task.spec.suite!r}, but lies in suite {suite!r}")
        if task.spec.id in seen:
            raise InputError(f"{where}: id: {task.spec.id!r} is also used in {seen[task.spec.id]}")
        seen[task.spec.id] = task.directory
    return tasks


def select(tasks: Sequence[Task], globs: Sequence[str]) -> Sequence[Task]:
    """The tasks whose id matches one of ``globs``; all of them when there are none."""
    chosen = [task for task in tasks if not globs or any(fnmatch.fnmatch(task.spec.id, glob) for glob in globs)]
    for glob in globs:
        if not any(fnmatch.fnmatch(task.spec.id, glob) for task in tasks):
            names = [task.spec.id for task in tasks]
            raise InputError(
                f"no task matches {glob!r}{did_you_mean(glob, names)}", remedy=f"Tasks: {', '.join(names)}"
            )
    return chosen


def oracle_script(task: Task) -> tuple[ToolCall, ...]:
    """The reference solution as tool calls; a patch becomes one ``apply_patch``. Empty when there is none."""
    oracle = task.spec.oracle
    if oracle.script:
        path = task.directory / oracle.script
        return load({"calls": read_yaml(path)}, _Script, where=str(path)).calls
    if oracle.patch:
        patch = (task.directory / oracle.patch).read_text(encoding="utf-8")
        return (ToolCall(tool="apply_patch", arguments={"unified_diff": patch}),)
    return ()


def _check_beside(task_file: Path, field: str, name: str) -> None:
    """A file that a task names lies in the task's own directory."""
    if not name:
        return
    path = (task_file.parent / name).resolve()
    if not path.is_relative_to(task_file.parent.resolve()):
        raise InputError(f"{task_file}: {field}: {name!r} leads out of the task's directory")
    if not path.exists():
        raise InputError(f"{task_file}: {field}: {name!r} does not exist")


def _digest(task: Task) -> str:
    """Digest of what matters to a result: where the repository lies, and how the task is solved, do not."""
    plain = dump(task.spec)
    for irrelevant in ("tags", "oracle", "artifacts"):
        del plain[irrelevant]
    del plain["repo"]["url"]
    return digest({"spec": plain, "hidden": _file_hashes(task.hidden_files)})


def _file_hashes(directory: Path | None) -> dict[str, str]:
    if directory is None:
        return {}
    files = sorted(path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
