"""What the checks of scorers work with: a program with a bug, changes of all kinds to it, and the author's hooks."""

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
"""The label of a verdict that the program which is judged could have forged; see docs/integrity.md."""


def is_weak(score: Score) -> bool:
    """Whether a verdict bears that label."""
    return any(label.name == WEAK for label in score.labels)


class ScorerHooks(WithWorkbench):
    """What the author of a scorer says about it. Only ``make_scorer`` must be given.

    By default the tests are one hidden file of unittest, which pytest runs too. Override what lies in the program, its
    changes and the command together, for scorers that judge programs of another kind.
    """

    patience: ClassVar[float] = 60.0
    """Seconds within which a verdict on a very small program must be there, on the slowest machine."""
    passing_command: ClassVar[str] = "python3 -m unittest -v checks/test_adding.py"
    """The task's; it passes on ``program`` with ``fixed`` in it."""
    tests: ClassVar[Sequence[str]] = ()
    """Ids of the tests, for scorers that know tests one by one: all pass when it is fixed, none when it is broken."""
    program: ClassVar[Files] = {name: text for name, text in BROKEN.items() if name != "test_adding.py"}
    """The prepared tree. The other files here are changes to it, as agents make them."""
    hidden: ClassVar[Files] = {"checks/test_adding.py": BROKEN["test_adding.py"]}
    """The hidden tests."""
    fixed: ClassVar[Files] = {"adding.py": "def add(left, right):\n    return left + right\n"}
    """It fixes the bug."""
    wrong: ClassVar[Files] = {
        "adding.py": (
            "import os\n\nfor stream in (1, 2):\n    os.write(stream, b'\\n\\xff\\xfe \\x1b[31m not UTF-8\\n')\n\n\n"
            "def add(left, right):\n    return left * right\n"
        )
    }
    """It does not help, and prints what is no text."""
    unreadable: ClassVar[Files] = {"adding.py": "def add(left, right:\n"}
    """No program any more."""
    killed: ClassVar[Files] = {
        "adding.py": "import os, signal\n\nos.write(1, b'\\nOK\\n')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    }
    """It has the tests killed, as a limit of memory does."""
    hanging: ClassVar[Files] = {"adding.py": "import time\n\ntime.sleep(600)\n"}
    """It never ends."""
    forged: ClassVar[Mapping[str, Files]] = {
        "ends the tests": {"adding.py": "import os\n\nos.write(1, b'\\n1 passed\\nOK\\n')\nos._exit(0)\n"},
        "skips the tests": {"adding.py": "import unittest\n\nraise unittest.SkipTest('not today')\n"},
    }
    """It does not help, and pretends that tests passed. A scorer that is deceived must say that it can be."""

    @classmethod
    def make_scorer(cls) -> Scorer:
        """A new scorer, made with the same options each time."""
        raise NotImplementedError(f"{cls.__name__} must define how its scorer is created")

    @pytest.fixture(scope="class")
    @classmethod
    def court(cls, workbench: Workbench) -> Court:
        """Where changes are judged."""
        return Court(workbench, cls)


@attrs.frozen(kw_only=True)
class Judged:
    """What a scorer made of a change: a score or an error, whatever they are."""

    given: Any
    error: BaseException | None
    environment: WatchedEnvironment
    forks: Sequence[Path]
    """The copies that it asked for."""
    saved: Sequence[ExecResult]
    """What it kept as evidence."""

    @property
    def score(self) -> Score:
        """The verdict; the check fails where there is none."""
        if self.error is not None:
            raise AssertionError(f"score() raised an exception: {self.error!r}") from self.error
        assert isinstance(self.given, Score), f"score() returned {self.given!r}"
        return self.given

    @property
    def out_of_time(self) -> bool:
        """Whether it says so, in one of the two ways."""
        return isinstance(self.error, DeadlineExceeded) or self.score.timed_out


class Court:
    """Has a scorer judge changes, each in a fresh copy of the prepared tree, in the sandbox of the workbench."""

    def __init__(self, workbench: Workbench, hooks: type[ScorerHooks]) -> None:
        self.workbench = workbench
        self.hooks = hooks
        self.scorer = hooks.make_scorer()
        """The scorer of most checks."""

    @cached_property
    def fixed(self) -> Judged:
        """The verdict on the fix, for all checks that look at it."""
        return self.judged(self.hooks.fixed, per_test=True)

    @cached_property
    def wrong(self) -> Judged:
        """The same of a change that does not help."""
        return self.judged(self.hooks.wrong, per_test=True)

    @cached_property
    def hanging(self) -> Judged:
        """The same of a program that never ends."""
        return self.judged(self.hooks.hanging, deadline=Deadline(1.0))

    def three(self) -> Iterator[Judged]:
        """Those three, each judged when it is asked for first."""
        yield self.fixed
        yield self.wrong
        yield self.hanging

    @property
    def prepared(self) -> Path:
        """The prepared tree."""
        return self.workbench.environment(self.hooks.program).workspace

    def judged(
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
    ) -> Judged:
        """What the scorer makes of a change; the check fails if that takes longer than ``patience``.

        Args:
            change: files that the agent wrote.
            scorer: another one than ``self.scorer``.
            passing_command: another one than the hooks have.
            expected: the ids that the task names.
            each_test: whether the ends of all tests are asked for.
            network: whether the task has network.
            deadline: for the verdict.
            failing: methods of the environment that raise SandboxError.
            answering: gives the results of commands, which are not run then.
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
        return Judged(
            given=None if error else future.result(), error=error, environment=environment, forks=forks, saved=saved
        )
