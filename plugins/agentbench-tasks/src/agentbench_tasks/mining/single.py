"""``agentbench tasks new ID --repo PATH --fix COMMIT``: one task from one fix, with every step shown."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
import click

from agentbench_core import Deadline, InputError
from agentbench_core.harness import App, GitFailedError, History, fetch_history, say
from agentbench_tasks.mining.candidate import Candidate
from agentbench_tasks.mining.discussions import read_discussions
from agentbench_tasks.mining.flags import mining_settings, mining_variant
from agentbench_tasks.mining.history import read_commit
from agentbench_tasks.mining.ledger import Ledger, held
from agentbench_tasks.mining.mine import Source, Watcher, open_workshop
from agentbench_tasks.mining.values import Code, Commit

_SECONDS = 3600.0


@attrs.frozen(kw_only=True)
class Fix:
    """What the user named as the fix."""

    repo: str
    commit: str = ""  #: a commit that fixes the bug
    tests: tuple[str, ...] = ()  #: instead: test files and directories, relative to the repository
    patch: str = ""  #: and the file with the reference patch
    base: str = "HEAD"  #: the commit that they apply to
    description: str = ""  #: the task's description; empty to use the commit's message


def new_from_fix(app: App, task_id: str, suite: str, root: Path, fix: Fix, typed: Mapping[str, Any]) -> int:
    """Create and validate one task. Raises InputError if anything prevents it."""
    _check(fix)
    settings = mining_settings(suite, typed)
    deadline = Deadline(_SECONDS)
    history = fetch_history(fix.repo, beside=Path.cwd(), deadline=deadline)
    hidden: Sequence[str] | None = None
    if fix.commit:
        commit = read_commit(history.git, _resolved(history, fix.commit, deadline), deadline=deadline)
    else:
        files = _test_files(Path(fix.repo), fix.tests)
        commit, hidden = _assembled(history, fix, files, deadline), list(files)
    variant = mining_variant(app, typed)
    directory = root / suite
    if (directory / task_id).exists():
        raise InputError(f"{directory / task_id} already exists", remedy="Choose another id, or remove the directory.")
    watcher = _Steps()
    with held(directory):
        issues = typed.get("issues")
        source = Source(
            history=history,
            root=directory,
            ledger=Ledger(directory),
            discussions=read_discussions(Path(issues)) if issues else {},
        )
        with open_workshop(source, settings, variant, watcher, workers=1, resists=None) as shop:

            def work(text: str) -> Any:
                return Candidate(
                    shop=shop, commit=commit, task_id=task_id, text=text, hidden_paths=hidden, watch=_step
                ).work()

            entry = work(fix.description)
            if entry.code in (Code.NO_DESCRIPTION, Code.DESCRIPTION_REVEALS_FIX) and _is_interactive():
                say(f"{entry.code}: {entry.reason}")
                entry = work(click.prompt("Describe the bug, without its solution"))
        if fix.commit:
            source.ledger.add(entry)
    if not entry.task:
        remedy = "Pass --description TEXT." if entry.code in (Code.NO_DESCRIPTION, Code.DESCRIPTION_REVEALS_FIX) else ""
        raise InputError(f"{entry.code}: {entry.reason}", remedy=remedy)
    say(f"created {directory / task_id}{' (' + ', '.join(entry.labels) + ')' if entry.labels else ''}")
    say(f"try it: agentbench run-task --task {directory / task_id} --agent scripted --sandbox {variant.sandbox.name}")
    if "weak_verdict" in entry.labels:
        say(f"verdicts are weak; to strengthen it: agentbench tasks strengthen {directory / task_id}")
    return 0


def _check(fix: Fix) -> None:
    if bool(fix.commit) == bool(fix.tests or fix.patch):
        raise click.UsageError("--repo requires either --fix COMMIT, or --tests PATH and --patch FILE")
    if bool(fix.tests) != bool(fix.patch):
        raise click.UsageError("--tests and --patch belong together")


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _step(message: str) -> None:
    say(f"- {message}", err=True)


class _Steps(Watcher):
    def note(self, message: str) -> None:
        """Print a note."""
        say(f"note: {message}", err=True)


def _resolved(history: History, name: str, deadline: Deadline) -> str:
    full = history.git.resolve(f"{name}^{{commit}}", deadline)
    if full is None:
        raise InputError(f"no commit {name!r} in {history.url}", remedy="Pass a commit that is on a branch or tag.")
    return full


def _test_files(repository: Path, names: Sequence[str]) -> Mapping[str, bytes]:
    """The content of the named files, and of all files in the named directories, by path in the repository."""
    if not repository.is_dir():
        raise InputError("--tests needs a local repository", remedy="Clone it, and pass its directory as --repo.")
    root = repository.resolve()
    files: dict[str, bytes] = {}
    problems = []
    for name in names:
        path = root / name
        if not path.resolve().is_relative_to(root) or not path.exists():
            problems.append(f"--tests {name}: not in {repository}")
            continue
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_symlink():
                problems.append(f"--tests {name}: {each} is a symbolic link")
            elif each.is_file() and "__pycache__" not in each.parts:
                files[PurePosixPath(each.relative_to(root)).as_posix()] = each.read_bytes()
    if problems or not files:
        raise InputError("\n".join(problems) or "--tests names no files", remedy="Pass files of the repository.")
    return files


def _assembled(history: History, fix: Fix, tests: Mapping[str, bytes], deadline: Deadline) -> Commit:
    """A commit in our own repository, with the patch and the tests on top of the base."""
    git, base = history.git, _resolved(history, fix.base if fix.base != "HEAD" else history.head, deadline)
    try:
        patch = Path(fix.patch).read_bytes()
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
        for path, data in tests.items():
            blob = git.run("hash-object", "-w", "--stdin", stdin=data, deadline=deadline).decode().strip()
            git.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", deadline=deadline, env=env)
        tree = git.run("write-tree", deadline=deadline, env=env).decode().strip()
    made = git.run("commit-tree", tree, "-p", base, "-m", "Fix", deadline=deadline).decode().strip()
    return attrs.evolve(read_commit(git, made, deadline=deadline), subject="", body="")
