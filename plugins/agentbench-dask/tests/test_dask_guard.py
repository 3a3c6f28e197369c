"""A hostile Dask cluster runs no code in the launcher, whatever its workers and its scheduler send."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import UnavailableError

HOSTILE = '''
"""Preloaded by a Dask worker or scheduler: puts payloads in whatever it sends. They write who ran them."""
import os, itertools
import distributed.worker_state_machine as machine
from distributed.protocol.pickle import dumps
from distributed.protocol.serialize import ToPickle, to_serialize
from tornado.ioloop import PeriodicCallback

class Payload:
    def __init__(self, name):
        self.name = name
    def __reduce__(self):
        return exec, (f"import os; open({os.environ['RAN']!r}, 'a').write(f'{self.name} {{os.getpid()}}\\\\n')",)

def changed(cls, **fields):
    original = cls.to_dict
    def to_dict(self):
        return {**original(self), **fields}
    cls.to_dict = to_dict

def dask_setup(server):
    if hasattr(server, "clients"):
        def to_clients():
            for comm in server.client_comms.values():
                comm.send({"op": "event", "topic": "x", "event": ToPickle(Payload("to-pickle"))})
        callback = PeriodicCallback(to_clients, 500)
    else:
        changed(machine.TaskFinishedMsg, type=dumps(Payload("type")))
        changed(machine.TaskErredMsg, exception=to_serialize(Payload("exception")), exception_text="x")
        import agentbench_dask.ticket as ticket
        honest, count = ticket.run, itertools.count()
        def run(sealed):
            honest(sealed)
            if next(count) % 2 == 0:
                raise ValueError("an honest error, whose message is then changed")
        ticket.run = run
        def warn():
            server.log_event("warn", {"message": dumps(Payload("warn")), "category": dumps(Payload("category"))})
            server.log_event("print", {"args": ('{"note": "forged"}',), "file": 1})
        callback = PeriodicCallback(warn, 200)
    callback.start()
    server.hostile = callback
'''
UNGUARDED = """
import sys, time
from distributed import Client, wait
client = Client(sys.argv[1])
wait([client.submit(int, pure=False), client.submit(int, "x", pure=False)])
time.sleep(1.5)
"""
UNGUARDED_IDLE = """
import sys, time
from distributed import Client
client = Client(sys.argv[1])
time.sleep(1.5)
"""
PICKLES = """
import io, pickle
import cloudpickle, distributed
from distributed.protocol import deserialize, serialize
from agentbench_dask import guard

class Payload:
    def __reduce__(self):
        return print, ("ran",)

data = pickle.dumps(Payload())
made = serialize(Payload(), serializers=["pickle"])
guard.install()
for load in (pickle.loads, pickle._loads, cloudpickle.loads, distributed.protocol.pickle.loads,
             lambda data: pickle.Unpickler(io.BytesIO(data)).load()):
    try:
        load(data)
    except guard.GuardError as error:
        print(error)
try:
    deserialize(*made)
except guard.GuardError:
    print("refused an object")
print(pickle.loads(pickle.dumps({"plain": [1, "data", None, b"x"]})))
del distributed.protocol.core.merge_and_deserialize
try:
    guard.install()
except guard.GuardError as error:
    print(error)
"""


def ran(path: Path) -> dict[int, set[str]]:
    """The payloads that ran in each process."""
    found: dict[int, set[str]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        name, pid = line.split()
        found.setdefault(int(pid), set()).add(name)
    return found


def test_pickles_are_plain_data() -> None:
    """W10: Every way to load a pickle refuses classes. Without the function to replace, installing the guard fails."""
    done = subprocess.run([sys.executable, "-c", PICKLES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *["refused to unpickle builtins.print"] * 5,
        "refused an object",
        "{'plain': [1, 'data', None, b'x']}",
        "this version of distributed has no function merge_and_deserialize, which must be replaced",
    ]


@pytest.mark.release
def test_hostile_workers(cluster: Any, tickets: Any, places: Any, notes: Any, tmp_path: Path) -> None:
    """W10: Workers' types, exceptions, warnings and prints run code in an unguarded client, but not in the launcher."""
    preload = tmp_path / "hostile.py"
    preload.write_text(HOSTILE)
    file = tmp_path / "ran"
    scheduler = cluster.scheduler()
    worker = cluster.worker(scheduler, "--preload", str(preload), environment={"RAN": str(file)})
    each = tickets(scheduler, command=["{python}", "-c", "pass"])
    each.start()
    each.want(1)
    with subprocess.Popen([sys.executable, "-c", UNGUARDED, scheduler]) as unguarded:
        assert unguarded.wait(60) == 0
    until = time.monotonic() + 30
    while each.counts.finished < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert each.counts.finished >= 2
    each.close()
    where = ran(file)
    assert {"type", "exception", "warn", "category"} <= where[unguarded.pid]
    assert not {*each.pids, os.getpid()} & set(where)
    logs = cluster.logs()
    assert "an honest error" in logs  # Dask logs the arguments of tasks that fail
    assert "a-very-secret-token" not in logs
    assert not [text for text in notes.texts if "forged" in text or "restarting" in text]
    os.kill(worker, signal.SIGKILL)


@pytest.mark.release
def test_a_hostile_scheduler(cluster: Any, tickets: Any, places: Any, notes: Any, tmp_path: Path) -> None:
    """W10: Its messages break the launcher's connection and are reported, but their code never runs."""
    preload = tmp_path / "hostile.py"
    preload.write_text(HOSTILE)
    file = tmp_path / "ran"
    scheduler = cluster.scheduler("--preload", str(preload), environment={"RAN": str(file)})
    each = tickets(scheduler)
    try:
        each.start()
    except UnavailableError as error:  # the message came before the launcher had said that it is connected
        told = str(error)
    else:
        told = notes.until("restarting", "was rejected")
    assert "the connection to the Dask scheduler was lost" in told
    each.close()
    assert ran(file) == {}
    with subprocess.Popen([sys.executable, "-c", UNGUARDED_IDLE, scheduler], stderr=subprocess.DEVNULL) as unguarded:
        assert unguarded.wait(60) == 0
    assert ran(file) == {unguarded.pid: {"to-pickle"}}
