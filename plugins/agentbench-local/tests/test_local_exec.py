"""What a command sees, and its result."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import OUTPUT_CAP, Command, Deadline, Interrupted, SandboxError, ToolError
from agentbench_local.process import Capture, Supervision
from agentbench_local.sandbox import LocalSandbox

Make = Until = Any
"""Types from conftest.py, which test modules cannot import."""
SOON = 60.0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("kill -SEGV $$", 128 + signal.SIGSEGV),
        (["no-such-program"], 127),
        (["./no/such/program"], 127),
        (["/"], 126),
        (["sh", "-c", "exit 4"], 4),
        (["sh", "a\0b"], 126),
    ],
)
def test_exit_codes(sandbox: LocalSandbox, command: str | list[str], code: int) -> None:
    """They come from the kernel; 128 + n is signal n."""
    result = sandbox.exec(command, deadline=Deadline(SOON))
    assert (code, False) == (result.exit_code, result.timed_out)
    assert result.ok == (code == 0)


def test_streams_are_kept_apart(sandbox: LocalSandbox) -> None:
    """Each stream is captured byte for byte."""
    result = sandbox.exec(r"printf 'a\377\000b'; printf 'error' >&2", deadline=Deadline(SOON))
    assert (result.stdout.data, result.stderr.data) == (b"a\xff\x00b", b"error")


def test_standard_input_is_empty(sandbox: LocalSandbox) -> None:
    """A command that reads gets the end of file instead of waiting."""
    result = sandbox.exec("cat; read line || echo empty", deadline=Deadline(SOON))
    assert result.stdout.text == "empty\n"


def test_command_continues_after_closing_its_output(sandbox: LocalSandbox) -> None:
    """The command ends with its process, not with its output."""
    result = sandbox.exec("exec >&- 2>&-; sleep 0.1; exit 9", deadline=Deadline(SOON))
    assert result.exit_code == 9


def test_signal_dispositions_are_the_default(sandbox: LocalSandbox) -> None:
    """Python ignores SIGPIPE; the task's shell pipelines must not inherit that."""
    result = sandbox.exec("yes | head -n 1; grep -E 'Sig(Ign|Blk)' /proc/self/status", deadline=Deadline(SOON))
    first, *masks = result.stdout.text.splitlines()
    assert first == "y"
    # Signals 32 and 33 belong to the C library: programs cannot set them, and our parent process may ignore them.
    own = 1 << 31 | 1 << 32
    assert [int(mask.split("\t")[1], 16) & ~own for mask in masks] == [0, 0]


def test_no_descriptor_is_inherited(sandbox: LocalSandbox) -> None:
    """Neither the harness's files nor the sockets of supervision."""
    result = sandbox.exec(
        [sys.executable, "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"],
        deadline=Deadline(SOON),
    )
    assert result.stdout.text == "[0, 1, 2, 3]\n"  # 3 is the descriptor of the listing


def test_fifty_megabytes_are_capped(sandbox: LocalSandbox) -> None:
    """Head and tail are kept, and the omitted bytes are counted."""
    size = 50_000_000
    result = sandbox.exec(f"printf start; head -c {size} /dev/zero; printf end", deadline=Deadline(SOON))
    out = result.stdout
    assert result.ok
    assert (len(out.head), len(out.tail)) == (OUTPUT_CAP // 2, OUTPUT_CAP // 2)
    assert size + len("startend") == len(out.head) + len(out.tail) + out.omitted
    assert out.head.startswith(b"start\0")
    assert out.tail.endswith(b"\0end")


def test_a_flood_ends_at_the_deadline(sandbox: LocalSandbox, workspace: Path, until: Until) -> None:
    """A flood on both streams neither delays the deadline nor fills the memory."""
    before = _memory_peak_kb()
    flood = f"(yes | head -c {40 * OUTPUT_CAP}; touch {{}}; exec yes)"
    command = f"{flood.format('out')} & {flood.format('err')} >&2"
    result = sandbox.exec(command, deadline=until(workspace / "out", workspace / "err"))
    assert (result.timed_out, result.exit_code) == (True, None)
    assert result.stdout.omitted > 0
    assert result.stderr.omitted > 0
    assert result.duration_sec < SOON
    assert _memory_peak_kb() - before < 32 * 1024


def _memory_peak_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 19, 20, 21, 1000])
@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_capture_keeps_head_and_tail(length: int, chunk: int) -> None:
    """For lengths around the cap, and any chunk size."""
    data = bytes(index % 251 for index in range(length))
    capture = Capture(cap=20)
    for start in range(0, length, chunk):
        capture.add(data[start : start + chunk])
    output = capture.output()
    assert max(0, length - 20) == output.omitted
    if length <= 20:
        assert (data, b"") == (output.head, output.tail)
    else:
        assert (data[:10], data[-10:]) == (output.head, output.tail)


def test_output_until_the_deadline_is_kept(sandbox: LocalSandbox, workspace: Path, until: Until) -> None:
    """Output from before the kill is evidence."""
    result = sandbox.exec("echo so far; touch begun; sleep 600", deadline=until(workspace / "begun"))
    assert (result.timed_out, result.stdout.text) == (True, "so far\n")


def test_no_time_left(sandbox: LocalSandbox, workspace: Path) -> None:
    """The command is not started."""
    result = sandbox.exec("touch started", deadline=Deadline(0))
    assert (result.timed_out, result.exit_code) == (True, None)
    assert not (workspace / "started").exists()


def test_a_deadline_that_was_extended(sandbox: LocalSandbox) -> None:
    """A running command gets the added time."""
    deadline = Deadline(0.2)
    deadline.extend(SOON)
    assert sandbox.exec("sleep 0.4", deadline=deadline).exit_code == 0


def test_an_interrupted_deadline_raises(sandbox: LocalSandbox) -> None:
    """Only an expired deadline is a result; an interrupt is raised with its own reason."""
    deadline = Deadline(SOON)
    deadline.end(Interrupted("stop"))
    with pytest.raises(Interrupted, match="stop"):
        sandbox.exec("true", deadline=deadline)


def test_directory(sandbox: LocalSandbox, workspace: Path) -> None:
    """The workspace or a directory below it."""
    (workspace / "below").mkdir()
    assert f"{workspace}\n" == sandbox.exec("pwd", deadline=Deadline(SOON)).stdout.text
    assert f"{workspace}/below\n" == sandbox.exec("pwd", deadline=Deadline(SOON), cwd="below").stdout.text
    with pytest.raises(ToolError, match="directory not found: 'nowhere'"):
        sandbox.exec("pwd", deadline=Deadline(SOON), cwd="nowhere")
    with pytest.raises(ToolError, match="is outside"):
        sandbox.exec("pwd", deadline=Deadline(SOON), cwd="below/../..")


def test_a_lost_workspace(make: Make, sandbox: LocalSandbox, workspace: Path) -> None:
    """The agent may have removed it, so this is a tool error; before a fresh start it is a sandbox error."""
    workspace.rmdir()
    with pytest.raises(ToolError, match="workspace was removed"):
        sandbox.exec("true", deadline=Deadline(SOON))
    with pytest.raises(SandboxError, match="workspace was removed"):
        make().run_once(Command("true"), workspace, Deadline(SOON))


def test_a_long_command_and_large_variables(sandbox: LocalSandbox) -> None:
    """Up to the kernel's limit; beyond it, the command fails without a sandbox error."""
    word = "x" * 100_000
    result = sandbox.exec(f"echo {word} $V", deadline=Deadline(SOON), env={"V": word})
    assert f"{word} {word}\n" == result.stdout.text
    assert sandbox.exec("true " + "x" * 5_000_000, deadline=Deadline(SOON)).exit_code == 126


def test_descriptors_do_not_leak(sandbox: LocalSandbox) -> None:
    """Forty commands later, the harness has as many open as before."""
    sandbox.exec("true", deadline=Deadline(SOON))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(40):
        sandbox.exec("true & true", deadline=Deadline(SOON))
    sandbox.exec("sleep 0.01", deadline=Deadline(SOON))
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # noqa: PTH208


def test_killed_fork_server_is_restarted(sandbox: LocalSandbox) -> None:
    """If the process that forks supervisors is killed, the next command starts another."""
    supervision: Supervision = sandbox._supervision
    assert sandbox.exec("true", deadline=Deadline(SOON)).exit_code == 0
    assert supervision._server is not None
    supervision._server.kill()
    supervision._server.wait()
    assert sandbox.exec("true", deadline=Deadline(SOON)).exit_code == 0
