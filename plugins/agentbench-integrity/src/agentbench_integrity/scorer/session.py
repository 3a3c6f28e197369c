"""Run pytest once with canary tests and an authenticated result channel.

Every session has one test that must fail, so that the expected exit code is 1, and one that must pass. Only the test
process can write valid results; see ``inside/recorder.py``.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import attrs

from agentbench_core import Command, CommandResult, Environment, ExecResult, Tree, Validation, path_matcher
from agentbench_integrity.scorer.pytest_command import PytestCommand
from agentbench_integrity.scorer.pytest_config import config_arguments
from agentbench_integrity.scorer.results import MAX_BYTES, Results, parse_results

_INSIDE = Path(__file__).with_name("inside")
_RESULTS = "outcomes.jsonl"
_KEY_BYTES = 32
_CANARIES = """\
def test_{good}():
    assert {number} == {number}


def test_{bad}():
    assert {number} == {number} + 1
"""
_FIND_PYTHON = """\
command -v pytest >/dev/null || { echo "pytest: not found" >&2; exit 127; }
beside="$(dirname "$(command -v pytest)")"
for python in "$beside/python" "$beside/python3" python python3; do command -v "$python" >/dev/null && break; done
"""


class SessionContext(Protocol):
    """The parts of a scoring or calibration context that a session uses."""

    @property
    def environment(self) -> Environment:
        """The environment that commands run in."""

    @property
    def validation(self) -> Validation:
        """The task's validation settings."""

    @property
    def hidden(self) -> Sequence[str]:
        """Paths of the hidden tests."""

    @property
    def scratch(self) -> Callable[[str], Path]:
        """Create an empty directory."""

    def run(self, command: Command, workspace: Path, *, files: Sequence[str] = (), at_most: int = ...) -> CommandResult:
        """Run a command in a fresh sandbox."""


@attrs.frozen(kw_only=True)
class Session:
    """A finished session. ``results`` is ``None`` if there is no result file."""

    result: ExecResult
    results: Results | None
    canary_file: str
    """Path to the test file with the canaries."""
    must_pass: str
    must_fail: str
    size: int
    """Size of the result file in bytes."""


def run_session(
    context: SessionContext,
    command: PytestCommand,
    workspace: Path,
    files: Mapping[str, str],
    *,
    names: Mapping[str, str] | None = None,
    seed: str | None = None,
    at_most: int = MAX_BYTES,
) -> Session:
    """Run the tests once. The workspace must not be used again.

    Args:
        context: the environment and settings.
        command: the passing command.
        workspace: a fork with a change and the hidden tests.
        files: blinded texts that replace hidden tests, by path.
        names: maps test names in the command to blinded names.
        seed: value of ``PYTHONHASHSEED``; random if ``None``.
        at_most: size limit of the result file in bytes.

    Raises:
        SandboxError: the sandbox failed.
    """
    validation = context.validation
    with Tree(workspace) as tree, Tree(context.environment.workspace) as pristine:
        for path, text in files.items():
            tree.write(path, text.encode("utf-8", "surrogateescape"))
        canaries, good, bad = _add_canaries(tree, context.hidden)
        renamed = [_renamed(argument, names or {}) for argument in command.arguments]
        arguments = [*renamed, *config_arguments(command.arguments, tree, pristine)]
        allowed = None
        if validation.isolation == "process":
            protected = path_matcher(validation.protected_globs)
            allowed = [*context.hidden, canaries, *(path for path in pristine.files() if protected(path))]
    inputs, output, key = context.scratch("inputs"), context.scratch("results"), secrets.token_bytes(_KEY_BYTES)
    plan = {
        "arguments": arguments,
        "canaries": canaries,
        "path": command.path,
        "variables": dict(command.variables),
        "allowed": allowed,
    }
    (inputs / "plan.json").write_text(json.dumps(plan))
    (output / "key").write_bytes(key)
    sources = {"plan.json": inputs, "runner.py": _INSIDE, "recorder.py": _INSIDE}
    result = context.run(
        Command(
            _shell(command, seed),
            read_only=not validation.writable,
            inputs={name: directory / name for name, directory in sources.items()},
            results=output,
        ),
        workspace,
        files=[_RESULTS],
        at_most=at_most,
    )
    written = result.files.get(_RESULTS)
    return Session(
        result=result,
        results=None if written is None else parse_results(written, key),
        canary_file=canaries,
        must_pass=f"{canaries}::test_{good}",
        must_fail=f"{canaries}::test_{bad}",
        size=len(written or b""),
    )


def is_test_file(path: str) -> bool:
    """Whether pytest by default would collect a file with this name."""
    file = PurePosixPath(path)
    return file.suffix == ".py" and (file.stem.startswith("test_") or file.stem.endswith("_test"))


def _add_canaries(tree: Tree, hidden: Sequence[str]) -> tuple[str, str, str]:
    """Write the canary file under a random name, and return its path and the suffixes of the two test names."""
    example = PurePosixPath(next(filter(is_test_file, hidden), "test_checks.py"))
    stem = example.stem.removesuffix("_test").removeprefix("test_")
    path = str(example.with_name(f"test_{stem}_{secrets.token_hex(4)}.py"))
    if example.stem.endswith("_test"):
        path = str(example.with_name(f"{stem}_{secrets.token_hex(4)}_test.py"))
    good, bad = (secrets.token_hex(3) for _ in range(2))
    tree.write(path, _CANARIES.format(good=good, bad=bad, number=secrets.randbelow(1000)).encode())
    return path, good, bad


def _renamed(argument: str, names: Mapping[str, str]) -> str:
    path, colons, rest = argument.partition("::")
    return names.get(f"{PurePosixPath(path)}{colons}{rest}", argument) if colons else argument


def _shell(command: PytestCommand, seed: str | None) -> str:
    """The shell command that starts the runner with pytest's Python, without importing anything from the workspace."""
    early = {name: value for name, value in command.variables.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    if seed is not None:
        early.setdefault("PYTHONHASHSEED", seed)
    variables = [f"{name}={value}" for name, value in early.items()]
    words = shlex.join(["env", *variables, "PYTHONSAFEPATH=1"])
    python = shlex.quote(command.python) if command.python else '"$python"'
    flags = shlex.join([*command.flags, "-s", "-B"])
    return f'{"" if command.python else _FIND_PYTHON}exec {words} {python} {flags} "$AGENTBENCH_INPUTS/runner.py"'
