"""``agentbench tasks new ID --repo PATH --fix COMMIT``: one task from one fix, with every step shown."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from agentbench_core import Deadline, InputError, name_some
from agentbench_core.harness import NAME_PATTERN, App, GitFailedError, History, fetch_history, say
from agentbench_tasks.mining.candidate import Candidate
from agentbench_tasks.mining.commit_tree import LARGEST
from agentbench_tasks.mining.discussions import read_discussions
from agentbench_tasks.mining.flags import JUNIT_ALONE, mining_settings, mining_variant
from agentbench_tasks.mining.history import find_commit, read_commit
from agentbench_tasks.mining.ledger import Ledger, held
from agentbench_tasks.mining.mine import Source, Watcher, open_workshop
from agentbench_tasks.mining.splitting import EXECUTABLE, REGULAR, File
from agentbench_tasks.mining.values import OF_TEXT, Commit

_SECONDS = 3600.0
_GIT = ".git"


@attrs.frozen(kw_only=True)
class Fix:
    """The fix as specified by the user."""

    repo: str
    commit: str = ""  #: a commit that fixes the bug
    tests: tuple[str, ...] = ()  #: instead: test files and directories, relative to the repository
    patch: str = ""  #: and the file with the reference patch
    base: str = "HEAD"  #: the commit that they apply to
    description: str = ""  #: the task's description; empty to use the commit's message


def new_from_fix(app: App, task_id: str, suite: str, root: Path, fix: Fix, typed: Mapping[str, Any]) -> int:
    """Create and validate one task.

    Raises:
        UsageError: flags cannot be combined.
        InputError: anything else prevents it.
        UnavailableError: the repository or the sandbox is not available.
    """
    _check(task_id, suite, fix, typed)
    settings = mining_settings(suite, typed)
    discussions = read_discussions(Path(typed["issues"])) if typed.get("issues") else {}
    deadline = Deadline(_SECONDS)
    if fix.tests and not Path(fix.repo).is_dir():
        raise InputError("--tests requires a local repository", remedy="Clone it and pass its directory as --repo.")
    history = fetch_history(fix.repo, beside=Path.cwd(), deadline=deadline)
    hidden: Sequence[str] | None = None
    if fix.commit:
        commit = read_commit(history.git, _resolved(history, fix.commit, deadline), deadline=deadline)
        if not commit.parent:
            raise InputError(
                f"commit {fix.commit} is the first commit in the repository, so there is no code before it",
                remedy="Pass the commit that fixed the bug.",
            )
    else:
        files = _test_files(Path(fix.repo), fix.tests)
        commit, hidden = _assembled(history, fix, files, deadline), list(files)
    variant = mining_variant(app, typed)
    directory = root / suite
    if (directory / task_id).exists():
        raise InputError(f"{directory / task_id} already exists", remedy="Choose another id, or remove the directory.")
    watcher = _Steps()
    with held(directory):
        source = Source(history=history, root=directory, ledger=Ledger(directory), discussions=discussions)
        with open_workshop(source, settings, variant, watcher, workers=1, resists=None) as shop:

            def work(text: str) -> Any:
                return Candidate(
                    shop=shop, commit=commit, task_id=task_id, text=text, hidden_paths=hidden, watch=_step
                ).work()

            entry = work(fix.description)
            if entry.code in OF_TEXT and _is_interactive():
                say(f"{entry.code}: {entry.reason}")
                entry = work(click.prompt("Describe the bug, without its solution"))
        known = source.ledger.entries.get(commit.id)
        if fix.commit and (entry.task or known is None or not known.task):  # an existing task of this commit is kept
            source.ledger.add(entry)
    if not entry.task:
        remedy = "Pass --description TEXT." if entry.code in OF_TEXT else ""
        raise InputError(f"{entry.code}: {entry.reason}", remedy=remedy)
    say(f"created {directory / task_id}{' (' + ', '.join(entry.labels) + ')' if entry.labels else ''}")
    say(f"try it: agentbench run-task --task {directory / task_id} --agent scripted --sandbox {variant.sandbox.name}")
    if "weak_verdict" in entry.labels:
        say(f"its verdicts are weak; to strengthen the task: agentbench tasks strengthen {directory / task_id}")
    return 0


def _check(task_id: str, suite: str, fix: Fix, typed: Mapping[str, Any]) -> None:
    """Raises UsageError with all problems of the flags."""
    problems = [
        f"{name!r} is not a valid {what}: use at most 64 lowercase letters, digits, '.', '_' and '-'"
        for what, name in (("task id", task_id), ("suite", suite))
        if not re.fullmatch(NAME_PATTERN, name)
    ]
    if bool(fix.commit) == bool(fix.tests or fix.patch):
        problems.append("--repo requires either --fix COMMIT, or --tests PATH and --patch FILE")
    elif bool(fix.tests) != bool(fix.patch):
        problems.append("--tests and --patch must be used together")
    if fix.commit and fix.base != "HEAD":
        problems.append("--base requires --tests and --patch; the base of a commit is its first parent")
    if typed["junit"] and not typed["test_command"]:
        problems.append(JUNIT_ALONE)
    if problems:
        raise click.UsageError("\n".join(problems))


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _step(message: str) -> None:
    say(f"- {message}", err=True)


class _Steps(Watcher):
    def note(self, message: str) -> None:
        """Print a note."""
        say(f"note: {message}", err=True)


def _resolved(history: History, name: str, deadline: Deadline) -> str:
    full = find_commit(history, name, deadline)
    if full is None:
        raise InputError(f"no commit {name!r} in {history.url}", remedy="Pass a commit that is on a branch or tag.")
    return full


def _test_files(repository: Path, names: Sequence[str]) -> Mapping[str, File]:
    """The named files, and all files in the named directories, by path in the repository."""
    root = repository.resolve()
    files: dict[str, File] = {}
    problems = []
    for name in names:
        path = Path(os.path.normpath(root / name))
        inside = path.is_relative_to(root) and _GIT not in path.relative_to(root).parts
        if not inside or not path.exists():
            problems.append(f"--tests {name}: not a file or directory in {repository}")
            continue
        link = next((each for each in (path, *path.parents) if each.is_relative_to(root) and each.is_symlink()), None)
        if link is not None:
            problems.append(f"--tests {name}: {link.relative_to(root)} is a symbolic link")
            continue
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            relative = each.relative_to(root).as_posix()
            if {"__pycache__", _GIT}.intersection(relative.split("/")):
                continue
            if each.is_symlink():
                problems.append(f"--tests {name}: {relative} is a symbolic link")
            elif each.is_file():
                try:
                    files[relative] = File(data=_read(each), executable=os.access(each, os.X_OK))
                except OSError as error:
                    problems.append(f"--tests {name}: {relative} cannot be read: {error.strerror}")
    if problems or not files:
        raise InputError(
            "\n".join(problems) or f"--tests: there are no files in {name_some(names)}",
            remedy="Pass files and directories in the repository.",
        )
    return files


def _read(path: Path) -> bytes:
    """The content of a file. Raises OSError if it is too large."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"the file is larger than {LARGEST >> 20} MiB")
    return data


def _assembled(history: History, fix: Fix, tests: Mapping[str, File], deadline: Deadline) -> Commit:
    """A commit in a copy of the repository, with the patch and the tests on top of the base."""
    git, base = history.git, _resolved(history, fix.base, deadline)
    try:
        patch = _read(Path(fix.patch))
    except OSError as error:
        raise InputError(f"--patch {fix.patch}: {error.strerror}") from None
    with tempfile.TemporaryDirectory(prefix="agentbench-") as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        git.run("read-tree", base, deadline=deadline, env=env)
        try:
            git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch, deadline=deadline, env=env)
        except GitFailedError as error:
            raise InputError(
                f"--patch {fix.patch} does not apply to {base[:12]}: {error.stderr.strip()}",
                remedy="Pass a patch made with `git diff` against --base.",
            ) from None
        for path, file in tests.items():
            blob = git.run("hash-object", "-w", "--stdin", stdin=file.data, deadline=deadline).decode().strip()
            entry = f"{EXECUTABLE if file.executable else REGULAR},{blob},{path}"
            git.run("update-index", "--add", "--replace", "--cacheinfo", entry, deadline=deadline, env=env)
        tree = git.run("write-tree", deadline=deadline, env=env).decode().strip()
    made = git.run("commit-tree", tree, "-p", base, "-m", "Fix", deadline=deadline).decode().strip()
    commit = read_commit(git, made, deadline=deadline)
    if not any(change.path in tests for change in commit.files):
        raise InputError(
            f"--tests: all files are identical to those in {base[:12]}, the base of the patch",
            remedy="Pass a commit without these tests as --base.",
        )
    date = read_commit(git, base, deadline=deadline).date  # a lower bound, and the date of the dependencies
    return attrs.evolve(commit, subject="", body="", date=date, author_date=date)
