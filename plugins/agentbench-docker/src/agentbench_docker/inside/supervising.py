"""The supervisor's own side: a process that runs one command at a time, and adopts all that it starts."""

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
"""More than process 1 may have open."""


def supervise(control: socket.socket) -> NoReturn:
    """Be a supervisor: never returns into the server's loop."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for standard in (0, 1):  # the harness's channel is nobody else's
            os.dup2(null, standard)
        os.closerange(3, control.fileno())  # process 1 has ends of other supervisors, which must see them closed
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
            if word == b"o":  # and not a `k` that came too late
                size = int.from_bytes(control.recv(4, socket.MSG_WAITALL), "big")
                run(control, wake, json.loads(control.recv(size, socket.MSG_WAITALL)), *outputs)
    finally:
        kill_descendants()
        os._exit(0)


def run(control: socket.socket, wake: int, order: Any, out: int, err: int) -> None:
    """Run one command; return when nobody is left of it."""
    control.sendall(b"begun\n")  # from here on it may have run, whatever becomes of us
    try:
        main = execute(order, out, err)
    except OSError as error:
        control.sendall(f"failed {error}\nalone\n".encode())
        return
    finally:
        os.close(out)
        os.close(err)
    if main == 0:
        control.sendall(b"exit %d\nalone\n" % (127 if order[0] is None else 126))
        return
    control.sendall(b"spawned\n")
    watch(control, wake, main)


def watch(control: socket.socket, wake: int, main: int) -> None:
    """Tell how the main process ended; return when nobody is left, or all were killed."""
    told = False
    while True:
        said = b""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                control.sendall(said + b"alone\n")
                return
            if pid == 0:
                break
            if pid == main:
                told = True
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                said = b"exit %d\n" % (code if code >= 0 else 128 - code)
        if said:
            control.sendall(said)
        for descriptor in ready([control.fileno(), wake], 60):
            if descriptor == wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
            elif control.recv(1) != b"k":
                return
            else:
                kill_descendants()
                control.sendall((b"" if told else b"exit 137\n") + b"alone\n")
                return


def execute(order: Any, out: int, err: int) -> int:
    """Start the command in a session of its own; its process id, or 0 when it cannot be executed.

    Raises OSError when the system would not make a process.
    """
    argv, environment, directory = order
    try:
        # Popen does not copy this process: a fork of Python costs ten times as much.
        main = subprocess.Popen(
            argv, cwd=directory, env=environment, stdin=0, stdout=out, stderr=err, start_new_session=True
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError, OSError) as error:
        if getattr(error, "errno", None) in (errno.EAGAIN, errno.ENOMEM):
            raise
        os.write(err, f"{argv[0]}: {error}\n".encode("utf-8", "backslashreplace"))
        order[0] = None if isinstance(error, FileNotFoundError) else argv
        return 0
    main.returncode = 0  # it is waited for elsewhere
    return main.pid
