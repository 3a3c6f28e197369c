"""Sandboxes that are broken in how they capture output, keep deadlines or kill processes, each in one respect."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, cast

import attrs

from agentbench_core import OUTPUT_CAP, Command, Deadline, ExecResult, Interrupted, Output, SandboxError
from agentbench_local.sandbox import LocalSandbox
from agentbench_testing.doubles.sandboxes import Call, EnvironmentDouble, SandboxDouble, changed, changed_once

HALF = OUTPUT_CAP // 2
Process = subprocess.Popen[bytes]


class NaiveSandbox(SandboxDouble):
    """A naive sandbox: one process, its output in two files, and a kill at the deadline."""

    def call(self, call: Call) -> ExecResult:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self.begin(call, out, err)
            timed_out = not self.wait(process, call.deadline)
            if timed_out:
                self.kill(process)
            for file in (out, err):
                file.seek(0)
            return ExecResult(
                exit_code=None if timed_out else process.returncode,
                stdout=Output(head=out.read()),
                stderr=Output(head=err.read()),
                timed_out=timed_out,
            )

    def begin(self, call: Call, out: IO[bytes] | int, err: IO[bytes] | int) -> Process:
        argv = ["/bin/sh", "-c", call.command] if isinstance(call.command, str) else list(call.command)
        process = subprocess.Popen(
            argv, cwd=self.workspace, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        self.__dict__.setdefault("begun", []).append(process)
        return process

    def wait(self, process: Process, deadline: Deadline) -> bool:
        while process.poll() is None and not deadline.expired:
            time.sleep(0.02)
        return process.returncode is not None

    def kill(self, process: Process) -> None:
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in self.__dict__.get("begun", ()):
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.kill()
            process.wait()
        super().close()


class KillsNothing(NaiveSandbox):
    """Reports a timeout without killing anything."""

    def kill(self, process: Process) -> None:
        pass


class KillsTheShellOnly(NaiveSandbox):
    """Kills only the shell, like ``subprocess.run(timeout=...)``."""


class KillsTheGroup(NaiveSandbox):
    """Kills the process group."""

    def kill(self, process: Process) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class KillsDescendants(NaiveSandbox):
    """Kills descendants by parent process, which misses orphans."""

    def kill(self, process: Process) -> None:
        listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
        family = {process.pid}
        for _ in parents:
            family |= {pid for pid, parent in parents if parent in family}
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


class OnlyTerminates(NaiveSandbox):
    """Only sends SIGTERM."""

    def kill(self, process: Process) -> None:
        os.killpg(process.pid, signal.SIGTERM)


class EndsWithItsOutput(NaiveSandbox):
    """Treats the end of output as the end of the command."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.DEVNULL)
        assert process.stdout is not None
        out = process.stdout.read()
        return ExecResult(exit_code=0, stdout=Output(head=out))


class WaitsForTheEndOfOutput(NaiveSandbox):
    """Uses ``communicate``, which waits until every process has closed the output."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=call.deadline.remaining())
        except subprocess.TimeoutExpired:
            return ExecResult(exit_code=None, timed_out=True)
        return ExecResult(exit_code=process.returncode, stdout=Output(head=out), stderr=Output(head=err))


class ReadsOneStreamAfterTheOther(NaiveSandbox):
    """Reads one stream after the other, so that a full pipe blocks the command."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.PIPE)
        assert process.stdout is not None
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        reader.join(call.deadline.remaining())
        os.killpg(process.pid, signal.SIGKILL)
        reader.join()
        return ExecResult(exit_code=None, timed_out=True)


class ClosesOutputs(NaiveSandbox):
    """Closes the output pipes when the command ends."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.PIPE)
        self.wait(process, call.deadline)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        return ExecResult(exit_code=process.returncode)


class GivesASecond(SandboxDouble):
    """Gives every command at least a second."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, deadline=Deadline(max(1.0, call.deadline.remaining()))))


class ReadsTheDeadlineOnce(SandboxDouble):
    """Ignores later changes of the deadline."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, deadline=Deadline(call.deadline.remaining())))


class ClosesOnTimeouts(SandboxDouble):
    """Closes the sandbox after a timeout."""

    def call(self, call: Call) -> ExecResult:
        result = super().call(call)
        if result.timed_out:
            self.inner.close()
        return result


class ReportsInterruptsAsTimeouts(SandboxDouble):
    """Reports an interrupt as a timeout."""

    def call(self, call: Call) -> ExecResult:
        try:
            return super().call(call)
        except Interrupted:
            return ExecResult(exit_code=None, timed_out=True)


class KillsAfterEachCall(SandboxDouble):
    """Kills background processes after each call."""

    def call(self, call: Call) -> ExecResult:
        inner = cast(LocalSandbox, self.inner)
        return inner.run(call.command, deadline=call.deadline, env=call.env, cwd=call.cwd, once=True)


class ClosesNothing(SandboxDouble):
    """Does nothing on ``close``."""

    def close(self) -> None:
        pass


class ClosesOnce(SandboxDouble):
    """Cannot be closed twice."""

    def close(self) -> None:
        if self.__dict__.setdefault("closed", False):
            raise SandboxError("closed already")
        self.__dict__["closed"] = True
        super().close()


class ReturnsAfterClosing(SandboxDouble):
    """Returns a result for a command in a closed sandbox."""

    def call(self, call: Call) -> ExecResult:
        try:
            return super().call(call)
        except SandboxError:
            return ExecResult(exit_code=137)


class RemovesTheWorkspace(SandboxDouble):
    """Removes the workspace on ``close``, like ``docker rm --volumes``."""

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.workspace, ignore_errors=True)


class OnceInANaiveSandbox(EnvironmentDouble):
    """Only kills the shell in ``run_once``."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        sandbox = self.inner.start(workspace, read_only=False, network=False, deadline=deadline)
        naive = KillsTheShellOnly(sandbox, workspace, self)
        self.started.append(naive)
        try:
            return naive.exec(command.run, deadline=deadline)
        finally:
            naive.close()


class OnceWithoutReasons(EnvironmentDouble):
    """Reports an interrupt as a timeout."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        try:
            return super().run_once(command, workspace, deadline)
        except Interrupted:
            return ExecResult(exit_code=None, timed_out=True)


class OnceWithoutClosing(EnvironmentDouble):
    """Does not close the sandbox."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        sandbox = self.inner.start(workspace, read_only=False, network=False, deadline=deadline)
        return sandbox.exec(command.run, deadline=deadline)


class OnceInARunningSandbox(EnvironmentDouble):
    """Runs in a sandbox that already exists."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        return self.started[0].exec(command.run, deadline=deadline)


class OnceOnACopy(EnvironmentDouble):
    """Works on a copy of the workspace."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        copy = workspace.with_name("copy")
        shutil.copytree(workspace, copy, symlinks=True)
        return super().run_once(command, copy, deadline)


class OnceWithLostResults(EnvironmentDouble):
    """Writes results into a different directory."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        if command.results is None:
            return super().run_once(command, workspace, deadline)
        elsewhere = command.results.with_name("elsewhere")
        elsewhere.mkdir()
        return super().run_once(attrs.evolve(command, results=elsewhere), workspace, deadline)


class OnceWithInputsByTheirOwnNames(EnvironmentDouble):
    """Uses the inputs' original file names."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        inputs = {path.name: path for path in command.inputs.values()}
        return super().run_once(attrs.evolve(command, inputs=inputs), workspace, deadline)


class OnceWithoutRestoringModes(EnvironmentDouble):
    """Does not restore the write bits of a read-only workspace."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        result = super().run_once(command, workspace, deadline)
        if command.read_only:
            Path(workspace, "text").chmod(0o444)
        return result


def _believes_output(result: ExecResult) -> ExecResult:
    _, said, code = result.stdout.text.partition("exit code: ")
    return attrs.evolve(result, exit_code=int(code)) if said else result


def _merged(result: ExecResult) -> ExecResult:
    return attrs.evolve(result, stdout=Output(head=result.stdout.data + result.stderr.data), stderr=Output())


def _as_text(output: Output) -> Output:
    return attrs.evolve(output, head=output.head.decode("utf-8", "replace").encode())


def _half(output: Output) -> Output:
    data = output.head + output.tail
    few = HALF // 2
    return Output(head=data[:few], tail=data[-few:], omitted=len(data) - HALF) if len(data) > HALF else output


DOUBLES = {
    "test_streams_are_kept_apart": changed("MergesStreams", _merged),
    "test_bytes_that_are_not_text": changed(
        "DecodesOutput", lambda result: attrs.evolve(result, stdout=_as_text(result.stdout))
    ),
    "test_newlines_at_the_end": changed(
        "StripsOutput", lambda result: attrs.evolve(result, stdout=Output(head=result.stdout.data.rstrip(b"\n")))
    ),
    "test_no_output": changed(
        "AddsANewline", lambda result: attrs.evolve(result, stdout=Output(head=result.stdout.data or b"\n"))
    ),
    "test_output_up_to_the_cap": changed(
        "HasALowerCap", lambda result: attrs.evolve(result, stdout=_half(result.stdout))
    ),
    "test_a_flood_is_capped": changed(
        "DoesNotCount", lambda result: attrs.evolve(result, stdout=attrs.evolve(result.stdout, omitted=0))
    ),
    "test_both_ends_of_a_flood_are_kept": changed(
        "LosesTheTail", lambda result: attrs.evolve(result, stdout=attrs.evolve(result.stdout, tail=b"\0" * HALF))
    ),
    "test_a_flood_of_errors": changed(
        "KeepsTheLastErrors", lambda result: attrs.evolve(result, stderr=attrs.evolve(result.stderr, head=b""))
    ),
    "test_two_floods_at_once": ReadsOneStreamAfterTheOther,
    "test_a_command_that_closes_its_outputs": EndsWithItsOutput,
    "test_a_background_process_delays_nothing": WaitsForTheEndOfOutput,
    "test_a_command_ends_at_its_deadline": changed(
        "HasAnExitCodeForTimeouts", lambda result: attrs.evolve(result, exit_code=137, timed_out=False)
    ),
    "test_duration": changed("HasNoClock", lambda result: attrs.evolve(result, duration_sec=0.0)),
    "test_output_before_the_deadline": changed(
        "LosesOutputOfTimeouts", lambda result: attrs.evolve(result, stdout=Output(), stderr=Output())
    ),
    "test_a_flood_ends_at_its_deadline": changed(
        "CountsNothingAtTimeouts", lambda result: attrs.evolve(result, stdout=attrs.evolve(result.stdout, omitted=0))
    ),
    "test_no_time_left": GivesASecond,
    "test_the_sandbox_outlives_a_deadline": ClosesOnTimeouts,
    "test_a_deadline_kills_the_command": KillsNothing,
    "test_a_deadline_kills_children": KillsTheShellOnly,
    "test_a_deadline_kills_background_processes": KillsTheShellOnly,
    "test_a_deadline_kills_other_sessions": KillsTheGroup,
    "test_a_deadline_kills_orphans": KillsDescendants,
    "test_a_deadline_kills_despite_ignored_signals": OnlyTerminates,
    "test_a_deadline_kills_a_command_without_outputs": EndsWithItsOutput,
    "test_interrupting": ReportsInterruptsAsTimeouts,
    "test_interrupted_before_it_started": GivesASecond,
    "test_a_deadline_that_is_extended": ReadsTheDeadlineOnce,
    "test_background_processes_live_on": KillsAfterEachCall,
    "test_a_background_process_that_prints": ClosesOutputs,
    "test_close_kills_background_processes": ClosesNothing,
    "test_closing_twice": ClosesOnce,
    "test_closing_while_a_command_runs": ReturnsAfterClosing,
    "test_no_command_after_closing": ReturnsAfterClosing,
    "test_the_workspace_outlives_the_sandbox": RemovesTheWorkspace,
    "test_once_exit_codes": changed_once("BelievesOutput", _believes_output),
    "test_once_output": changed_once("MergesStreamsOnce", _merged),
    "test_once_writes_to_the_workspace": OnceOnACopy,
    "test_once_ends_at_its_deadline": OnceInANaiveSandbox,
    "test_once_interrupted": OnceWithoutReasons,
    "test_once_leaves_no_process": OnceWithoutClosing,
    "test_once_results": OnceWithLostResults,
    "test_once_inputs": OnceWithInputsByTheirOwnNames,
    "test_once_read_only_leaves_the_workspace": OnceWithoutRestoringModes,
    "test_once_beside_a_sandbox": OnceInARunningSandbox,
}
