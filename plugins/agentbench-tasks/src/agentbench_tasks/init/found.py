"""Detect facts about a repository and this machine, without running any code of the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path

import attrs

from agentbench_core.harness import NAME_PATTERN, TASK_FILE, Registry
from agentbench_tasks.mining.dependencies.files import at, ini, text, toml
from agentbench_tasks.mining.dependencies.interpreter import choose_python
from agentbench_tasks.mining.dependencies.project import Project, read_project
from agentbench_tasks.mining.dependencies.sources import sources
from agentbench_tasks.mining.values import RejectedError

IMAGE_PYTHON = "3.11"
"""The Python version of the default task image."""

_SECONDS = 10.0  # for each program that is queried
_MOST_FILES = 20_000
_DEEPEST = 3  # directories; everything that describes a project is near its root
_SKIPPED = {".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox"}
_REMOTE = re.compile(r"https://|ssh://|[\w.-]+@[\w.-]+:")


@attrs.frozen(slots=False)
class DirectoryTree:
    """The files of a directory, with the same interface as the files of a commit."""

    root: Path

    @cached_property
    def _paths(self) -> Sequence[str]:
        found: list[str] = []
        for directory, names, files in os.walk(self.root):
            inside = Path(directory).relative_to(self.root)
            names[:] = sorted(set(names) - _SKIPPED) if len(inside.parts) < _DEEPEST else []
            found.extend((inside / name).as_posix() for name in files)
            if len(found) > _MOST_FILES:
                break
        return found

    def paths(self) -> Collection[str]:
        """The paths of files near the root."""
        return self._paths

    def read(self, path: str, limit: int = 1 << 20) -> bytes | None:
        """The first ``limit`` bytes of a regular file, or None."""
        try:
            with (self.root / path).open("rb") as file:
                return file.read(limit)
        except OSError:
            return None


@attrs.frozen(kw_only=True)
class Repository:
    """The git repository that contains the directory."""

    root: Path
    branch: str  #: the default branch according to this clone; empty if there is none
    remote: str  #: URL of `origin` without credentials; empty if there is none
    has_commits: bool
    shallow: bool  #: whether this clone lacks a part of the history


@attrs.frozen(kw_only=True)
class Found:
    """Everything that was detected."""

    directory: Path  #: absolute
    repository: Repository | None
    suite: str
    tasks: int  #: number of tasks in the suite
    tests: Sequence[str]  #: how tests are run, and the file that configures this; human-readable
    requirements: Sequence[str]  #: the places that list the requirements of tests
    python: str  #: the Python version for tasks; empty if the default image has none that the project allows
    python_note: str
    engine: str  #: version of the Docker engine; empty if none answers
    keys: Sequence[str]  #: names of the variables with API keys
    agents: Sequence[str]
    has_mechanic: bool
    source: str  #: git URL of the AgentBench that is installed; empty if unknown
    ref: str  #: its commit


def find(directory: Path, registry: Registry, suite: str) -> Found:
    """Inspect a directory, which may not exist yet; ``suite`` overrides the derived name."""
    directory = directory.resolve()
    tree = DirectoryTree(directory)
    project = read_project(tree)
    suite = suite or _suite(tree, project)
    try:
        choice = choose_python(tree, project, [IMAGE_PYTHON])
        python, note = choice.version, choice.note
    except RejectedError as error:
        python, note = "", error.rejection.reason
    source, ref = own_source()
    return Found(
        directory=directory,
        repository=_repository(directory),
        suite=suite,
        tasks=len(list((directory / "tasks" / suite).glob(f"*/{TASK_FILE}"))),
        tests=tuple(_tests(tree, project)),
        requirements=tuple(dict.fromkeys(source.name for source in sources(tree, project) if source.requirements)),
        python=python,
        python_note=note,
        engine=_answer("docker", "version", "--format", "{{.Server.Version}}"),
        keys=sorted(name for name, value in os.environ.items() if name.endswith("_API_KEY") and value),
        agents=registry.names("agent"),
        has_mechanic=registry.has("llm", "mechanic"),
        source=source,
        ref=ref,
    )


def _answer(*command: str) -> str:
    """Standard output of a program, or an empty string if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return os.fsdecode(done.stdout).strip()


def _repository(directory: Path) -> Repository | None:
    root = next((path for path in (directory, *directory.parents) if (path / ".git").exists()), None)
    if root is None:
        return None
    git = ("git", "-C", str(root))
    default = _answer(*git, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").removeprefix("origin/")
    return Repository(
        root=root,
        branch=default or _answer(*git, "branch", "--show-current"),
        remote=_public(_answer(*git, "config", "--get", "remote.origin.url")),
        has_commits=bool(_answer(*git, "rev-parse", "--verify", "HEAD")),
        shallow=_answer(*git, "rev-parse", "--is-shallow-repository") == "true",
    )


def _public(url: str) -> str:
    """A URL without user name and password, which may be a token."""
    return re.sub(r"(?<=://)[^/\s]*@", "", url) if not url.startswith("ssh://") else url


def _suite(tree: DirectoryTree, project: Project) -> str:
    """The suite in agentbench.toml, or the only one in tasks/, or a name derived from the project's name."""
    configured = at(toml(tree, "agentbench.toml"), "run", "suite")
    if isinstance(configured, str) and re.fullmatch(NAME_PATTERN, configured):
        return configured
    existing = {path.parent.parent.name for path in (tree.root / "tasks").glob(f"*/*/{TASK_FILE}")}
    if len(existing) == 1:
        return existing.pop()
    name = re.sub(r"[^a-z0-9._-]+", "-", (project.name or tree.root.name).lower()).strip("._-")[:64]
    return name if re.fullmatch(NAME_PATTERN, name) else "suite"


def _tests(tree: DirectoryTree, project: Project) -> Iterator[str]:
    pyproject = toml(tree, "pyproject.toml")
    configured = (
        ("pytest.ini", bool(text(tree, "pytest.ini"))),
        ("pyproject.toml", at(pyproject, "tool", "pytest") is not None),
        ("tox.ini", "pytest" in ini(text(tree, "tox.ini"))),
        ("setup.cfg", "tool:pytest" in ini(text(tree, "setup.cfg"))),
    )
    files = [name for name, has in configured if has]
    if files:
        yield f"pytest ({files[0]})"
    elif any(source.names_pytest for source in sources(tree, project)):
        yield "pytest (in the requirements)"
    elif any(re.search(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$", path) for path in tree.paths()):
        yield "pytest (files named test_*.py)"
    if text(tree, "tox.ini") or text(tree, "tox.toml") or at(pyproject, "tool", "tox") is not None:
        yield "tox"
    if text(tree, "noxfile.py"):
        yield "nox"


def own_source() -> tuple[str, str]:
    """The source of this AgentBench (PEP 610), if other machines can reach it: a git URL, and a commit."""
    try:
        told = json.loads(metadata.distribution("agentbench-core").read_text("direct_url.json") or "{}")
        url, vcs = str(told.get("url", "")), told.get("vcs_info", {})
        if vcs.get("vcs") == "git":
            return _public(url), str(vcs["commit_id"])
        if not url.startswith("file://"):
            return "", ""
    except (metadata.PackageNotFoundError, ValueError, AttributeError, KeyError):
        return "", ""
    directory = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
    remote = _public(_answer("git", "-C", directory, "config", "--get", "remote.origin.url"))
    return (remote, _answer("git", "-C", directory, "rev-parse", "HEAD")) if _REMOTE.match(remote) else ("", "")
