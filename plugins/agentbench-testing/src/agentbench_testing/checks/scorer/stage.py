"""Support for scorer checks: a program with a bug, changes of all kinds, and the author's hooks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import wait as wait_for
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from agentbench_core import (
    Deadline,
    DeadlineExceeded,
    ExecResult,
    Interrupted,
    Score,
    Scorer,
    ScoringContext,
    ToolError,
    Validation,
)
from agentbench_testing.checks.scorer.watched import Answering, WatchedEnvironment
from agentbench_testing.doubles.observing import LONG, in_thread
from agentbench_testing.doubles.sample_program import BROKEN, Files, write_files
from agentbench_testing.doubles.workbench import WithWorkbench, Workbench

WEAK = "weak_verdict"
"""The label of a verdict that the tested program could have forged; see docs/integrity.md."""


def is_weak(score: Score) -> bool:
    """Whether a verdict has the label :data:`WEAK`."""
    return any(label.name == WEAK for label in score.labels)


class ScorerHooks(WithWorkbench):
    """The hooks for authors of scorers. Only ``make_scorer`` is required.

    By default the tests are one hidden unittest file, which pytest can also run. For other kinds of programs, override
    the program, its changes and the command together.
    """

    patience: ClassVar[float] = 60.0
    """Maximum seconds to score a very small program, even on a slow machine."""
    passing_command: ClassVar[str] = "python3 -m unittest -v checks/test_adding.py"
    """The task's command; it passes on ``program`` with the change ``fixed``."""
    tests: ClassVar[Sequence[str]] = ()
    """Ids of the tests, for scorers that report individual tests: all pass with ``fixed``, none with ``wrong``."""
    program: ClassVar[Files] = {name: text for name, text in BROKEN.items() if name != "test_adding.py"}
    """The prepared tree. The attributes after ``hidden`` are changes to it, like those of agents."""
    hidden: ClassVar[Files] = {"checks/test_adding.py": BROKEN["test_adding.py"]}
    """The hidden tests."""
    fixed: ClassVar[Files] = {"adding.py": "def add(left, right):\n    return left + right\n"}
    """A change that fixes the bug."""
    wrong: ClassVar[Files] = {
        "adding.py": (
            "import os\n\nfor stream in (1, 2):\n    os.write(stream, b'\\n\\xff\\xfe \\x1b[31m not UTF-8\\n')\n\n\n"
            "def add(left, right):\n    return left * right\n"
        )
    }
    """A change that does not fix the bug, and prints invalid UTF-8."""
    unreadable: ClassVar[Files] = {"adding.py": "def add(left, right:\n"}
    """A change with a syntax error."""
    killed: ClassVar[Files] = {
        "adding.py": "import os, signal\n\nos.write(1, b'\\nOK\\n')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    }
    """A change that gets the tests killed, as a memory limit would."""
    hanging: ClassVar[Files] = {"adding.py": "import time\n\ntime.sleep(600)\n"}
    """A change that makes the tests hang."""
    forged: ClassVar[Mapping[str, Files]] = {  # each key completes "a program that ..."
        "ends the tests": {"adding.py": "import os\n\nos.write(1, b'\\n1 passed\\nOK\\n')\nos._exit(0)\n"},
        "skips the tests": {"adding.py": "import unittest\n\nraise unittest.SkipTest('not today')\n"},
    }
    """Changes that do not fix the bug but pretend that tests passed. A deceived scorer must label its verdicts."""

    @classmethod
    def make_scorer(cls) -> Scorer:
        """A new scorer, always with the same options."""
        raise NotImplementedError(f"{cls.__name__} must define how its scorer is created")

    @pytest.fixture(scope="class")
    @classmethod
    def stage(cls, workbench: Workbench) -> ScorerStage:
        """The stage that scores changes."""
        return ScorerStage(workbench, cls)


@attrs.frozen(kw_only=True)
class Scored:
    """The result of scoring a change: the returned value or the exception."""

    returned: Any
    error: BaseException | None
    environment: WatchedEnvironment
    forks: Sequence[Path]
    """The copies that the scorer requested."""
    saved: Sequence[ExecResult]
    """The output that the scorer recorded as evidence."""

    @property
    def score(self) -> Score:
        """The score; the check fails if there is none."""
        if self.error is not None:
            raise AssertionError(f"score() raised an exception: {self.error!r}") from self.error
        assert isinstance(self.returned, Score), f"score() returned {self.returned!r}"
        return self.returned

    @property
    def out_of_time(self) -> bool:
        """Whether a timeout was reported, by the score or an exception."""
        return isinstance(self.error, DeadlineExceeded) or self.score.timed_out


class ScorerStage:
    """Scores changes, each in a fresh copy of the prepared tree, in the sandbox of the workbench."""

    def __init__(self, workbench: Workbench, hooks: type[ScorerHooks]) -> None:
        self.workbench = workbench
        self.hooks = hooks
        self.scorer = hooks.make_scorer()
        """The scorer for most checks."""

    @cached_property
    def fixed(self) -> Scored:
        """The shared result for the fix."""
        return self.scored(self.hooks.fixed, per_test=True)

    @cached_property
    def wrong(self) -> Scored:
        """The shared result for a change that does not fix the bug."""
        return self.scored(self.hooks.wrong, per_test=True)

    @cached_property
    def hanging(self) -> Scored:
        """The shared result for a program that never ends."""
        return self.scored(self.hooks.hanging, deadline=Deadline(1.0))

    def verdicts(self) -> Iterator[Scored]:
        """The three shared results, each computed on first use."""
        yield self.fixed
        yield self.wrong
        yield self.hanging

    @property
    def prepared(self) -> Path:
        """The prepared tree."""
        return self.workbench.environment(self.hooks.program).workspace

    def scored(
        self,
        change: Files,
        *,
        scorer: Scorer | None = None,
        passing_command: str | None = None,
        expected: Sequence[str] = (),
        per_test: bool = False,
        network: bool = False,
        deadline: Deadline | None = None,
        failing: Collection[str] = (),
        answering: Answering | None = None,
        fits: bool = True,
    ) -> Scored:
        """Score a change; the check fails if that takes longer than ``patience``.

        Args:
            change: files that the agent wrote.
            scorer: replaces ``self.scorer``.
            passing_command: replaces the command of the hooks.
            expected: ids of the expected tests.
            per_test: whether the result of each test is requested.
            network: whether the task has network access.
            deadline: the scorer's deadline.
            failing: methods of the environment that raise SandboxError.
            answering: returns the results of commands, which are then not run.
            fits: whether the change can be written into the prepared tree.
        """
        environment = WatchedEnvironment(
            self.workbench.environment(self.hooks.program), failing=failing, answering=answering
        )
        command = self.hooks.passing_command if passing_command is None else passing_command
        deadline = deadline or Deadline(LONG)
        forks: list[Path] = []
        saved: list[ExecResult] = []

        def fork() -> Path:
            if not fits:
                raise ToolError("not_a_file", "'adding.py' is a directory")
            forks.append(self.workbench.fork(environment.inner))
            write_files(forks[-1], {**change, **self.hooks.hidden})
            return forks[-1]

        def scratch(name: str) -> Path:
            directory = self.workbench.place(name)
            directory.mkdir()
            return directory

        context = ScoringContext(
            environment=environment,
            validation=Validation(failing_command=command, passing_command=command, fail_to_pass=tuple(expected)),
            fork=fork,
            hidden=tuple(self.hooks.hidden),
            scratch=scratch,
            network=network,
            deadline=deadline,
            save_output=saved.append,
            per_test=per_test,
        )
        future = in_thread(lambda: (scorer or self.scorer).score(context))
        wait_for([future], timeout=self.hooks.patience)
        done = future.done()
        if not done:
            deadline.end(Interrupted("the check is over"))
        assert done, f"score() did not return within {self.hooks.patience:g} s"
        error = future.exception()
        return Scored(
            returned=None if error else future.result(), error=error, environment=environment, forks=forks, saved=saved
        )
