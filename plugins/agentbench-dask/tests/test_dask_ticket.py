"""A ticket alone: its process, its pauses, and the secrecy of its order."""

from __future__ import annotations

import io
import pickle
import sys
import threading
import time

import pytest

from agentbench_dask.ticket import Group, Pauses, task

WAITS = [sys.executable, "-c", "import sys; sys.exit(sys.stdin.read() != 'first\\n')"]
STAYS = [sys.executable, "-c", "import time; print(input(), flush=True); time.sleep(60)"]


def test_pauses_grow_and_are_forgotten() -> None:
    """They also grow after a process that ended early without an error."""
    pauses = Pauses()
    assert [pauses.after(code, 0.5) for code in (1, 0, 1, 1)] == [1.0, 2.0, 4.0, 8.0]
    assert [pauses.after(1, 0.5) for _ in range(4)] == [16.0, 32.0, 60.0, 60.0]
    assert pauses.after(0, 3600.0) == 0.0
    assert pauses.after(1, 3600.0) == 1.0


@pytest.mark.parametrize(("command", "grace", "expected"), [(WAITS, 30.0, 0), (STAYS, 0.2, -9)])
def test_the_end_of_a_group(command: list[str], grace: float, expected: int) -> None:
    """Processes end when their input is closed; the remaining ones are killed, and no others start."""
    group = Group()
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(group.run(command, "first")))
    thread.start()
    until = time.monotonic() + 20
    while not group.busy and time.monotonic() < until:
        time.sleep(0.01)
    group.end(grace)
    thread.join(20)
    assert codes == [expected]
    assert not group.busy
    assert group.run(STAYS, "first") == -9


def test_a_process_that_does_not_read() -> None:
    """Its exit code is reported instead of the closed pipe."""
    assert Group().run([sys.executable, "-c", "import sys; sys.exit(3)"], "x" * 65536 * 4) == 3


def opened(data: bytes) -> list[str]:
    """The modules whose names a pickle loads."""
    found = []

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            found.append(module)
            return super().find_class(module, name)

    Unpickler(io.BytesIO(data)).load()
    return found


def test_the_order_is_not_shown() -> None:
    """Dask logs the arguments of failed tasks. It can read the task even without this package."""
    made = task({"group": "g", "command": [], "first_line": "secret"}, "t-1")
    assert "secret" not in repr(made)
    assert b"secret" in pickle.dumps(made)
    assert not [event for event in opened(pickle.dumps(made)) if event.startswith("agentbench")]
