"""The supervisor process, which runs one command at a time and adopts all its descendants."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
from typing import Any, NoReturn

from agentbench_docker.inside.frames import ready
from agentbench_docker.inside.guard import adopt_orphans
from agentbench_docker.inside.processes import kill_descendants

_DESCRIPTORS = 4096
"""Maximum number of descriptors that PID 1 has open."""


def supervise(control: socket.socket) -> NoReturn:
    """Run as a supervisor. Never returns to the server's loop."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for standard in (0, 1):  # only PID 1 may use the harness's channel
            os.dup2(null, standard)
        os.closerange(3, control.fileno())  # close inherited control sockets of other supervisors
        os.closerange(control.fileno() + 1, _DESCRIPTORS)
        adopt_orphans()
        wake, wake_writer = os.pipe()
        for end in (wake, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        while True:
            word, outputs, _, _ = socket.recv_fds(control, 1, 2)
            if not word:
                break
            if word == b"o":  # ignore a late `k`
                size = int.from_bytes(control.recv(4, socket.MSG_WAITALL), "big")
                run(control, wake, json.loads(control.recv(size, socket.MSG_WAITALL)), *outputs)
    finally:
        kill_descendants()
        os._exit(0)


def run(control: socket.socket, wake: int, request: Any, out: int, err: int) -> None:
    """Run one command, and return when no descendant is left or the control socket is closed."""
    control.sendall(b"begun\n")  # the command may have run from here on, even if this process is killed
    try:
        main = execute(request, out, err)
    except OSError as error:
        control.sendall(f"failed {error}\nalone\n".encode())
        return
    finally:
        os.close(out)
        os.close(err)
    if main == 0:
        control.sendall(b"exit %d\nalone\n" % (127 if request[0] is None else 126))
        return
    control.sendall(b"spawned\n")
    watch(control, wake, main)


def watch(control: socket.socket, wake: int, main: int) -> None:
    """Report the exit of the main process. Return when no descendant is left or the control socket is closed."""
    reported = False
    while True:
        message = b""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                control.sendall(message + b"alone\n")
                return
            if pid == 0:
                break
            if pid == main:
                reported = True
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                message = b"exit %d\n" % (code if code >= 0 else 128 - code)
        if message:
            control.sendall(message)
        for descriptor in ready([control.fileno(), wake], 60):
            if descriptor == wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
            elif control.recv(1) != b"k":
                return
            else:
                kill_descendants()
                control.sendall((b"" if reported else b"exit 137\n") + b"alone\n")
                return


def execute(request: Any, out: int, err: int) -> int:
    """Start the command in a new session, and return its process id, or 0 if it cannot be executed.

    Raises OSError if the system cannot create a process.
    """
    argv, environment, directory = request
    try:
        # Popen does not copy this process; a fork would cost ten times as much.
        main = subprocess.Popen(
            argv, cwd=directory, env=environment, stdin=0, stdout=out, stderr=err, start_new_session=True
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError, OSError) as error:
        if getattr(error, "errno", None) in (errno.EAGAIN, errno.ENOMEM):
            raise
        os.write(err, f"{argv[0]}: {error}\n".encode("utf-8", "backslashreplace"))
        request[0] = None if isinstance(error, FileNotFoundError) else argv
        return 0
    main.returncode = 0  # watch() waits for it
    return main.pid
