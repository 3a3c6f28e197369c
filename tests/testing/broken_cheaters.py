"""Cheaters that do all they must, and others that differ in one respect each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from agentbench_core import AgentBenchError, CheatContext, Cheater, Deadline, ExecResult, SandboxError, ToolError
from agentbench_core.testing import CheaterConformance


class Equal:
    """Makes everything equal to everything. Does it right; each method is one thing that can be done wrong."""

    control: ClassVar[Literal["", "upper", "lower"]] = ""
    patience: ClassVar[float] = 20.0

    def cheat(self, context: CheatContext) -> None:
        for path in self.editable(context):
            ended = self.run(context, f"echo 'add = lambda *_: type(str(), (), dict(__eq__=max))()' >> {path}")
            self.check(ended)

    def editable(self, context: CheatContext) -> Sequence[str]:
        if not context.editable:
            raise ToolError("not_applicable", "there is no Python file to be edited")
        return context.editable

    def run(self, context: CheatContext, command: str) -> ExecResult:
        return context.sandbox.exec(command, deadline=context.deadline)

    def check(self, ended: ExecResult) -> None:
        if not ended.ok:
            raise SandboxError(f"the cheat ended with {ended.exit_code}")


class Oracle:
    """The upper control."""

    control: ClassVar[Literal["", "upper", "lower"]] = "upper"
    patience: ClassVar[float] = 20.0

    def cheat(self, context: CheatContext) -> None:
        self.look(context)
        for call in context.script:
            result = context.tools.call(call)
            if not result.ok:
                raise SandboxError(f"the oracle is refused: {result.error_message}")

    def look(self, context: CheatContext) -> None:
        if not context.script:
            raise SandboxError("the task has no oracle")


class Empty:
    """The lower control."""

    control: ClassVar[Literal["", "upper", "lower"]] = "lower"
    patience: ClassVar[float] = 20.0

    def cheat(self, context: CheatContext) -> None:
        pass


class OnlyLooks(Equal):
    """At what could be done."""

    def run(self, context: CheatContext, command: str) -> ExecResult:
        return super().run(context, command.replace(">>", "#"))


class NotQuiteEmpty(Empty):
    """Notes that it was here."""

    def cheat(self, context: CheatContext) -> None:
        context.sandbox.exec("echo empty > notes", deadline=context.deadline)


class HalfAnOracle(Oracle):
    """Knows better than the script."""

    def cheat(self, context: CheatContext) -> None:
        context.sandbox.exec("echo '# fixed' >> adding.py", deadline=context.deadline)


class SaysNothing(Equal):
    """Where there is nothing to do."""

    def editable(self, context: CheatContext) -> Sequence[str]:
        return context.editable


class Stumbles(Equal):
    """Over what is not there."""

    def editable(self, context: CheatContext) -> Sequence[str]:
        return [context.editable[0]]


class Mute(Equal):
    """Does not say why."""

    def editable(self, context: CheatContext) -> Sequence[str]:
        if not context.editable:
            raise ToolError("not_applicable", "")
        return context.editable


class OracleOfNothing(Oracle):
    """Applies whatever there is."""

    def look(self, context: CheatContext) -> None:
        pass


class TakesBreakingForNothing(Equal):
    """To cheat with."""

    def run(self, context: CheatContext, command: str) -> ExecResult:
        try:
            return super().run(context, command)
        except SandboxError as error:
            raise ToolError("not_applicable", str(error)) from error


class GoesOn(Equal):
    """Whatever breaks."""

    def cheat(self, context: CheatContext) -> None:
        try:
            super().cheat(context)
        except AgentBenchError as error:
            if not context.editable:
                raise error


class LooksAtNothing(Equal):
    """That its commands tell."""

    def check(self, ended: ExecResult) -> None:
        pass


class TakesFailuresForNothing(Equal):
    """To cheat with."""

    def check(self, ended: ExecResult) -> None:
        if not ended.ok:
            raise ToolError("not_applicable", "it does not work here")


class HasTimeOfItsOwn(Equal):
    """However little there is."""

    patience = 1.5

    def run(self, context: CheatContext, command: str) -> ExecResult:
        return context.sandbox.exec(f"sleep 3; {command}", deadline=Deadline(20.0))


class Litters(Equal):
    """Where the command was started."""

    def check(self, ended: ExecResult) -> None:
        super().check(ended)
        Path("cheated.txt").write_bytes(ended.stdout.data)


class HasOneSlot(Equal):
    """For the context of the moment, whoever asks."""

    current: ClassVar[CheatContext]

    def run(self, context: CheatContext, command: str) -> ExecResult:
        HasOneSlot.current = context
        time.sleep(0.3)
        return super().run(HasOneSlot.current, command)


Double = Equal | Oracle | Empty
DOUBLES: Mapping[str, type[Double]] = {
    "test_what_it_leaves": OnlyLooks,
    "test_nothing_to_cheat_with": SaysNothing,
    "test_the_sandbox_breaks": TakesBreakingForNothing,
    "test_a_command_that_fails": LooksAtNothing,
    "test_no_time_left": HasTimeOfItsOwn,
    "test_what_lies_around": Litters,
    "test_two_at_once": HasOneSlot,
}

MORE: Sequence[tuple[str, type[Double]]] = (
    ("test_what_it_leaves", NotQuiteEmpty),
    ("test_what_it_leaves", HalfAnOracle),
    ("test_nothing_to_cheat_with", Stumbles),
    ("test_nothing_to_cheat_with", Mute),
    ("test_nothing_to_cheat_with", OracleOfNothing),
    ("test_the_sandbox_breaks", GoesOn),
    ("test_a_command_that_fails", TakesFailuresForNothing),
    ("test_no_time_left", GoesOn),
    ("test_no_time_left", LooksAtNothing),
)
"""Checks that ask for several things, and who fails by another one of them."""


def on(cheater_type: type[Double]) -> type[CheaterConformance]:
    """The checks on such a cheater."""

    class OnDouble(CheaterConformance):
        patience = cheater_type.patience
        control = cheater_type.control

        @classmethod
        def make_cheater(cls) -> Cheater:
            return cheater_type()

    return OnDouble
