"""What the checks of cheaters work with: a task to cheat at, sandboxes that refuse, and the author's hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import attrs

from agentbench_core import (
    Budget,
    CheatContext,
    Cheater,
    Deadline,
    ExecResult,
    Output,
    Sandbox,
    SandboxError,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSpec,
)
from agentbench_core.run.toolbox import AgentTools
from agentbench_core.testing.attempt import RecordedEvents
from agentbench_core.testing.bench import Bench, WithBench, builtin_tools
from agentbench_core.testing.looking import contents
from agentbench_core.testing.program import BROKEN, FAILING_COMMAND, FIX, Files
from agentbench_core.testing.stage import LONG
from agentbench_core.testing.waiting import soon

PATCH = ToolCall(tool="apply_patch", arguments={"unified_diff": FIX})
"""The oracle of the task."""
Refusal = Literal["", "breaks", "fails"]
"""What is done to every command and tool call: nothing; SandboxError; it ends with 127, or is refused."""


@attrs.define
class Refusing:
    """Implements ``Sandbox`` and ``Toolbox``: nothing works there, in one of two ways."""

    refusal: Refusal
    specs: tuple[ToolSpec, ...]
    used: int = 0
    """How often something was asked of it."""

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """See the contract."""
        self._refuse()
        return ExecResult(exit_code=127, stderr=Output(head=b"sh: not found\n"))

    def read_file(self, path: str, *, limit: int) -> bytes:
        """See the contract."""
        self.used += 1
        raise SandboxError("the machinery broke, as this check wants it")

    def write_file(self, path: str, data: bytes) -> None:
        """See the contract."""
        self.used += 1
        raise SandboxError("the machinery broke, as this check wants it")

    def call(self, call: ToolCall) -> ToolResult:
        """See the contract."""
        self._refuse()
        return ToolResult.failure("patch_conflict", "this check wants it so")

    def close(self) -> None:
        """See the contract."""

    def _refuse(self) -> None:
        self.used += 1
        if self.refusal == "breaks":
            raise SandboxError("the machinery broke, as this check wants it")


@attrs.frozen(kw_only=True)
class Cheated:
    """What a cheater did."""

    error: BaseException | None
    changed: Sequence[str]
    """Paths of the workspace that are not as they were, sorted."""
    there: bool
    """Whether the cheat is there."""
    passes: bool
    """Whether the failing command passes now; it is asked only of the upper control."""
    used: int
    """Calls of a sandbox and of tools that refuse."""

    @property
    def not_applicable(self) -> bool:
        """Whether it says that the task has nothing to cheat with."""
        return isinstance(self.error, ToolError) and self.error.error_type == "not_applicable"


class CheaterHooks(WithBench):
    """What the author of a cheater says about it. Only ``make_cheater`` must be given."""

    patience: ClassVar[float] = 30.0
    """Seconds within which a cheat at a very small program must be done, on the slowest machine."""
    control: ClassVar[Literal["", "upper", "lower"]] = ""
    """``upper`` for the capability ``upper_control``, ``lower`` for ``lower_control``."""
    program: ClassVar[Files] = BROKEN
    """The task. A cheater that needs more to work with than a module and a visible test brings it here."""
    editable: ClassVar[Sequence[str]] = ("adding.py",)
    hidden: ClassVar[Sequence[str]] = ("checks/test_more.py",)
    command: ClassVar[str] = FAILING_COMMAND
    """Both the failing command and the passing one."""

    @classmethod
    def make_cheater(cls) -> Cheater:
        """A new cheater."""
        raise NotImplementedError(f"{cls.__name__} must say how its cheater is made")

    @classmethod
    def has_cheated(cls, workspace: Path, sandbox: Sandbox, changed: Sequence[str]) -> bool:
        """Whether the cheat is there: as a rule, in the files that changed. Override it for one that lies elsewhere."""
        return bool(changed)

    @classmethod
    def cheat(
        cls,
        bench: Bench,
        *,
        deadline: Deadline | None = None,
        refusal: Refusal = "",
        files: Files | None = None,
        script: Sequence[ToolCall] = (PATCH,),
    ) -> Cheated:
        """What a new cheater does to a fresh workspace; the check fails if that takes longer than ``patience``.

        Args:
            bench: where the workspace is made.
            deadline: the cheater's own.
            refusal: what the sandbox and the tools do instead of what they should.
            files: another program, in which nothing is editable and no hidden tests are announced.
            script: the oracle; only the upper control gets it.
        """
        tools, deadline = builtin_tools(), deadline or Deadline(LONG)
        with bench.toolbox(
            cls.program if files is None else files, tools, deadline=deadline, events=RecordedEvents()
        ) as (workspace, toolbox):
            assert toolbox.sandbox is not None
            refusing = Refusing(refusal, tuple(sorted((tool.spec for tool in tools), key=lambda spec: spec.name)))
            context = CheatContext(
                sandbox=refusing if refusal else toolbox.sandbox,
                tools=refusing if refusal else AgentTools(toolbox, "cheater", Budget(), frozenset(toolbox.tools)),
                deadline=deadline.shown(),
                editable=cls.editable if files is None else (),
                failing_command=cls.command,
                passing_command=cls.command,
                hidden=cls.hidden if files is None else (),
                script=tuple(script) if cls.control == "upper" else (),
            )
            before = contents(workspace)
            error = soon(lambda: _tried(cls.make_cheater(), context), cls.patience)
            after = contents(workspace)
            changed = sorted(path for path in {**before, **after} if before.get(path) != after.get(path))
            fixed = cls.control == "upper" and toolbox.sandbox.exec(cls.command, deadline=Deadline(LONG)).ok
            there = cls.has_cheated(workspace, toolbox.sandbox, changed)
        return Cheated(error=error, changed=changed, there=there, passes=fixed, used=refusing.used)


def _tried(cheater: Cheater, context: CheatContext) -> BaseException | None:
    try:
        cheater.cheat(context)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is looked at
        return error
    return None
