"""Tools that do all they must, one for each effect; and others that differ from them in one respect each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs

from agentbench_core import (
    DeadlineExceeded,
    ExecResult,
    Interrupted,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSpec,
    load,
    option,
    unified_diff,
)
from agentbench_testing import ToolConformance

MOST = 10_000


@attrs.frozen(kw_only=True)
class PeekArguments:
    path: str = option(help="which file")
    lines: int = option(3, help="how many of its lines", minimum=1)
    wait: float = option(0.0, help="seconds before it looks", minimum=0)


class Peek:
    """Reads the first lines of a file. Does it right; each method is one thing that can be done wrong."""

    path_arguments: ClassVar[Sequence[str]] = ("path",)
    good: ClassVar[Mapping[str, Any]] = {"path": "adding.py"}
    slow: ClassVar[Mapping[str, Any]] = {"path": "adding.py", "wait": 600.0}

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec.of("peek", "The first lines of a file.", PeekArguments, "reads")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        wanted = self.wanted(arguments)
        self.wait(wanted.wait, context)
        text = self.cut(self.read(wanted.path, context))
        return ToolResult.success(text="".join(text.splitlines(keepends=True)[: wanted.lines]))

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        return load(arguments, PeekArguments, where="peek")

    def wait(self, seconds: float, context: ToolContext) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            context.deadline.check()
            time.sleep(0.01)

    def read(self, path: str, context: ToolContext) -> str:
        return context.workspace.read(path, limit=1 << 20).decode("utf-8", "replace")

    def cut(self, text: str) -> str:
        return text[:MOST]


@attrs.frozen(kw_only=True)
class PutArguments:
    path: str = option(help="which file")
    text: str = option(help="what it shall say")


class Put:
    """Writes a file as a whole. Does it right."""

    path_arguments: ClassVar[Sequence[str]] = ("path",)
    good: ClassVar[Mapping[str, Any]] = {"path": "new/file.txt", "text": "new\n"}
    slow: ClassVar[Mapping[str, Any]] = good

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec.of("put", "Write a file.", PutArguments, "edits")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        wanted = load(arguments, PutArguments, where="put")
        self.check(wanted.path, context)
        try:
            data = wanted.text.encode()
        except UnicodeEncodeError:
            raise ToolError("not_text", "this cannot be written as UTF-8") from None
        context.workspace.write(wanted.path, data)
        self.keep("".join(unified_diff(wanted.path, None, data)), wanted.path, context)
        return ToolResult.success()

    def check(self, path: str, context: ToolContext) -> None:
        if not context.editable(path):
            raise ToolError("not_editable", f"{path!r} may not be edited")

    def keep(self, diff: str, path: str, context: ToolContext) -> None:
        context.save_diff(diff, [path])


@attrs.frozen(kw_only=True)
class ShellArguments:
    command: str = option(help="what to run")


class Shell:
    """Runs a command. Does it right."""

    path_arguments: ClassVar[Sequence[str]] = ()
    good: ClassVar[Mapping[str, Any]] = {"command": "cat adding.py"}
    slow: ClassVar[Mapping[str, Any]] = {"command": "sleep 600"}

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec.of("shell", "Run a command.", ShellArguments, "runs")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        wanted = load(arguments, ShellArguments, where="shell")
        try:
            done = context.sandbox.exec(wanted.command[:MOST], deadline=context.deadline)
        except ValueError as error:
            raise ToolError("bad_command", f"no shell takes this: {error}") from None
        if done.timed_out:
            raise ToolError("timeout", "it took too long")
        return ToolResult.success(**self.told(done))

    def told(self, done: ExecResult) -> Mapping[str, Any]:
        return {"exit_code": done.exit_code, "stdout": done.stdout.text[:MOST], "stderr": done.stderr.text[:MOST]}


Double = type[Peek] | type[Put] | type[Shell]


def on(tool_type: Double, seconds: float = 1.0) -> type[ToolConformance]:
    """The checks on such a tool, with little patience, since it is broken."""

    class OnDouble(ToolConformance):
        patience = seconds
        path_arguments = tool_type.path_arguments

        @classmethod
        def make_tool(cls) -> Tool:
            return tool_type()

        @classmethod
        def good_arguments(cls) -> Mapping[str, Any]:
            return tool_type.good

        @classmethod
        def slow_arguments(cls) -> Mapping[str, Any]:
            return tool_type.slow

    return OnDouble


def specified(name: str, change: Callable[[ToolSpec], ToolSpec]) -> type[Peek]:
    """One that says something else of itself."""
    return type(name, (Peek,), {"spec": property(lambda self: change(Peek.spec.fget(self)))})  # type: ignore[attr-defined]


def with_parameters(spec: ToolSpec, **more: Any) -> ToolSpec:
    return attrs.evolve(spec, parameters={**spec.parameters, **more})


def with_property(spec: ToolSpec, name: str, **more: Any) -> ToolSpec:
    known = dict(spec.parameters["properties"])
    return with_parameters(spec, properties={**known, name: {**known[name], **more}})


def host_path(context: ToolContext, path: str) -> Path:
    """Where a file lies on this machine, as a tool may find out that trusts its sandbox."""
    told = context.sandbox.exec("pwd", deadline=context.deadline).stdout.text.strip()
    return Path(told) / path


class CountsItsCalls(Peek):
    """And tells the model of them."""

    calls = 0

    @property
    def spec(self) -> ToolSpec:
        return attrs.evolve(super().spec, description=f"Called {self.calls} times.")

    def read(self, path: str, context: ToolContext) -> str:
        self.calls += 1
        return super().read(path, context)


class HidesItsPath(Peek):
    """From those who check it."""

    path_arguments = ()


class FailsAlways(Peek):
    """With a refusal."""

    def read(self, path: str, context: ToolContext) -> str:
        raise ToolError("not_found", "there is nothing")


class Remembers(Peek):
    """What it has read before, wherever that was."""

    def __init__(self) -> None:
        self.known = ""

    def read(self, path: str, context: ToolContext) -> str:
        before, self.known = self.known, super().read(path, context)
        return before[:10] + self.known


class HasOneSlot(Peek):
    """For the call of the moment."""

    def read(self, path: str, context: ToolContext) -> str:
        found = super().read(path, context)
        self.slot = f"{id(context)} {found}"
        time.sleep(0.05)
        mine = self.slot.startswith(f"{id(context)} ")
        return found if mine else f"of another call: {found}"


class TakesWhatItKnows(Peek):
    """And ignores the rest."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        known = {"path", "lines", "wait"}
        return super().wanted({key: value for key, value in arguments.items() if key in known})


class FillsIn(Peek):
    """Whatever is missing."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        return super().wanted({"path": "adding.py", **arguments})


class Converts(Peek):
    """Whatever comes into what it needs."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        loaded = super().wanted({**arguments, "lines": 3})
        lines = arguments.get("lines", 3)
        return attrs.evolve(loaded, lines=max(1, int(lines)) if isinstance(lines, (int, float)) else 3)


class PrintsItsPath(Peek):
    """To somewhere that takes UTF-8 only."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        wanted = super().wanted(arguments)
        wanted.path.encode()
        return wanted


class BreaksAtItsDeadline(Peek):
    """With an error of its own."""

    def wait(self, seconds: float, context: ToolContext) -> None:
        try:
            super().wait(seconds, context)
        except DeadlineExceeded:
            raise TimeoutError("too late") from None


class NeverLooksUp(Peek):
    """From its work; a deadline that has passed before, it sees."""

    def wait(self, seconds: float, context: ToolContext) -> None:
        context.deadline.check()
        time.sleep(min(seconds, 3.0))


class SwallowsInterrupts(Peek):
    """And goes on; a deadline it keeps."""

    def wait(self, seconds: float, context: ToolContext) -> None:
        until = time.monotonic() + min(seconds, 3.0)
        while time.monotonic() < until:
            with contextlib.suppress(Interrupted):
                context.deadline.check()
            time.sleep(0.01)


class OpensPathsItself(Peek):
    """Without a look at where they lead."""

    def read(self, path: str, context: ToolContext) -> str:
        try:
            return host_path(context, path).read_text(errors="replace")
        except (OSError, ValueError) as error:
            raise ToolError("not_found", str(error)) from None


class LooksAtNamesOnly(OpensPathsItself):
    """A path without dots is a good one."""

    def read(self, path: str, context: ToolContext) -> str:
        if ".." in path or path.startswith("/"):
            raise ToolError("path_escape", "not there")
        return super().read(path, context)


class WritesOnTheWay(Peek):
    """A note that it was here."""

    def read(self, path: str, context: ToolContext) -> str:
        context.workspace.write("notes.txt", path.encode())
        return super().read(path, context)


class AsksNobody(Put):
    """Whether it may."""

    def check(self, path: str, context: ToolContext) -> None:
        pass


class KeepsNoDiff(Put):
    """Nobody will know what it did."""

    def keep(self, diff: str, path: str, context: ToolContext) -> None:
        pass


class WritesWhereItIsTold(Put):
    """Wherever that is."""

    def check(self, path: str, context: ToolContext) -> None:
        super().check(path, context)
        place = host_path(context, path)
        if place.parent.is_dir() and place.exists():
            place.write_text("was here")


class SaysOnlyWhetherItWorked(Shell):
    """As if that were all there is to know of a command."""

    def told(self, done: ExecResult) -> Mapping[str, Any]:
        return {"worked": done.exit_code == 0}


class ShowsAll(Peek):
    """However much."""

    def cut(self, text: str) -> str:
        return text


DOUBLES: Mapping[str, Double] = {
    "test_the_name": specified("HasALongName", lambda spec: attrs.evolve(spec, name="peek into a file")),
    "test_the_description": specified("LeavesThemGuessing", lambda spec: with_property(spec, "lines", description="")),
    "test_the_parameters": specified("IsNoObject", lambda spec: with_parameters(spec, type="array")),
    "test_the_effect": specified("LeavesItsEffectOpen", lambda spec: attrs.evolve(spec, effect="")),
    "test_patterns_are_valid": specified(
        "WritesForItself", lambda spec: with_property(spec, "path", pattern="^(?:(?s).+)$")
    ),
    "test_good_arguments_fit": specified(
        "WantsOneThingAndSaysAnother", lambda spec: with_property(spec, "path", type="integer")
    ),
    "test_the_spec_stays": CountsItsCalls,
    "test_paths_are_declared": HidesItsPath,
    "test_a_good_call": FailsAlways,
    "test_a_command": SaysOnlyWhetherItWorked,
    "test_nothing_stays_behind": Remembers,
    "test_calls_at_once": HasOneSlot,
    "test_unknown_arguments": TakesWhatItKnows,
    "test_missing_arguments": FillsIn,
    "test_arguments_of_another_type": Converts,
    "test_odd_text": PrintsItsPath,
    "test_no_time_left": BreaksAtItsDeadline,
    "test_a_call_that_takes_too_long": NeverLooksUp,
    "test_interrupting_a_call": SwallowsInterrupts,
    "test_paths_that_lead_out": OpensPathsItself,
    "test_links_that_lead_out": LooksAtNamesOnly,
    "test_the_repository_of_the_workspace": LooksAtNamesOnly,
    "test_special_files": OpensPathsItself,
    "test_what_it_writes": WritesOnTheWay,
    "test_what_may_not_be_edited": AsksNobody,
    "test_results_are_bounded": ShowsAll,
}

MORE: Sequence[tuple[str, Double]] = (
    ("test_what_it_writes", KeepsNoDiff),
    ("test_what_it_writes", specified("ClaimsToEdit", lambda spec: attrs.evolve(spec, effect="edits"))),
    ("test_paths_that_lead_out", WritesWhereItIsTold),
    ("test_links_that_lead_out", WritesWhereItIsTold),
    ("test_the_repository_of_the_workspace", WritesWhereItIsTold),
    ("test_what_may_not_be_edited", FailsAlways),
)
"""Checks that ask for several things, and who fails by another one of them."""
