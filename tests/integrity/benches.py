"""Small tasks that are calibrated and scored in a real environment."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import (
    CalibrationContext,
    Deadline,
    EnvironmentSpec,
    ExecResult,
    SandboxProvider,
    Score,
    ScoringContext,
    Validation,
    fork,
)
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_integrity.scorer import verdict
from agentbench_integrity.scorer.blinding.calibration import calibrate
from agentbench_integrity.scorer.blinding.expectations import Expectations
from agentbench_integrity.scorer.pytest_command import PytestCommand, parse
from agentbench_integrity.scorer.session import Session, run_session

Files = Mapping[str, str | bytes]


class Log:
    """A setup log for tasks without setup."""

    def started(self, command: str) -> None:
        raise AssertionError(command)

    def finished(self, command: str, result: ExecResult) -> None:
        raise AssertionError(command)

    def reused(self, command: str, result: ExecResult) -> None:
        raise AssertionError(command)


@attrs.frozen
class Scored:
    """The score, the printed output and the saved files."""

    score: Score
    printed: str
    files: Mapping[str, bytes]


class Bench:
    """A task from files of the repository, files that the reference solution replaces, and hidden tests."""

    def __init__(
        self,
        root: Path,
        provider: SandboxProvider,
        *,
        files: Files,
        hidden: Files,
        solution: Files | None = None,
        command: str = "python -m pytest -q checks",
        description: str = "",
        **said: Any,
    ) -> None:
        self._root, self._number = root, 0
        self._hidden = {path: text.encode() if isinstance(text, str) else text for path, text in hidden.items()}
        self._solution = solution or {}
        pristine = root / "pristine"
        pristine.mkdir()
        write(pristine, files)
        settings = EnvironmentSettings(python=".".join(platform.python_version_tuple()[:2]), network_policy="none")
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()  # providers cache environments by it
        spec = EnvironmentSpec(commit=commit, settings=settings, setup=Setup(commands=(), capture=()))
        parsed = parse(command)
        assert parsed is not None
        self.command: PytestCommand = parsed
        self.context = CalibrationContext(
            environment=provider.prepare(spec, pristine, Log(), Deadline(60)),
            validation=Validation(failing_command=command, passing_command=command, files="checks/", **said),
            fork=lambda solved: self.fork(self._solution if solved else {}),
            hidden_files=self._hidden,
            description=description,
            scratch=self.scratch,
            network=False,
            deadline=Deadline(100),
        )

    def scratch(self, name: str) -> Path:
        """A new empty directory."""
        self._number += 1
        made = self._root / f"{name}-{self._number}"
        made.mkdir()
        return made

    def fork(self, change: Files) -> Path:
        """A copy of the tree with a change and the hidden tests."""
        made = self.scratch("fork") / "tree"
        fork(self.context.environment.workspace, made)
        write(made, {**change, **self._hidden})
        return made

    def session(self, *, solved: bool) -> Session:
        """Run the hidden tests once, without blinding."""
        return run_session(self.context, self.command, self.context.fork(solved), {})

    def calibrate(self) -> Expectations:
        return calibrate(self.context, self.command)[0]

    def score(self, expectations: Expectations | None, change: Files) -> Scored:
        """Score a change."""
        printed: list[ExecResult] = []
        kept: dict[str, bytes] = {}
        context = ScoringContext(
            environment=self.context.environment,
            validation=self.context.validation,
            fork=lambda: self.fork(change),
            hidden=self.context.hidden,
            scratch=self.scratch,
            network=False,
            deadline=Deadline(100),
            save_output=printed.append,
            save_file=kept.__setitem__,
        )
        score = verdict.score(context, self.command, expectations, "")
        return Scored(score, printed[0].stdout.text, kept)


def write(directory: Path, files: Files) -> None:
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(text.encode() if isinstance(text, str) else text)
