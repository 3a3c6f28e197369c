"""Tools that pass all checks, one for each effect, and variants that are each broken in one respect."""

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
    """Reads the first lines of a file. It is correct; doubles override one method each."""

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
    """Writes a whole file. It is correct."""

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
    """Runs a command. It is correct."""

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
    """The checks for such a tool, with short timeouts."""

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
    """A tool with a changed spec."""
    return type(name, (Peek,), {"spec": property(lambda self: change(Peek.spec.fget(self)))})  # type: ignore[attr-defined]


def with_parameters(spec: ToolSpec, **more: Any) -> ToolSpec:
    return attrs.evolve(spec, parameters={**spec.parameters, **more})


def with_property(spec: ToolSpec, name: str, **more: Any) -> ToolSpec:
    known = dict(spec.parameters["properties"])
    return with_parameters(spec, properties={**known, name: {**known[name], **more}})


def host_path(context: ToolContext, path: str) -> Path:
    """The host path of a file, as determined by a tool that trusts its sandbox."""
    told = context.sandbox.exec("pwd", deadline=context.deadline).stdout.text.strip()
    return Path(told) / path


class CountsItsCalls(Peek):
    """Changes its description with every call."""

    calls = 0

    @property
    def spec(self) -> ToolSpec:
        return attrs.evolve(super().spec, description=f"Called {self.calls} times.")

    def read(self, path: str, context: ToolContext) -> str:
        self.calls += 1
        return super().read(path, context)


class HidesItsPath(Peek):
    """Does not declare its path argument."""

    path_arguments = ()


class FailsAlways(Peek):
    """Refuses every call."""

    def read(self, path: str, context: ToolContext) -> str:
        raise ToolError("not_found", "there is nothing")


class Remembers(Peek):
    """Returns content of earlier calls."""

    def __init__(self) -> None:
        self.known = ""

    def read(self, path: str, context: ToolContext) -> str:
        before, self.known = self.known, super().read(path, context)
        return before[:10] + self.known


class SharesItsCall(Peek):
    """Stores the current call in an attribute."""

    def read(self, path: str, context: ToolContext) -> str:
        found = super().read(path, context)
        self.slot = f"{id(context)} {found}"
        time.sleep(0.05)
        mine = self.slot.startswith(f"{id(context)} ")
        return found if mine else f"of another call: {found}"


class IgnoresUnknownArguments(Peek):
    """Ignores unknown arguments."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        known = {"path", "lines", "wait"}
        return super().wanted({key: value for key, value in arguments.items() if key in known})


class FillsIn(Peek):
    """Has a default for a required argument."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        return super().wanted({"path": "adding.py", **arguments})


class Converts(Peek):
    """Converts arguments of a wrong type."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        loaded = super().wanted({**arguments, "lines": 3})
        lines = arguments.get("lines", 3)
        return attrs.evolve(loaded, lines=max(1, int(lines)) if isinstance(lines, (int, float)) else 3)


class PrintsItsPath(Peek):
    """Encodes its path as strict UTF-8."""

    def wanted(self, arguments: Mapping[str, Any]) -> PeekArguments:
        wanted = super().wanted(arguments)
        wanted.path.encode()
        return wanted


class BreaksAtItsDeadline(Peek):
    """Raises its own exception at the deadline."""

    def wait(self, seconds: float, context: ToolContext) -> None:
        try:
            super().wait(seconds, context)
        except DeadlineExceeded:
            raise TimeoutError("too late") from None


class ChecksTheDeadlineOnce(Peek):
    """Checks the deadline only before it starts."""

    def wait(self, seconds: float, context: ToolContext) -> None:
        context.deadline.check()
        time.sleep(min(seconds, 3.0))


class SwallowsInterrupts(Peek):
    """Ignores interrupts, but not deadlines."""

    def wait(self, seconds: float, context: ToolContext) -> None:
        until = time.monotonic() + min(seconds, 3.0)
        while time.monotonic() < until:
            with contextlib.suppress(Interrupted):
                context.deadline.check()
            time.sleep(0.01)


class OpensPathsItself(Peek):
    """Opens paths without checking where they lead."""

    def read(self, path: str, context: ToolContext) -> str:
        try:
            return host_path(context, path).read_text(errors="replace")
        except (OSError, ValueError) as error:
            raise ToolError("not_found", str(error)) from None


class ChecksTextOnly(OpensPathsItself):
    """Only checks the text of paths."""

    def read(self, path: str, context: ToolContext) -> str:
        if ".." in path or path.startswith("/"):
            raise ToolError("path_escape", "not there")
        return super().read(path, context)


class WritesWhileReading(Peek):
    """Writes a file although its effect is ``reads``."""

    def read(self, path: str, context: ToolContext) -> str:
        context.workspace.write("notes.txt", path.encode())
        return super().read(path, context)


class SkipsTheCheck(Put):
    """Does not check whether a file is editable."""

    def check(self, path: str, context: ToolContext) -> None:
        pass


class SavesNoDiff(Put):
    """Does not save its diff."""

    def keep(self, diff: str, path: str, context: ToolContext) -> None:
        pass


class WritesOnTheHost(Put):
    """Writes to the path on the host, wherever it leads."""

    def check(self, path: str, context: ToolContext) -> None:
        super().check(path, context)
        place = host_path(context, path)
        if place.parent.is_dir() and place.exists():
            place.write_text("was here")


class ReturnsNoOutput(Shell):
    """Returns neither exit code nor output of the command."""

    def told(self, done: ExecResult) -> Mapping[str, Any]:
        return {"worked": done.exit_code == 0}


class ShowsAll(Peek):
    """Does not limit its result."""

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
    "test_a_command": ReturnsNoOutput,
    "test_nothing_stays_behind": Remembers,
    "test_calls_at_once": SharesItsCall,
    "test_unknown_arguments": IgnoresUnknownArguments,
    "test_missing_arguments": FillsIn,
    "test_arguments_of_another_type": Converts,
    "test_odd_text": PrintsItsPath,
    "test_no_time_left": BreaksAtItsDeadline,
    "test_a_call_that_takes_too_long": ChecksTheDeadlineOnce,
    "test_interrupting_a_call": SwallowsInterrupts,
    "test_paths_that_lead_out": OpensPathsItself,
    "test_links_that_lead_out": ChecksTextOnly,
    "test_the_repository_of_the_workspace": ChecksTextOnly,
    "test_special_files": OpensPathsItself,
    "test_what_it_writes": WritesWhileReading,
    "test_what_may_not_be_edited": SkipsTheCheck,
    "test_results_are_bounded": ShowsAll,
}

MORE: Sequence[tuple[str, Double]] = (
    ("test_what_it_writes", SavesNoDiff),
    ("test_what_it_writes", specified("ClaimsToEdit", lambda spec: attrs.evolve(spec, effect="edits"))),
    ("test_paths_that_lead_out", WritesOnTheHost),
    ("test_links_that_lead_out", WritesOnTheHost),
    ("test_the_repository_of_the_workspace", WritesOnTheHost),
    ("test_what_may_not_be_edited", FailsAlways),
)
"""More doubles, for checks of several things."""
