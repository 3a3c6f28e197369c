"""Process trees: find them, stop them, kill them, bury them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

SWEEP_GRACE = 10.0
"""Seconds until everything in a container must be dead."""


def reap() -> bool:
    """Collect the dead; whether nobody is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def sweep() -> None:
    """Kill everything in the container but this process; return when it is gone."""
    give_up_at = time.monotonic() + SWEEP_GRACE
    while time.monotonic() < give_up_at:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        if reap():
            return
        time.sleep(0.002)
    raise RuntimeError("what runs in the container cannot be killed")


def kill_descendants() -> None:
    """Stop all descendants, again until no new one shows up, since what is stopped cannot fork; then kill them."""
    while True:
        stopped: set[int] = set()
        while True:
            found = descendants() - stopped
            if not found:
                break
            for pid in found:
                send(pid, signal.SIGSTOP)
            stopped |= found
        for pid in stopped:
            send(pid, signal.SIGKILL)
        if reap():
            return
        time.sleep(0.001)


def descendants() -> Any:
    """Process ids of all descendants of this process that are not zombies, and their groups as negative numbers.

    A group is hit as a whole: a process that forks and ends all the time is caught although its id is stale.
    """
    children: dict[int, list[int]] = {}
    groups: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - many entries, and speed counts
        if not entry.isdigit():
            continue
        try:
            state, parent, group = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[:3]
        except OSError:
            continue  # it has gone meanwhile
        children.setdefault(int(parent), []).append(int(entry))
        if state not in b"ZX":
            groups[int(entry)] = int(group)
    found = set()
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        pending.extend(below)
        for pid in below:
            if pid in groups:
                found |= {pid, -groups[pid]}
    return found - {-os.getpgrp(), 0, -1}


def send(pid: int, number: int) -> None:
    """Signal a process, or a group, that may have gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
