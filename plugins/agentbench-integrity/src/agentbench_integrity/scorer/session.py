"""One run of pytest under checks: what the host puts beside the tests, and what comes back.

Every session has a test that must fail (the honest exit code is then 1) and one that must pass. Results are written
through a channel that only the process of the tests can write to; see ``inside/recorder.py``.
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
from agentbench_integrity.scorer.results import LARGEST, Results, results
from agentbench_integrity.scorer.settings import settings

_INSIDE = Path(__file__).with_name("inside")
_RESULTS = "outcomes.jsonl"
_KEY_BYTES = 32
_CANARIES = """\
def test_{good}():
    assert {number} == {number}


def test_{bad}():
    assert {number} == {number} + 1
"""
_OWN_PYTHON = """\
command -v pytest >/dev/null || { echo "pytest: not found" >&2; exit 127; }
beside="$(dirname "$(command -v pytest)")"
for python in "$beside/python" "$beside/python3" python python3; do command -v "$python" >/dev/null && break; done
"""


class Stage(Protocol):
    """What a session needs of the context of a scorer or of a calibration."""

    @property
    def environment(self) -> Environment:
        """The environment to run in."""

    @property
    def validation(self) -> Validation:
        """What the task asks for."""

    @property
    def hidden(self) -> Sequence[str]:
        """Paths of the hidden tests."""

    @property
    def scratch(self) -> Callable[[str], Path]:
        """A new empty directory."""

    def run(self, command: Command, workspace: Path, *, files: Sequence[str] = (), at_most: int = ...) -> CommandResult:
        """Run a command by itself."""


@attrs.frozen(kw_only=True)
class Session:
    """A session that has ended. ``results`` is ``None`` when it left no file of results."""

    result: ExecResult
    results: Results | None
    canaries: str
    """The file of the tests that must pass and fail."""
    must_pass: str
    must_fail: str
    size: int
    """Bytes of the results."""


def run_session(
    stage: Stage,
    command: PytestCommand,
    workspace: Path,
    files: Mapping[str, str],
    *,
    names: Mapping[str, str] | None = None,
    seed: str | None = None,
    at_most: int = LARGEST,
) -> Session:
    """Run the tests once in a fork, which is used up.

    Args:
        stage: where to run.
        command: the passing command.
        workspace: with a change and the hidden tests.
        files: texts that take the place of hidden tests.
        names: what tests that the command names are called in these.
        seed: for the hashes of Python; random if there is none.
        at_most: bytes of results that are read.

    Raises:
        SandboxError: the machinery broke.
    """
    validation = stage.validation
    with Tree(workspace) as tree, Tree(stage.environment.workspace) as pristine:
        for path, text in files.items():
            tree.write(path, text.encode("utf-8", "surrogateescape"))
        canaries, good, bad = _add_canaries(tree, stage.hidden)
        said = [_renamed(argument, names or {}) for argument in command.arguments]
        arguments = [*said, *settings(command.arguments, tree, pristine)]
        allowed = None
        if validation.isolation == "process":
            protected = path_matcher(validation.protected_globs)
            allowed = [*stage.hidden, canaries, *(path for path in pristine.files() if protected(path))]
    inputs, taken, key = stage.scratch("inputs"), stage.scratch("results"), secrets.token_bytes(_KEY_BYTES)
    plan = {
        "arguments": arguments,
        "canaries": canaries,
        "path": command.path,
        "variables": dict(command.variables),
        "allowed": allowed,
    }
    (inputs / "plan.json").write_text(json.dumps(plan))
    (taken / "key").write_bytes(key)
    sources = {"plan.json": inputs, "runner.py": _INSIDE, "recorder.py": _INSIDE}
    result = stage.run(
        Command(
            _shell(command, seed),
            read_only=not validation.writable,
            inputs={name: directory / name for name, directory in sources.items()},
            results=taken,
        ),
        workspace,
        files=[_RESULTS],
        at_most=at_most,
    )
    written = result.files.get(_RESULTS)
    return Session(
        result=result,
        results=None if written is None else results(written, key),
        canaries=canaries,
        must_pass=f"{canaries}::test_{good}",
        must_fail=f"{canaries}::test_{bad}",
        size=len(written or b""),
    )


def is_test_file(path: str) -> bool:
    """Whether pytest takes a file for one of tests, by its name."""
    place = PurePosixPath(path)
    return place.suffix == ".py" and (place.stem.startswith("test_") or place.stem.endswith("_test"))


def _add_canaries(tree: Tree, hidden: Sequence[str]) -> tuple[str, str, str]:
    """Write the file of the two, under a name that differs from one session to the next."""
    place = PurePosixPath(next(filter(is_test_file, hidden), "test_checks.py"))
    stem = place.stem.removesuffix("_test").removeprefix("test_")
    path = str(place.with_name(f"test_{stem}_{secrets.token_hex(4)}.py"))
    if place.stem.endswith("_test"):
        path = str(place.with_name(f"{stem}_{secrets.token_hex(4)}_test.py"))
    good, bad = (secrets.token_hex(3) for _ in range(2))
    tree.write(path, _CANARIES.format(good=good, bad=bad, number=secrets.randbelow(1000)).encode())
    return path, good, bad


def _renamed(argument: str, names: Mapping[str, str]) -> str:
    path, colons, rest = argument.partition("::")
    return names.get(f"{PurePosixPath(path)}{colons}{rest}", argument) if colons else argument


def _shell(command: PytestCommand, seed: str | None) -> str:
    """What starts the runner in the place of pytest: the same Python, but nothing of the workspace before pytest."""
    early = {name: value for name, value in command.variables.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    if seed is not None:
        early.setdefault("PYTHONHASHSEED", seed)
    variables = [f"{name}={value}" for name, value in early.items()]
    words = shlex.join(["env", *variables, "PYTHONSAFEPATH=1"])
    python = shlex.quote(command.python) if command.python else '"$python"'
    flags = shlex.join([*command.flags, "-s", "-B"])
    return f'{"" if command.python else _OWN_PYTHON}exec {words} {python} {flags} "$AGENTBENCH_INPUTS/runner.py"'
