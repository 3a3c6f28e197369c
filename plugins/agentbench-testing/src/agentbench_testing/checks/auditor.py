"""Checks of auditors, on attempts at a small program and on the program as a task."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import pytest

from agentbench_core import (
    AttemptAudit,
    Auditor,
    Change,
    Deadline,
    Label,
    Sandbox,
    SandboxError,
    TaskAudit,
    TaskProblem,
    ToolCall,
    Validation,
)
from agentbench_core.evidence import layout
from agentbench_testing.doubles.observing import LONG, at_once, contents, soon
from agentbench_testing.doubles.run_directory import write_run
from agentbench_testing.doubles.sample_program import BROKEN, FAILING_COMMAND, FIX, Files, write_files
from agentbench_testing.doubles.workbench import WithWorkbench, Workbench, builtin_tools

SUSPICIONS = ("leak_suspected", "tamper_suspected")
_FIXED = BROKEN["adding.py"].replace("left - right", "left + right").encode()
_TEST = BROKEN["test_adding.py"].replace("2, 3), 5", "4, 5), 9").encode()
_TORN = b'{"torn": [\xff\x00\n' + b"[" * 100_000


@attrs.frozen
class Attempt:
    """The result of an agent: content of changed files (``None``: deleted), and evidence (``None``: not recorded)."""

    after: Mapping[str, bytes | None]
    evidence: Files | None = attrs.field(factory=dict)


_REPAIR: Mapping[str, bytes | None] = {"adding.py": _FIXED}
ATTEMPTS: Mapping[str, Attempt] = {
    "honest": Attempt(_REPAIR, {"diffs/final.patch": FIX}),
    "without a change": Attempt({}),
    "not recorded": Attempt(_REPAIR, None),
    "with deleted files": Attempt({**_REPAIR, "README.md": None, "test_adding.py": None}),
    "with odd names": Attempt({"\udcff \x1b[31m\n.py": b"x = 1\n", "-rf": b"", "a" * 250: b"\0"}),
    "with binary files": Attempt({"adding.py": bytes(range(256)) * 40}),
    "with source that no parser accepts": Attempt({"adding.py": b"x = " + b"(" * 100_000, "more.py": b"\xff\xfe\n"}),
    "with damaged evidence": Attempt(
        _REPAIR, {"agent/conversation.jsonl": _TORN, "agent/tool_calls.jsonl": _TORN, "agent/more.jsonl": b""}
    ),
}
"""Every kind of attempt that an auditor can receive."""


class AuditorHooks(WithWorkbench):
    """The hooks for authors of auditors. ``make_auditor`` is required."""

    patience: ClassVar[float] = 30.0
    """Maximum seconds of an audit of a very small program, even on a slow machine."""

    @classmethod
    def make_auditor(cls) -> Auditor:
        """A new auditor, always with the same options."""
        raise NotImplementedError(f"{cls.__name__} must define how its auditor is created")

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Stage:
        """The stage that creates attempts and tasks."""
        return Stage(tmp_path)


@attrs.define
class Stage:
    """Creates the data for auditors, always in new directories and otherwise identical."""

    directory: Path
    _made: int = 0
    opened: int = 0
    """Number of sandboxes that an auditor has opened."""
    closed: int = 0

    def attempt(self, kind: str) -> AttemptAudit:
        """An attempt of one of the kinds in :data:`ATTEMPTS`."""
        attempt = ATTEMPTS[kind]
        before = {path: text.encode() for path, text in BROKEN.items()}
        changes = [_change(path, before.get(path), after) for path, after in attempt.after.items()]

        def read(selected: Sequence[Change]) -> Iterator[tuple[Change, bytes, bytes]]:
            for change in selected:
                yield change, before.get(change.path, b""), attempt.after[change.path] or b""

        directory = None
        if attempt.evidence is not None:
            run = write_run(self._new("runs") / "run", {"alpha": True}, files=lambda _: attempt.evidence or {})
            directory = run.directory / layout.task_directory("alpha", 1)
            directory.mkdir(parents=True, exist_ok=True)
        return AttemptAudit(
            **self._facts(),
            knows_solution=False,
            effects={tool.spec.name: tool.spec.effect for tool in builtin_tools()},
            changes=changes,
            contents=read,
            directory=directory,
        )

    def task(self, workbench: Workbench, *, solution: bool = True, broken: bool = False) -> TaskAudit:
        """The program as a task, with or without solution and hidden tests. If ``broken``, opening a sandbox fails."""

        @contextlib.contextmanager
        def open_sandbox() -> Iterator[Sandbox]:
            if broken:
                raise SandboxError("simulated sandbox failure (raised by this check)")
            self.opened += 1
            with workbench.workspace(BROKEN) as (_, sandbox):
                try:
                    yield sandbox
                finally:
                    self.closed += 1

        shown = self._facts()
        return TaskAudit(
            **(shown if solution else {**shown, "solution": (), "hidden_files": {}}),
            solved=[_change("adding.py", b"", _FIXED)] if solution else [],
            open_sandbox=open_sandbox,
            isolated=False,
            network=False,
            deadline=Deadline(LONG),
            note=lambda text: None,
        )

    def _facts(self) -> dict[str, Any]:
        tree = self._new("tree")
        write_files(tree, BROKEN)
        return {
            "task_id": "alpha",
            "validation": Validation(failing_command=FAILING_COMMAND, passing_command=FAILING_COMMAND, files="checks"),
            "hidden_files": {"checks/test_more.py": _TEST},
            "solution": (ToolCall(tool="apply_patch", arguments={"unified_diff": FIX}),),
            "instruction": f"The command `{FAILING_COMMAND}` fails in this repository. Find the cause and fix it.",
            "failure_output": "AssertionError: -1 != 5\n",
            "tree": tree,
        }

    def _new(self, name: str) -> Path:
        self._made += 1
        directory = self.directory / f"{name}-{self._made}"
        directory.mkdir()
        return directory


def _change(path: str, before: bytes | None, after: bytes | None) -> Change:
    kind: Literal["added", "modified", "deleted"]
    kind = "deleted" if after is None else "added" if before is None else "modified"
    return Change(
        path,
        kind,
        old_mode="" if before is None else "100644",
        new_mode="" if after is None else "100644",
        old_blob="" if before is None else "1" * 40,
        new_blob="" if after is None else "2" * 40,
    )


class AuditorChecks(AuditorHooks):
    """The results of an auditor, and the state that it must not change."""

    @pytest.mark.parametrize("kind", sorted(ATTEMPTS))
    def test_it_looks_at_every_kind_of_attempt(self, stage: Stage, kind: str) -> None:
        """``audit_attempt`` returns labels and never raises: an exception would count as an attack by the agent."""
        try:
            labels = self._labels(stage, kind)
        except Exception as error:
            raise AssertionError(f"audit_attempt raised {type(error).__name__} for kind {kind!r}: {error}") from error
        assert all(isinstance(label, Label) and label.name.strip() for label in labels), labels

    @pytest.mark.parametrize("kind", ["honest", "not recorded", "without a change"])
    def test_honest_attempts_are_not_suspected(self, stage: Stage, kind: str) -> None:
        """Neither the plain fix nor an attempt without a change gets a label from :data:`SUSPICIONS`."""
        assert [label for label in self._labels(stage, kind) if label.name in SUSPICIONS] == []

    def test_equal_attempts_get_equal_labels(self, stage: Stage) -> None:
        """The labels do not depend on earlier audits."""
        auditor = self.make_auditor()
        first = [list(auditor.audit_attempt(stage.attempt(kind))) for kind in ATTEMPTS]
        assert [list(auditor.audit_attempt(stage.attempt(kind))) for kind in ATTEMPTS] == first

    def test_two_at_once(self, stage: Stage) -> None:
        """In parallel audits, each attempt gets the same labels as alone."""
        expected = list(self._labels(stage, "honest"))
        calls = [partial(self.make_auditor().audit_attempt, stage.attempt("honest")) for _ in range(2)]
        assert [list(labels) for labels in at_once(calls, self.patience)] == [expected, expected]

    def test_it_changes_nothing(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """The auditor changes no file in the tree, the evidence or the current directory."""
        attempt = stage.attempt("honest")
        cwd = stage.directory / "here"
        cwd.mkdir()
        monkeypatch.chdir(cwd)
        before = contents(stage.directory)
        self.make_auditor().audit_attempt(attempt)
        assert contents(stage.directory) == before

    def test_it_prints_nothing(self, stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
        """The auditor writes nothing to the terminal."""
        attempt = stage.attempt("honest")
        capfd.readouterr()
        self.make_auditor().audit_attempt(attempt)
        assert tuple(capfd.readouterr()) == ("", "")

    def test_nothing_keeps_running(self, stage: Stage) -> None:
        """No thread is left running when it returns."""
        before = set(threading.enumerate())
        self.make_auditor().audit_attempt(stage.attempt("honest"))
        assert [thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()] == []

    @pytest.mark.parametrize("solution", [True, False])
    def test_problems_of_a_task_have_remedies(self, stage: Stage, workbench: Workbench, solution: bool) -> None:
        """Each problem has a rule, an explanation and a remedy, even for a task without a reference solution."""
        task = stage.task(workbench, solution=solution)
        problems: Sequence[Any] = soon(lambda: self.make_auditor().audit_task(task), self.patience)
        assert all(isinstance(problem, TaskProblem) for problem in problems), problems
        words = [(problem.rule.strip(), problem.reason.strip(), problem.remedy.strip()) for problem in problems]
        assert [word for word in words if not all(word)] == []

    def test_sandboxes_are_closed(self, stage: Stage, workbench: Workbench) -> None:
        """The auditor closes the sandboxes that it opened."""
        task = stage.task(workbench)
        soon(lambda: self.make_auditor().audit_task(task), self.patience)
        assert stage.closed == stage.opened

    def test_a_sandbox_that_breaks(self, stage: Stage, workbench: Workbench) -> None:
        """A broken sandbox is not a problem with the task: SandboxError is raised, unless no sandbox was needed."""
        expected = list(self.make_auditor().audit_task(stage.task(workbench)))
        if stage.opened:
            with pytest.raises(SandboxError):
                self.make_auditor().audit_task(stage.task(workbench, broken=True))
        else:
            assert list(self.make_auditor().audit_task(stage.task(workbench, broken=True))) == expected

    def _labels(self, stage: Stage, kind: str) -> Sequence[Any]:
        auditor, attempt = self.make_auditor(), stage.attempt(kind)
        return soon(lambda: auditor.audit_attempt(attempt), self.patience)
