"""Worker processes on real Dask clusters: started, lost, replaced and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentbench_core import UnavailableError
from agentbench_dask import tickets as tickets_module

Ends = Callable[[int, float], bool]
FAILS = ["{python}", "-c", "import sys; sys.exit(3)"]


@pytest.fixture(scope="module")
def scheduler(cluster: Any) -> str:
    """A scheduler at ``tcp://`` with two workers."""
    address: str = cluster.scheduler()
    for _ in range(2):
        cluster.worker(address)
    return address


@pytest.mark.release
def test_a_cluster_on_this_machine(tickets: Any, places: Any, ends: Ends) -> None:
    """Tickets start, their secrets are in no argument, everything listens on loopback, and close leaves no process."""
    each = tickets(processes=2)
    each.start()
    each.want(2)
    found = [places.next(), places.next()]
    assert found[0].first == {"port": places.port, "token": "a-very-secret-token"}
    assert each.cluster["workers"] == each.cluster["threads"] == 2
    assert found[0].parent != found[1].parent

    family = [
        process for pid in each.pids for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
    ]
    assert {place.pid for place in found} < {process.pid for process in family}
    assert not any("secret" in word for process in family for word in process.cmdline())
    listening = [at.laddr.ip for process in family for at in process.net_connections() if at.status == "LISTEN"]
    assert set(listening) == {"127.0.0.1"}
    launcher, _ = each.pids
    allowed = {*tickets_module.PASSED, "LC_CTYPE", "MALLOC_TRIM_THRESHOLD_"}
    assert set(psutil.Process(launcher).environ()) <= allowed

    each.close()
    each.close()
    assert all(place.ended(0.0) for place in found)
    assert all(ends(process.pid, 1.0) for process in family)


@pytest.mark.release
def test_the_process_of_a_killed_dask_worker_ends(scheduler: str, cluster: Any, tickets: Any, places: Any) -> None:
    """It ends at once, and its ticket starts on another Dask worker, here one that joins late."""
    each = tickets(scheduler)
    each.start()
    each.want(2)
    first, second = places.next(), places.next()
    assert first.parent != second.parent
    os.kill(first.parent, signal.SIGKILL)
    assert first.ended(2.0)
    late = cluster.worker(scheduler)
    third = places.next()
    assert third.parent == late
    assert not second.ended(0.0)
    each.close()
    assert second.ended(0.0)
    assert third.ended(0.0)


@pytest.mark.release
def test_a_killed_launcher_is_replaced(scheduler: str, tickets: Any, places: Any, notes: Any) -> None:
    """Its processes continue; the new launcher counts them, and ends them when it is closed."""
    each = tickets(scheduler)
    each.start()
    each.want(1)
    place = places.next()
    killed = each.pids[0]
    os.kill(killed, signal.SIGKILL)
    notes.until("restarting the launcher for Dask (1 of 5)")
    each.want(2)
    second = places.next()
    assert each.pids[0] != killed
    assert places.none_within(1.0)
    assert not place.ended(0.0)
    each.close()
    assert place.ended(0.0)
    assert second.ended(0.0)


def test_a_launcher_that_keeps_dying_is_an_error(
    scheduler: str, tickets: Any, notes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last start, the executor is notified once, with the reason."""
    monkeypatch.setattr(tickets_module, "RESTARTS", 0)
    each = tickets(scheduler)
    each.start()
    os.kill(each.pids[0], signal.SIGKILL)
    notes.until("the launcher for Dask ended")
    (error,) = notes.failed
    assert isinstance(error, UnavailableError)


@pytest.mark.release
def test_processes_that_fail(scheduler: str, tickets: Any, notes: Any) -> None:
    """They are reported once. The node pauses longer each time, while other nodes run the tickets."""
    each = tickets(scheduler, command=FAILS)
    each.start()
    each.want(1)
    text = notes.until("exit code 3")
    assert "tcp://127.0.0.1:" in text
    time.sleep(2.5)
    assert each.counts.finished <= 4
    each.close()
    failures = [text for text in notes.texts if "exit code 3" in text]
    assert len(failures) == len(set(failures))

    missing = tickets(scheduler, command=["no-such-program"])
    missing.start()
    missing.want(1)
    notes.until("exit code 127", "no-such-program")
    missing.close()


COORDINATOR = """
import json, sys
from agentbench_dask.options import DaskOptions
from agentbench_dask.tickets import Tickets
config = json.load(sys.stdin)
tickets = Tickets(DaskOptions(scheduler=config["scheduler"]), config["command"], config["first"], print)
tickets.start()
tickets.want(1)
print(json.dumps(list(tickets.pids)), flush=True)
import threading
threading.Event().wait()
"""


def test_a_killed_coordinator_leaves_no_process(
    scheduler: str, places: Any, ends: Ends, command: Sequence[str]
) -> None:
    """The launcher notices it, and ends the processes on the Dask workers."""
    config = {"scheduler": scheduler, "command": command, "first": {"port": places.port}}
    with subprocess.Popen(
        [sys.executable, "-c", COORDINATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as coordinator:
        assert coordinator.stdin is not None
        assert coordinator.stdout is not None
        coordinator.stdin.write(json.dumps(config).encode())
        coordinator.stdin.close()
        (launcher,) = json.loads(coordinator.stdout.readline())
        place = places.next()
        coordinator.kill()
    assert place.ended(10.0)
    assert ends(launcher, 10.0)


@pytest.mark.release
def test_tickets_that_fail(cluster: Any, tickets: Any, notes: Any, ends: Ends, tmp_path: Path) -> None:
    """If Dask can run no ticket, for example because all installations are broken, this is an error."""
    preload = tmp_path / "broken.py"
    preload.write_text("import sys\nsys.modules['agentbench_dask'] = None\n")
    address = cluster.scheduler()
    worker = cluster.worker(address, "--preload", str(preload))
    each = tickets(address)
    each.start()
    each.want(2)
    notes.until("the Dask cluster could not start the last 5 worker processes")
    (error,) = notes.failed
    assert "See also the logs of the Dask workers" in error.remedy
    assert not any("restarting" in text for text in notes.texts)
    assert not ends(worker, 0.0)


@pytest.mark.release
def test_the_end_of_the_cluster_on_this_machine(tickets: Any, places: Any, notes: Any) -> None:
    """Its worker processes end, and the executor is notified once."""
    each = tickets(processes=1)
    each.start()
    each.want(1)
    place = places.next()
    os.kill(each.pids[1], signal.SIGKILL)
    assert place.ended(10.0)
    notes.until("the Dask cluster on this machine ended")
    (error,) = notes.failed
    assert isinstance(error, UnavailableError)


def test_close_while_it_starts(tickets: Any) -> None:
    """The start ends with an error, and nothing is left running."""
    each = tickets("tcp://127.0.0.1:9", timeout_sec=20.0)
    errors: list[Exception] = []

    def start() -> None:
        try:
            each.start()
        except UnavailableError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    until = time.monotonic() + 10
    while not each.pids and time.monotonic() < until:
        time.sleep(0.01)
    each.close()
    thread.join(10)
    assert len(errors) == 1
    assert not [pid for pid in each.pids if psutil.pid_exists(pid)]


def test_no_scheduler(tickets: Any, tmp_path: Path) -> None:
    """One error, with a remedy, soon after the time limit; nothing is left running."""
    each = tickets("tcp://127.0.0.1:9", timeout_sec=0.5)
    with pytest.raises(UnavailableError) as caught:
        each.start()
    assert "no Dask scheduler answered at tcp://127.0.0.1:9 within 0.5 s" in caught.value.message
    assert "dask scheduler" in caught.value.remedy
    assert not [pid for pid in each.pids if psutil.pid_exists(pid)]
