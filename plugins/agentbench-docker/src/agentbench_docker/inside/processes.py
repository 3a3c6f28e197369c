"""Finds, stops, kills and reaps process trees."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

SWEEP_GRACE = 10.0
"""Seconds to wait until all killed processes of a container have exited."""


def reap() -> bool:
    """Reap exited children, and return whether no child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def sweep() -> None:
    """Kill all other processes in the container and wait until they have exited."""
    give_up_at = time.monotonic() + SWEEP_GRACE
    while time.monotonic() < give_up_at:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        if reap():
            return
        time.sleep(0.002)
    raise RuntimeError("processes in the container could not be killed")


def kill_descendants() -> None:
    """Stop descendants until no new one appears, since stopped processes cannot fork, then kill all of them."""
    while True:
        stopped: set[int] = set()
        while True:
            running = descendants() - stopped
            if not running:
                break
            for pid in running:
                send(pid, signal.SIGSTOP)
            stopped |= running
        for pid in stopped:
            send(pid, signal.SIGKILL)
        if reap():
            return
        time.sleep(0.001)


def descendants() -> Any:
    """Process ids of all descendants that are not zombies, and their process groups as negative numbers.

    Signals to a group also reach processes that fork and exit too fast to be signalled by id.
    """
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - many entries, and speed counts
        if not entry.isdigit():
            continue
        try:
            state, parent, group = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[:3]
        except OSError:
            continue  # it has exited
        children.setdefault(int(parent), []).append(int(entry))
        if state not in b"ZX":
            groups[int(entry)] = int(group)
    result = set()
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        pending.extend(below)
        for pid in below:
            if pid in groups:
                result |= {pid, -groups[pid]}
    return result - {-os.getpgrp(), 0, -1}


def send(pid: int, number: int) -> None:
    """Send a signal to a process or group, which may no longer exist."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
