"""Sandboxes that keep output, watch the clock or kill processes wrongly, each in one respect."""

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


class Amateur(SandboxDouble):
    """Runs commands as one does at first: a process, its output in two files, and a kill when time is over."""

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


class KillsNobody(Amateur):
    """Says that time is over, and leaves it at that."""

    def kill(self, process: Process) -> None:
        pass


class KillsTheShellOnly(Amateur):
    """As ``subprocess.run(timeout=...)`` does."""


class KillsTheGroup(Amateur):
    """``killpg``."""

    def kill(self, process: Process) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class KillsDescendants(Amateur):
    """Follows parents, which orphans have lost."""

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


class AsksPolitely(Amateur):
    """SIGTERM to all, and no more."""

    def kill(self, process: Process) -> None:
        os.killpg(process.pid, signal.SIGTERM)


class TakesTheEndOfOutputForTheEnd(Amateur):
    """Waits for its output to be closed, and kills then."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.DEVNULL)
        assert process.stdout is not None
        out = process.stdout.read()
        return ExecResult(exit_code=0, stdout=Output(head=out))


class WaitsForTheEndOfOutput(Amateur):
    """``communicate``: whoever holds the output open delays the result."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=call.deadline.remaining())
        except subprocess.TimeoutExpired:
            return ExecResult(exit_code=None, timed_out=True)
        return ExecResult(exit_code=process.returncode, stdout=Output(head=out), stderr=Output(head=err))


class ReadsOneStreamAfterTheOther(Amateur):
    """The second one fills its pipe, and its writer waits."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.PIPE)
        assert process.stdout is not None
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        reader.join(call.deadline.remaining())
        os.killpg(process.pid, signal.SIGKILL)
        reader.join()
        return ExecResult(exit_code=None, timed_out=True)


class ClosesOutputs(Amateur):
    """Nobody holds the reading end when the command is over."""

    def call(self, call: Call) -> ExecResult:
        process = self.begin(call, subprocess.PIPE, subprocess.PIPE)
        self.wait(process, call.deadline)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        return ExecResult(exit_code=process.returncode)


class GivesASecond(SandboxDouble):
    """Every command gets one, also when no time is left."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, deadline=Deadline(max(1.0, call.deadline.remaining()))))


class AsksForTheTimeOnce(SandboxDouble):
    """What happens to the deadline afterwards counts for nothing."""

    def call(self, call: Call) -> ExecResult:
        return super().call(attrs.evolve(call, deadline=Deadline(call.deadline.remaining())))


class DiesOfTimeouts(SandboxDouble):
    """The sandbox ends with the command."""

    def call(self, call: Call) -> ExecResult:
        result = super().call(call)
        if result.timed_out:
            self.inner.close()
        return result


class TakesInterruptsForTimeouts(SandboxDouble):
    """The reason is lost."""

    def call(self, call: Call) -> ExecResult:
        try:
            return super().call(call)
        except Interrupted:
            return ExecResult(exit_code=None, timed_out=True)


class KillsAfterEachCall(SandboxDouble):
    """No background process outlives its call."""

    def call(self, call: Call) -> ExecResult:
        inner = cast(LocalSandbox, self.inner)
        return inner.run(call.command, deadline=call.deadline, env=call.env, cwd=call.cwd, once=True)


class ClosesNothing(SandboxDouble):
    """Left to the provider."""

    def close(self) -> None:
        pass


class ClosesOnce(SandboxDouble):
    """The second time is an error."""

    def close(self) -> None:
        if self.__dict__.setdefault("closed", False):
            raise SandboxError("closed already")
        self.__dict__["closed"] = True
        super().close()


class TakesClosingForAnEnd(SandboxDouble):
    """A command of a closed sandbox has a result."""

    def call(self, call: Call) -> ExecResult:
        try:
            return super().call(call)
        except SandboxError:
            return ExecResult(exit_code=137)


class RemovesTheWorkspace(SandboxDouble):
    """As ``docker rm --volumes`` would."""

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.workspace, ignore_errors=True)


class OnceByAnAmateur(EnvironmentDouble):
    """Kills the shell only."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        sandbox = self.inner.start(workspace, read_only=False, network=False, deadline=deadline)
        amateur = KillsTheShellOnly(sandbox, workspace, self)
        self.started.append(amateur)
        try:
            return amateur.exec(command.run, deadline=deadline)
        finally:
            amateur.close()


class OnceWithoutReasons(EnvironmentDouble):
    """An interrupt is a timeout."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        try:
            return super().run_once(command, workspace, deadline)
        except Interrupted:
            return ExecResult(exit_code=None, timed_out=True)


class OnceWithoutAnEnd(EnvironmentDouble):
    """A sandbox that nobody closes."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        sandbox = self.inner.start(workspace, read_only=False, network=False, deadline=deadline)
        return sandbox.exec(command.run, deadline=deadline)


class OnceInWhateverRuns(EnvironmentDouble):
    """Not a start of its own."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        return self.started[0].exec(command.run, deadline=deadline)


class OnceOnACopy(EnvironmentDouble):
    """The workspace that was given stays as it is."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        copy = workspace.with_name("copy")
        shutil.copytree(workspace, copy, symlinks=True)
        return super().run_once(command, copy, deadline)


class OnceWithLostResults(EnvironmentDouble):
    """They are written somewhere, and stay there."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        if command.results is None:
            return super().run_once(command, workspace, deadline)
        elsewhere = command.results.with_name("elsewhere")
        elsewhere.mkdir()
        return super().run_once(attrs.evolve(command, results=elsewhere), workspace, deadline)


class OnceWithInputsByTheirOwnNames(EnvironmentDouble):
    """Not by the names that they are given."""

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        inputs = {path.name: path for path in command.inputs.values()}
        return super().run_once(attrs.evolve(command, inputs=inputs), workspace, deadline)


class OnceWithoutGivingModesBack(EnvironmentDouble):
    """Write bits are taken from a read-only workspace for good."""

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
    "test_a_command_that_closes_its_outputs": TakesTheEndOfOutputForTheEnd,
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
    "test_the_sandbox_outlives_a_deadline": DiesOfTimeouts,
    "test_a_deadline_kills_the_command": KillsNobody,
    "test_a_deadline_kills_children": KillsTheShellOnly,
    "test_a_deadline_kills_background_processes": KillsTheShellOnly,
    "test_a_deadline_kills_other_sessions": KillsTheGroup,
    "test_a_deadline_kills_orphans": KillsDescendants,
    "test_a_deadline_kills_despite_ignored_signals": AsksPolitely,
    "test_a_deadline_kills_a_command_without_outputs": TakesTheEndOfOutputForTheEnd,
    "test_interrupting": TakesInterruptsForTimeouts,
    "test_interrupted_before_it_started": GivesASecond,
    "test_a_deadline_that_is_extended": AsksForTheTimeOnce,
    "test_background_processes_live_on": KillsAfterEachCall,
    "test_a_background_process_that_prints": ClosesOutputs,
    "test_close_kills_background_processes": ClosesNothing,
    "test_closing_twice": ClosesOnce,
    "test_closing_while_a_command_runs": TakesClosingForAnEnd,
    "test_no_command_after_closing": TakesClosingForAnEnd,
    "test_the_workspace_outlives_the_sandbox": RemovesTheWorkspace,
    "test_once_exit_codes": changed_once("BelievesOutput", _believes_output),
    "test_once_output": changed_once("MergesStreamsOnce", _merged),
    "test_once_writes_to_the_workspace": OnceOnACopy,
    "test_once_ends_at_its_deadline": OnceByAnAmateur,
    "test_once_interrupted": OnceWithoutReasons,
    "test_once_leaves_no_process": OnceWithoutAnEnd,
    "test_once_results": OnceWithLostResults,
    "test_once_inputs": OnceWithInputsByTheirOwnNames,
    "test_once_read_only_leaves_the_workspace": OnceWithoutGivingModesBack,
    "test_once_beside_a_sandbox": OnceInWhateverRuns,
}
