"""Find and read tasks."""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from agentbench_core.converter import dump, load
from agentbench_core.errors import InputError, Obstacles, did_you_mean
from agentbench_core.inputs.documents import near, parse_yaml, read_text, read_yaml
from agentbench_core.values.dates import utc_day
from agentbench_core.values.globs import path_matcher
from agentbench_core.values.messages import ToolCall
from agentbench_core.values.task import Oracle, TaskSpec, Validation, digest

TASK_FILE = "task.yaml"  #: name of a task's file

_LEFT_OUT = {"__pycache__", ".pytest_cache", ".DS_Store"}
_LATER_FIELDS = (("repo", "submodules", "refused"), ("setup", "shared_cache", True), ("validation", "files_at", ""))
"""Section, name and default of fields that were added after the first release."""


@attrs.frozen(kw_only=True)
class HiddenFile:
    """A hidden test file."""

    path: str  #: relative to the directory of hidden tests
    data: bytes = attrs.field(repr=False)  #: content
    executable: bool  #: whether its owner may execute it


@attrs.frozen(kw_only=True)
class Task:
    """A task as read: later changes to its files do not affect the run."""

    spec: TaskSpec  #: content of `task.yaml`
    directory: Path  #: the directory of `task.yaml`
    text: str = attrs.field(repr=False)  #: text of `task.yaml`
    hidden: tuple[HiddenFile, ...]  #: the hidden tests
    script: tuple[ToolCall, ...] = attrs.field(repr=False)  #: the reference solution as tool calls
    digest: str  #: covers everything that can affect a result, including hidden tests


@attrs.frozen(kw_only=True)
class _Script:
    calls: tuple[ToolCall, ...]


def read_task(path: Path) -> Task:
    """Read a task by the path of its ``task.yaml`` or directory. Raises InputError listing every problem."""
    path = path / TASK_FILE if path.is_dir() else path
    text = read_text(path)
    spec = load(parse_yaml(text, str(path)), TaskSpec, where=str(path))
    _check_globs(path, spec)
    _check_dates(path, spec)
    hidden = _read_hidden(path, spec.validation)
    return Task(
        spec=spec,
        directory=path.parent,
        text=text,
        hidden=hidden,
        script=_read_oracle(path, spec.oracle),
        digest=task_digest(spec, hidden),
    )


def suites(root: Path) -> Sequence[str]:
    """Names of the suites in the tasks directory, sorted."""
    return sorted({path.parent.parent.name for path in root.glob(f"*/*/{TASK_FILE}")} if root.is_dir() else ())


def read_suite(root: Path, suite: str) -> Sequence[Task]:
    """Every task of a suite, sorted by id. Raises InputError if there are none, or if any are invalid."""
    if not root.is_dir():
        raise InputError(
            f"tasks directory not found: {str(root)!r}{'' if root.exists() else near(root)}",
            remedy="Pass --tasks DIR, or run in the directory that contains ./tasks.",
        )
    paths = sorted((root / suite).glob(f"*/{TASK_FILE}"))
    if not paths:
        known = suites(root)
        raise InputError(
            f"no suite {suite!r} in {root}{did_you_mean(suite, known)}",
            remedy=f"Suites there: {', '.join(known) or 'none'}",
        )
    tasks, seen, problems = [], dict[str, Path](), Obstacles()
    for path in paths:
        with problems.gathered():
            tasks.append(read_task(path))
    for task in sorted(tasks, key=lambda task: task.spec.id):
        where = task.directory / TASK_FILE
        if task.spec.suite != suite:
            problems.add(
                InputError(f"{where}: suite: is {task.spec.suite!r}, but the task is in suite directory {suite!r}")
            )
        if task.spec.id in seen:
            problems.add(InputError(f"{where}: id: {task.spec.id!r} is also used in {seen[task.spec.id]}"))
        seen[task.spec.id] = task.directory
    problems.refuse()
    return sorted(tasks, key=lambda task: task.spec.id)


def select(tasks: Sequence[Task], globs: Sequence[str]) -> Sequence[Task]:
    """The tasks whose id matches one of ``globs``, or all without globs. Raises InputError if a glob matches none."""
    chosen = [task for task in tasks if not globs or any(fnmatch.fnmatch(task.spec.id, glob) for glob in globs)]
    for glob in globs:
        if not any(fnmatch.fnmatch(task.spec.id, glob) for task in tasks):
            names = [task.spec.id for task in tasks]
            raise InputError(
                f"no task matches {glob!r}{did_you_mean(glob, names)}", remedy=f"Tasks: {', '.join(names)}"
            )
    return chosen


def _check_globs(task_file: Path, spec: TaskSpec) -> None:
    for field, globs in (
        ("validation.protected_globs", spec.validation.protected_globs),
        ("agent.editable_globs", spec.agent.editable_globs),
    ):
        try:
            path_matcher(globs)
        except InputError as error:
            raise InputError(f"{task_file}: {field}: {error.message}") from None


def _check_dates(task_file: Path, spec: TaskSpec) -> None:
    for field, text in (("date", spec.provenance.date), ("author_date", spec.provenance.author_date)):
        try:
            if text:
                utc_day(text)
        except ValueError as error:
            raise InputError(f"{task_file}: provenance.{field}: {text!r}: {error}") from None


def _inside(task_file: Path, field: str, name: str) -> Path:
    """A path named in a task. Raises InputError if it does not exist, or is outside the task's directory."""
    path = task_file.parent / name
    if not path.resolve().is_relative_to(task_file.parent.resolve()):
        raise InputError(f"{task_file}: {field}: {name!r} is outside the task's directory")
    if not path.exists():
        raise InputError(f"{task_file}: {field}: {name!r} does not exist{near(path)}")
    return path


def _read_hidden(task_file: Path, validation: Validation) -> tuple[HiddenFile, ...]:
    """The hidden tests; empty if the task has none. Raises InputError if their directory is missing or empty."""
    name = validation.files
    if not name:
        if validation.files_at:
            raise InputError(f"{task_file}: validation.files_at: the task has no hidden tests; set validation.files")
        return ()
    where = f"{task_file}: validation.files"
    if any(part in ("", ".", "..") for part in name.removesuffix("/").split("/")):
        raise InputError(f"{where}: {name!r} must be a relative path to a directory next to task.yaml")
    directory = _inside(task_file, "validation.files", name)
    if not directory.is_dir():
        raise InputError(f"{where}: {name!r} is not a directory")
    paths = [path for path in sorted(directory.rglob("*")) if _LEFT_OUT.isdisjoint(path.relative_to(directory).parts)]
    links = [path for path in (directory, *paths) if path.is_symlink()]
    if links:
        raise InputError(f"{where}: {links[0]} is a symbolic link; hidden tests must be regular files")
    files = tuple(
        HiddenFile(
            path=path.relative_to(directory).as_posix(),
            data=path.read_bytes(),
            executable=bool(path.stat().st_mode & stat.S_IXUSR),
        )
        for path in paths
        if path.is_file()
    )
    if not files:
        raise InputError(f"{where}: {name!r} contains no files")
    return files


def _read_oracle(task_file: Path, oracle: Oracle) -> tuple[ToolCall, ...]:
    """The reference solution as tool calls; a patch becomes one ``apply_patch`` call. Empty if there is none."""
    if oracle.patch and oracle.script:
        raise InputError(f"{task_file}: oracle: has both a patch and a script; remove one")
    if oracle.script:
        path = _inside(task_file, "oracle.script", oracle.script)
        return load({"calls": read_yaml(path)}, _Script, where=str(path)).calls
    if oracle.patch:
        patch = read_text(_inside(task_file, "oracle.patch", oracle.patch))
        return (ToolCall(tool="apply_patch", arguments={"unified_diff": patch}),)
    return ()


def task_digest(spec: TaskSpec, hidden: Sequence[HiddenFile]) -> str:
    """Digest of everything that can affect a result, without the repository's location and the reference solution."""
    plain = dump(spec)
    for irrelevant in ("tags", "oracle", "artifacts", "provenance"):
        del plain[irrelevant]
    del plain["repo"]["url"]
    for section, name, default in _LATER_FIELDS:  # tasks that do not use them keep their digest
        if plain[section][name] == default:
            del plain[section][name]
    files = {file.path: [hashlib.sha256(file.data).hexdigest(), file.executable] for file in hidden}
    return digest({"spec": plain, "hidden": files})


def hidden_paths(task: Task) -> tuple[str, ...]:
    """The paths of the hidden tests in a workspace that contains them."""
    return tuple(posixpath.join(task.spec.validation.hidden_root, file.path) for file in task.hidden)


def protected_paths(task: Task) -> Callable[[str], bool]:
    """A predicate for paths that agents must not change.

    These are paths that match the task's globs, files of expected tests, and hidden tests with everything else in the
    directory that they are copied to, where an agent could otherwise add a module that the hidden tests import. If
    that directory is the root, only the hidden tests themselves are protected, and the globs must cover the rest.
    """
    validation = task.spec.validation
    hidden = (f"/{validation.hidden_root}",) if validation.hidden_root else ()
    is_match = path_matcher((*validation.protected_globs, *hidden))
    files = {*hidden_paths(task), *(test.partition("::")[0] for test in validation.expected_tests)}
    return lambda path: path in files or is_match(path)


def editable_paths(task: TaskSpec) -> Callable[[str], bool]:
    """A predicate for paths that the agent may edit."""
    if not task.agent.allow_file_write:
        return path_matcher(())
    return path_matcher(task.agent.editable_globs or ("**",))
