"""Sandboxes that are broken in how they run commands, pass variables or handle files, each in one respect."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import attrs

from agentbench_core import Deadline, ExecResult, ResourceUsage, Sandbox, SandboxError, ToolError, fork
from agentbench_testing.doubles.sandboxes import Call, EnvironmentDouble, SandboxDouble, changed


class SplitsText(SandboxDouble):
    """Runs text without a shell."""

    def call(self, call: Call) -> ExecResult:
        command = shlex.split(call.command) if isinstance(call.command, str) else call.command
        return super().call(attrs.evolve(call, command=command))


class JoinsArguments(SandboxDouble):
    """Runs arguments with a shell."""

    def call(self, call: Call) -> ExecResult:
        command = call.command if isinstance(call.command, str) else " ".join(call.command)
        return super().call(attrs.evolve(call, command=command))


class TakesShortCommands(SandboxDouble):
    """Refuses long commands, like one that passes them in a variable or a line."""

    def call(self, call: Call) -> ExecResult:
        return super().call(call) if len(call.text) < 65_536 else ExecResult(exit_code=126)


class KeepsTheDirectory(SandboxDouble):
    """Keeps the working directory between calls, like one long-lived shell."""

    def call(self, call: Call) -> ExecResult:
        if not isinstance(call.command, str):
            return super().call(call)
        keep = 'cd "$(cat "$HOME/.directory" 2>/dev/null || pwd)"; trap \'pwd > "$HOME/.directory"\' EXIT'
        return super().call(attrs.evolve(call, command=f"{keep}\n{call.command}"))


class StartsAtHome(SandboxDouble):
    """Runs commands in HOME."""

    def call(self, call: Call) -> ExecResult:
        begin = 'cd "$HOME"\n' if call.cwd is None and isinstance(call.command, str) else ""
        return super().call(attrs.evolve(call, command=begin + call.text) if begin else call)


class IgnoresTheDirectory(SandboxDouble):
    """Ignores ``cwd``."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, cwd=None))


class FallsBackToTheWorkspace(SandboxDouble):
    """Runs commands in the workspace if ``cwd`` is invalid."""

    def call(self, call: Call) -> ExecResult:
        try:
            return super().call(call)
        except ToolError:
            return super().call(attrs.evolve(call, cwd=None))


class WaitsForInput(SandboxDouble):
    """Leaves standard input open, without data."""

    def call(self, call: Call) -> ExecResult:
        begin = 'mkfifo "$TMPDIR/in"; exec 0<>"$TMPDIR/in"\n'
        return super().call(attrs.evolve(call, command=begin + call.text))


class WorksOnACopy(EnvironmentDouble):
    """Works on a copy of the workspace."""

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        copy = workspace.with_name("copy")
        fork(workspace, copy)
        return super().start(copy, read_only=read_only, network=network, deadline=deadline)


class DropsVariables(SandboxDouble):
    """Ignores ``env``."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, env=None))


class WritesAnEnvFile(SandboxDouble):
    """Writes one line per variable, which truncates values at a newline."""

    def call(self, call: Call) -> ExecResult:
        env = {name: value.split("\n")[0] for name, value in (call.env or {}).items()}
        return super().call(attrs.evolve(call, env=env))


class KeepsVariables(SandboxDouble):
    """Keeps the variables of a call for later calls."""

    def call(self, call: Call) -> ExecResult:
        self.__dict__.setdefault("kept", {}).update(call.env or {})
        return super().call(attrs.evolve(call, env=self.__dict__["kept"]))


class PassesTheHostsVariables(SandboxDouble):
    """Passes all variables of the host."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, env={**os.environ, **(call.env or {})}))


class UsesTheWorkspaceAsHome(SandboxDouble):
    """Sets HOME to the workspace, so that caches become part of an agent's change."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, env={"HOME": str(self.workspace), **(call.env or {})}))


class SharesHome(SandboxDouble):
    """Uses one HOME for all starts."""

    def call(self, call: Call) -> ExecResult:
        home = self.owner.pristine.with_name("home")
        home.mkdir(exist_ok=True)
        return super().call(attrs.evolve(call, env={"HOME": str(home), **(call.env or {})}))


class ReadsText(SandboxDouble):
    """Replaces bytes that are not UTF-8."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        return super().read_file(path, limit=limit).decode("utf-8", "replace").encode()


class ReadsEverything(SandboxDouble):
    """Ignores the limit."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        return super().read_file(path, limit=1 << 30)


class ReadsNothing(SandboxDouble):
    """Returns an empty file if it is missing."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        try:
            return super().read_file(path, limit=limit)
        except ToolError:
            return b""


class RaisesOneErrorType(SandboxDouble):
    """Raises ``io_error`` for every reason."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        try:
            return super().read_file(path, limit=limit)
        except ToolError as error:
            raise ToolError("io_error", error.message) from error


class OpensSpecialFiles(SandboxDouble):
    """Opens special files, which may block."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        with (self.workspace / path).open("rb") as file:
            return file.read(limit)


class MakesNoDirectories(SandboxDouble):
    """Does not create parent directories."""

    def write_file(self, path: str, data: bytes) -> None:
        if not (self.workspace / path).parent.is_dir():
            raise ToolError("not_found", "no such directory")
        super().write_file(path, data)


class DoesNotTruncate(SandboxDouble):
    """Does not truncate a longer file."""

    def write_file(self, path: str, data: bytes) -> None:
        place = self.workspace / path
        old = place.read_bytes() if place.is_file() else b""
        super().write_file(path, data + old[len(data) :])


class ReplacesDirectories(SandboxDouble):
    """Replaces a directory with the file."""

    def write_file(self, path: str, data: bytes) -> None:
        shutil.rmtree(self.workspace / path, ignore_errors=True)
        super().write_file(path, data)


class KnowsRelativePathsOnly(SandboxDouble):
    """Treats ``/x`` as ``x``."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        return super().read_file(path.lstrip("/"), limit=limit)

    def write_file(self, path: str, data: bytes) -> None:
        super().write_file(path.lstrip("/"), data)


class KeepsFilesInMemory(SandboxDouble):
    """Returns written files, but commands do not see them."""

    def read_file(self, path: str, *, limit: int) -> bytes:
        kept: bytes | None = self.__dict__.get(path)
        return super().read_file(path, limit=limit) if kept is None else kept[:limit]

    def write_file(self, path: str, data: bytes) -> None:
        self.__dict__[path] = data


class RaisesForExitCodes(SandboxDouble):
    """Raises for exit code 127 instead of returning it."""

    def call(self, call: Call) -> ExecResult:
        result = super().call(call)
        if result.exit_code == 127:
            raise SandboxError("no such program")
        return result


def _timeout_tool(result: ExecResult) -> ExecResult:
    return attrs.evolve(result, exit_code=None, timed_out=True) if result.exit_code == 124 else result


DOUBLES = {
    "test_a_command_that_succeeds": changed("AlwaysFails", lambda result: attrs.evolve(result, exit_code=1)),
    "test_a_command_that_fails": changed(
        "KnowsTwoExitCodes", lambda result: attrs.evolve(result, exit_code=min(result.exit_code or 0, 1))
    ),
    "test_a_command_that_a_signal_ends": changed(
        "CountsSignalsBelowZero",
        lambda result: attrs.evolve(result, exit_code=128 - (result.exit_code or 0)) if not result.ok else result,
    ),
    "test_a_program_that_does_not_exist": RaisesForExitCodes,
    "test_a_program_that_cannot_be_executed": changed(
        "FindsNothing", lambda result: attrs.evolve(result, exit_code=127)
    ),
    "test_exit_code_124_is_not_a_timeout": changed("UsesTheTimeoutTool", _timeout_tool),
    "test_text_goes_to_a_shell": SplitsText,
    "test_arguments_are_passed_as_they_are": JoinsArguments,
    "test_long_arguments": TakesShortCommands,
    "test_a_call_starts_anew": KeepsTheDirectory,
    "test_commands_run_in_the_workspace": StartsAtHome,
    "test_a_directory_below_the_workspace": IgnoresTheDirectory,
    "test_a_directory_that_is_missing": FallsBackToTheWorkspace,
    "test_standard_input_is_empty": WaitsForInput,
    "test_the_host_sees_what_commands_write": WorksOnACopy,
    "test_commands_see_what_the_host_writes": WorksOnACopy,
    "test_ordinary_commands_hit_no_limit": changed(
        "BlamesLimits", lambda result: attrs.evolve(result, limits_hit=() if result.ok else ("oom",))
    ),
    "test_load_is_that_of_the_command": changed(
        "CountsTheSandbox", lambda result: attrs.evolve(result, load=ResourceUsage(cpu_sec=1.0))
    ),
    "test_variables_of_a_call": DropsVariables,
    "test_variables_are_passed_as_they_are": WritesAnEnvFile,
    "test_variables_end_with_their_call": KeepsVariables,
    "test_variables_of_the_host_stay_there": PassesTheHostsVariables,
    "test_private_directories": UsesTheWorkspaceAsHome,
    "test_two_sandboxes_have_their_own": SharesHome,
    "test_files_are_read_as_written": ReadsText,
    "test_reading_has_a_limit": ReadsEverything,
    "test_reading_what_is_missing": ReadsNothing,
    "test_reading_a_directory": RaisesOneErrorType,
    "test_reading_a_pipe": OpensSpecialFiles,
    "test_writing_makes_directories": MakesNoDirectories,
    "test_writing_replaces_the_whole": DoesNotTruncate,
    "test_writing_over_a_directory": ReplacesDirectories,
    "test_absolute_paths": KnowsRelativePathsOnly,
    "test_files_are_those_of_commands": KeepsFilesInMemory,
}
