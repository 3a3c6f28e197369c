"""The schema of ``task.yaml``; see ``docs/task.md``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Literal

import attrs

from agentbench_core.schema import option

NAME_PATTERN = r"[a-z0-9][a-z0-9._-]{0,63}"
"""Pattern of task and suite ids, which are valid directory names on every file system."""

_WEEK = 604_800  # seconds
_NAMED_TESTS = 5
_INSIDE = r"\.?|(?:(?!\.\.?(?:/|$))[^/\x00-\x1f]+/)*(?!\.\.?(?:/|$))[^/\x00-\x1f]+/?"
_ANYTHING = r"(?s).*\S.*"
_DATE = r"(\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d))?)?"

Submodules = Literal["refused", "omitted"]
NetworkPolicy = Literal["none", "setup_only", "always"]
Isolation = Literal["in_process", "process"]

DEFAULT_PROTECTED = (
    "tests/**",
    "test/**",
    "**/conftest.py",
    "/pytest.ini",
    "/.pytest.ini",
    "/pytest.toml",
    "/.pytest.toml",
    "/tox.ini",
    "/setup.cfg",
    "/pyproject.toml",
    "/pytest.py",
    "/pytest/**",
    "/_pytest/**",
    "**/sitecustomize.*",
    "**/sitecustomize/**",
    "**/usercustomize.*",
    "**/usercustomize/**",
    "**/*.pth",
    "**/*.pyc",
    "**/*.[dD][iI][sS][tT]-[iI][nN][fF][oO]",
    "**/*.[eE][gG][gG]-[iI][nN][fF][oO]",
)
"""Globs of files restored before scoring by default; anchored where a project may use the same name elsewhere."""


@attrs.frozen(kw_only=True)
class Repo:
    """Source of the code."""

    url: str = option(
        help="https, ssh or file URL, or a path relative to task.yaml, of a repository, bundle or directory",
        pattern=_ANYTHING,
    )
    commit: str = option(help="full SHA; later commits are not reachable from the workspace", pattern="[0-9a-f]{40}")
    submodules: Submodules = option(
        "refused", help="refused: a repository with submodules is an error; omitted: they are left out of the workspace"
    )


@attrs.frozen(kw_only=True)
class EnvironmentSettings:
    """Environment and limits of the task."""

    docker_image: str = option("agentbench/py-runner:0.1.0", help="image for sandboxes that use images, such as docker")
    python: str = option("3.11", help="required Python version; checked after setup", pattern=r"3\.\d+(\.\d+)?")
    workdir: str = option("/workspace", help="path to the workspace in sandboxes with their own file system")
    network_policy: NetworkPolicy = option(
        "setup_only", help="setup_only: only setup has network access; always: the agent and the tests also have it"
    )
    cpu_limit: int = option(2, help="number of CPUs", minimum=1, maximum=1024)
    mem_limit_mb: int = option(4096, help="memory in MiB", minimum=64, maximum=1 << 24)
    timeout_sec: float = option(
        900.0, help="time limit for the agent and scoring phases together", minimum=1, maximum=_WEEK
    )
    setup_timeout_sec: float = option(1800.0, help="time limit for setup", minimum=1, maximum=_WEEK)
    tool_timeout_sec: float = option(120.0, help="time limit for one tool call", minimum=1, maximum=_WEEK)
    pids_limit: int = option(512, help="maximum number of processes and threads", minimum=16, maximum=1 << 22)


@attrs.frozen(kw_only=True)
class Setup:
    """Commands that set up the environment; they run once."""

    commands: tuple[str, ...] = option((), help="run in order in the workspace; the first failure ends the setup")
    capture: tuple[str, ...] = option(("python -V", "pip -V", "pip freeze"), help="run after setup; output is logged")
    shared_cache: bool = option(
        True, help="false: setup cannot use or change the package cache that the setups of other tasks share"
    )


@attrs.frozen(kw_only=True)
class Validation:
    """Commands and tests that must fail before and pass after the fix."""

    failing_command: str = option(
        help="must fail before the fix; its output without the hidden tests is shown to the agent", pattern=_ANYTHING
    )
    passing_command: str = option(help="must pass after the fix", pattern=_ANYTHING)
    files: str = option("", help="directory of hidden tests next to task.yaml; never in the agent's workspace")
    files_at: str = option(
        "",
        help="directory in the workspace that hidden tests are copied to; `.` is its root; default: same as files",
        pattern=_INSIDE,
    )
    protected_globs: tuple[str, ...] = option(DEFAULT_PROTECTED, help="files whose changes are dropped before scoring")
    fail_to_pass: tuple[str, ...] = option((), help="ids of tests that must fail before the fix and pass after it")
    pass_to_pass: tuple[str, ...] = option((), help="ids of tests that must pass before and after the fix")
    failing_timeout_ok: bool = option(
        False, help="true: failing_command may also time out (environment.timeout_sec), for bugs that cause a hang"
    )
    isolation: Isolation = option(
        "in_process", help="process: the program runs only in processes started by tests; violations fail the attempt"
    )
    writable: bool = option(False, help="true: the tests may write to the workspace while they run")

    @property
    def expected_tests(self) -> tuple[str, ...]:
        """All test ids that must pass after the fix; empty if only the exit code decides."""
        return (*self.fail_to_pass, *self.pass_to_pass)

    @property
    def hidden_root(self) -> str:
        """The directory in the workspace that the hidden tests are copied to; empty for its root."""
        return "" if self.files_at == "." else (self.files_at or self.files).strip("/")


@attrs.frozen(kw_only=True)
class AgentSettings:
    """Restrictions on the agent."""

    entrypoint: str = option("baseline", help="agent to use if neither the command line nor the variant specifies one")
    max_steps: int = option(30, help="maximum number of tool calls", minimum=1, maximum=1_000_000)
    allow_file_write: bool = option(True, help="false: no tools that edit files, and a read-only workspace")
    editable_globs: tuple[str, ...] = option(
        (), help="files that agents may edit; tools reject edits elsewhere, and other changes are discarded; empty: all"
    )


@attrs.frozen(kw_only=True)
class Oracle:
    """The reference solution, which proves that the task can be solved."""

    patch: str = option("", help="unified diff next to task.yaml")
    script: str = option("", help="YAML list of tool calls next to task.yaml, instead of a patch")


@attrs.frozen(kw_only=True)
class Artifacts:
    """Files to save."""

    keep_workspace: bool = option(True, help="save differences from the prepared workspace in repo/ and workspace.json")
    full_logs: bool = option(False, help="also save complete logs")
    redact: tuple[str, ...] = option((), help="names of environment variables whose values are redacted from all files")


@attrs.frozen(kw_only=True)
class Provenance:
    """The origin of the task. It has no effect on results."""

    commit: str = option("", help="full SHA of the commit that fixed the bug", pattern="([0-9a-f]{40})?")
    date: str = option(
        "", help="when the fix was committed, ISO 8601; --since selects tasks by this date", pattern=_DATE
    )
    author_date: str = option("", help="when the fix was written, ISO 8601", pattern=_DATE)
    text: str = option("", help="source of the description, such as issue, pull_request, merge or commit_message")
    recipe: str = option("", help="how the environment was determined")
    labels: tuple[str, ...] = option((), help="labels for readers of results, such as weak_verdict")
    figures: Mapping[str, float] = option({}, help="counts and measurements made when the task was created")
    tool: str = option("", help="the program that created the task, with its version")


@attrs.frozen(kw_only=True)
class EnvironmentSpec:
    """Everything that determines an environment; sandboxes cache environments by this value."""

    commit: str  #: full SHA of the code
    settings: EnvironmentSettings  #: image, Python version, network and limits
    setup: Setup  #: setup and capture commands


@attrs.frozen(kw_only=True)
class TaskSpec:
    """One task."""

    id: str = option(help="unique within the suite", pattern=NAME_PATTERN)
    suite: str = option(help="name of the suite", pattern=NAME_PATTERN)
    description: str = option("", help="instruction for the agent; default: generated from the failing command")
    tags: tuple[str, ...] = option((), help="free-form tags, such as a topic or a difficulty")
    repo: Repo = option(help="source of the code")
    environment: EnvironmentSettings = option(EnvironmentSettings(), help="environment and limits of the task")
    setup: Setup = option(Setup(), help="commands that set up the environment")
    validation: Validation = option(help="commands and tests that must fail before and pass after the fix")
    agent: AgentSettings = option(AgentSettings(), help="restrictions on the agent")
    oracle: Oracle = option(Oracle(), help="the reference solution")
    artifacts: Artifacts = option(Artifacts(), help="files to save")
    provenance: Provenance = option(Provenance(), help="where the task comes from; no effect on results")

    def environment_spec(self) -> EnvironmentSpec:
        """The environment that a sandbox prepares for this task."""
        return EnvironmentSpec(commit=self.repo.commit, settings=self.environment, setup=self.setup)


def digest(value: object) -> str:
    """``sha256:...`` of plain data in canonical JSON (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def not_passed(
    expected: Collection[str], outcomes: Mapping[str, str] | None, details: Mapping[str, str] | None = None
) -> str:
    """A message about expected tests that did not pass; empty if all did. ``details``, if given, replaces outcomes."""
    if outcomes is None:
        return "the tests wrote no result file"
    words = outcomes if details is None else details
    bad = [f"{name} ({words.get(name, 'not run')})" for name in expected if outcomes.get(name) != "passed"]
    if not bad:
        return ""
    more = f" and {len(bad) - _NAMED_TESTS} more" if len(bad) > _NAMED_TESTS else ""
    return f"{len(bad)} of {len(expected)} expected tests did not pass: {', '.join(bad[:_NAMED_TESTS])}{more}"
