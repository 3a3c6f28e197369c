"""Transport for images without Python: one ``docker exec`` per command, or the command as PID 1."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence

import attrs

from agentbench_core import OUTPUT_CAP, Deadline, ExecResult, Output, SandboxError
from agentbench_docker.channel import POLL, ChannelLostError, CommandRequest, FileRefusedError
from agentbench_docker.container import Container
from agentbench_docker.inside.frames import ready
from agentbench_docker.inside.monitoring import Capture

END_GRACE = 0.2
_EXEC_SEC = 60.0
_SURE_SEC = 5.0
"""Maximum seconds for the engine to register that a container has exited."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Variable names that a shell can export."""

# Variables are sent on standard input, since other users can read command lines. The last line of stderr proves that
# the command exited by itself: `docker exec` can also exit with 0, 1, 126 or 137 when it did not.
_WRAPPER = r"""
eval "$(cat)"
cd "$1" || exit 126
proof=$2
shift 2
count() {
    for file in $2; do
        [ -r "/sys/fs/cgroup/$file" ] && while read -r name value; do
            [ "$name" = "$1" ] && echo "$value"
        done <"/sys/fs/cgroup/$file"
    done
}
counts() {
    echo "$(count oom_kill 'memory/memory.oom_control memory.events') $(count max 'pids/pids.events pids.events')"
}
before=$(counts)
(exec "$@") </dev/null
code=$?
printf '\n%s %s %s %s\n' "$proof" "$code" "$before" "$(counts)" >&2
"""


class ExecCalls:
    """Implements ``Transport``. Restarts the container at a deadline, so that no process survives."""

    def __init__(self, container: Container, shell: Sequence[str], deadline: Deadline) -> None:
        """``shell`` is the command line prefix that starts a shell."""
        self.guarded = True
        self._container = container
        self._shell = shell
        container.start(deadline)
        self._started_at = container.state().started_at
        self._running: subprocess.Popen[bytes] | None = None

    def exec(self, request: CommandRequest, deadline: Deadline) -> ExecResult:
        """Run a command."""
        proof = secrets.token_hex(16)
        exports = "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in request.env.items() if _NAME.fullmatch(name)
        )
        words = [*self._shell, "-c", _WRAPPER, "sh", request.cwd, proof, *request.argv]
        started = time.monotonic()
        ended, out, err = self._call(words, exports.encode("utf-8", "surrogateescape"), deadline, proof.encode())
        duration = time.monotonic() - started
        if ended is not None:
            return ExecResult(
                exit_code=ended.code,
                stdout=_output(out),
                stderr=_output(err),
                duration_sec=duration,
                limits_hit=ended.limits_hit,
            )
        if not deadline.expired:
            raise ChannelLostError("the command exited without a status line", ended=self._ended_externally(proof))
        self._container.kill()
        self._container.start(Deadline(_EXEC_SEC))
        self._started_at = self._container.state().started_at
        return ExecResult(
            exit_code=None, stdout=_output(out), stderr=_output(err), timed_out=True, duration_sec=duration
        )

    def read(self, path: str, limit: int) -> bytes:
        """Up to ``limit`` bytes of a file."""
        script = '[ -e "$1" ] || exit 44; [ -f "$1" ] || exit 45; head -c "$2" -- "$1"'
        return self._file(["sh", "-c", script, "sh", path, str(limit)], b"", cap=2 * limit + 2)

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        script = '[ -d "$1" ] && exit 45; mkdir -p -- "$(dirname -- "$1")" && cat > "$1.$2" && mv -f -- "$1.$2" "$1"'
        self._file(["sh", "-c", script, "sh", path, secrets.token_hex(4)], data, cap=OUTPUT_CAP)

    def close(self) -> None:
        """Kill the running client. Processes that it has started end with the container."""
        if self._running is not None:
            _kill(self._running)

    def _ended_externally(self, proof: str) -> bool:
        """Whether the container has ended, or the client was killed while its command still runs."""
        if self._has_ended():
            return True
        result = self._docker("top", self._container.id, "-eo", "pid,args")
        return result.returncode == 0 and proof in result.stdout

    def _has_ended(self) -> bool:
        """Whether the container has ended, was restarted or is paused.

        The engine may register the end of a command before the end of its container. A running state is reliable once
        another command has succeeded in the container, or after ``_SURE_SEC`` seconds.
        """
        give_up_at = time.monotonic() + _SURE_SEC
        sure = False
        while True:
            state = self._container.state()
            if not state.running or state.paused or state.started_at != self._started_at:
                return True
            if sure or time.monotonic() > give_up_at:
                return False
            sure = self._docker("exec", self._container.id, "/bin/sh", "-c", ":").returncode == 0
            time.sleep(0 if sure else POLL)

    def _docker(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self._container.client.argv(_EXEC_SEC), *words]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)

    def _file(self, words: list[str], data: bytes, *, cap: int) -> bytes:
        command = [*self._container.client.argv(_EXEC_SEC), "exec", "--interactive", self._container.id, *words]
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        if done.returncode == 0:
            return done.stdout[:cap]
        number = {44: errno.ENOENT, 45: errno.EISDIR}.get(done.returncode)
        if number is None:
            if self._has_ended():
                raise ChannelLostError("the container has ended", ended=True)
            message = done.stderr.decode("utf-8", "backslashreplace").strip()
            number = errno.EACCES if "denied" in message or "Read-only" in message else errno.EIO
        raise FileRefusedError(number, os.strerror(number))

    def _call(
        self, words: list[str], data: bytes, deadline: Deadline, proof: bytes
    ) -> tuple[_Ended | None, Capture, Capture]:
        command = [*self._container.client.argv(0), "exec", "--interactive", self._container.id, *words]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._running = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = Capture(OUTPUT_CAP), Capture(OUTPUT_CAP)
        ended: _Ended | None = None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(data)
                process.stdin.close()
            streams = {process.stdout.fileno(): out, process.stderr.fileno(): err}
            ended_at = None
            while streams and not deadline.expired and (ended_at is None or time.monotonic() < ended_at + END_GRACE):
                for descriptor in ready(list(streams), POLL):
                    part = os.read(descriptor, 1 << 16)
                    if not part:
                        del streams[descriptor]
                        continue
                    streams[descriptor].add(part)
                if ended_at is None and (ended := _parse_proof(err, proof)) is not None:
                    ended_at = time.monotonic()
        finally:
            _kill(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()
        return ended, out, err


@attrs.frozen
class _Ended:
    """The parsed last line of the wrapper."""

    code: int
    limits_hit: tuple[str, ...]


def main_command(command: str, proof: str) -> list[str]:
    """Shell arguments for PID 1, which runs the command and then prints a last line as proof of its end."""
    script = '/bin/sh -c "$1"; code=$?; printf "\\n%s %s\\n" "$2" "$code" >&2; exit "$code"'
    return ["-c", script, "sh", command, proof]


def run_main(container: Container, proof: str, deadline: Deadline) -> ExecResult:
    """Start a container with :func:`main_command` as PID 1 and wait for its exit.

    The engine reports the exit code. Raises SandboxError if the last line is missing and the container did not run out
    of memory: other processes cannot kill PID 1, so the cause is external.
    """
    process = container.start_attached()
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    started = time.monotonic()
    streams = {process.stdout.fileno(): Capture(OUTPUT_CAP), process.stderr.fileno(): Capture(OUTPUT_CAP)}
    out, err = streams.values()
    state = None
    try:
        process.stdin.close()
        while streams and not deadline.expired:
            for descriptor in ready(list(streams), POLL):
                part = os.read(descriptor, 1 << 16)
                if part:
                    streams[descriptor].add(part)
                else:
                    del streams[descriptor]
        if deadline.expired:
            container.kill()
        else:
            state = container.wait(deadline)
    finally:
        _kill(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()
    if state is not None and _parse_proof(err, proof.encode()) is None and not state.oom_killed:
        message = bytes(err.tail or err.head)[-300:].decode("utf-8", "backslashreplace")
        raise SandboxError(f"the container was stopped externally or never ran: {state.error or message}")
    return ExecResult(
        exit_code=state.exit_code if state else None,
        stdout=_output(out),
        stderr=_output(err),
        timed_out=state is None,
        duration_sec=time.monotonic() - started,
        limits_hit=("oom",) if state and state.oom_killed else (),
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _parse_proof(err: Capture, proof: bytes) -> _Ended | None:
    """Parse and remove the last line of stderr if it is the proof of the command's end."""
    buffer = err.tail if err.tail else err.head
    before, separator, after = bytes(buffer).rpartition(b"\n" + proof + b" ")
    numbers = after.split()
    if not separator or not after.endswith(b"\n") or not numbers or not all(number.isdigit() for number in numbers):
        return None
    buffer[:] = before
    code, *counts = map(int, numbers)
    half = len(counts) // 2
    increased = [late > early for early, late in zip(counts[:half], counts[half:], strict=True)]
    names = ("oom", "pids") if half == len(("oom", "pids")) else ()
    return _Ended(code, tuple(name for name, hit in zip(names, increased, strict=False) if hit))


def _output(capture: Capture) -> Output:
    capture.trim()
    if not capture.omitted:
        return Output(head=bytes(capture.head + capture.tail))
    return Output(head=bytes(capture.head), tail=bytes(capture.tail), omitted=capture.omitted)
