"""An executor whose workers are child processes, which passes all checks, and variants broken in one respect each."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from agentbench_core import Executor, ExpectedAttempts, RemoteWork, UnavailableError, Work
from agentbench_testing import RemoteExecutorConformance

WORKER = """
import json, os, sys, threading
from agentbench_core import Deadline
from agentbench_core.harness import App, Worker, WorkerSettings, running_harness

name, lock, app = sys.argv[1], threading.Lock(), App.from_environment(())

def call(method, document):
    with lock:
        print(json.dumps([method, document]), flush=True)
        answers = []
        while (line := sys.stdin.readline()) != "end\\n":
            if not line:
                os._exit(1)  # the other side has ended
            answers.append(json.loads(line))
    return iter(answers)

settings = WorkerSettings(
    name=name,
    places=1,
    registry=app.registry,
    plugins=[plugin.source for plugin in app.plugins.plugins if plugin.status == "ok"],
    harness=running_harness(),
)
Worker(settings, call, lambda message: None, Deadline(600)).run()
"""
"""The program of a worker: each call is a line on its standard output, answered by lines on its standard input."""


class Pipes:
    """Starts workers that are connected by pipes. It is correct; doubles override one method each."""

    lease_sec = 30.0

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.closed = False

    def preflight(self, expected: ExpectedAttempts) -> None:
        pass

    def run(self, work: Work) -> None:
        remote = work.remote(self.lease_sec)
        threads = [self.start(remote, f"w{number}") for number in range(min(work.places, work.remaining))]
        self.join(threads, work)
        if not work.finished:
            raise UnavailableError("no worker is left", remedy="Start the run again: --resume RUN")

    def start(self, remote: RemoteWork, name: str) -> threading.Thread:
        command, pipe = [sys.executable, "-c", WORKER, name], subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        self.processes.append(process)
        thread = threading.Thread(target=self.serve, args=[process, remote, name], daemon=True)
        thread.start()
        return thread

    def serve(self, process: subprocess.Popen[str], remote: RemoteWork, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):  # it has ended
            for line in process.stdout:
                method, document = json.loads(line)
                for answer in remote.call(name, method, document):
                    process.stdin.write(json.dumps(answer) + "\n")
                process.stdin.write("end\n")
                process.stdin.flush()
        process.stdout.close()
        with contextlib.suppress(OSError):
            process.stdin.close()
        if process.wait():
            self.ended(remote, name)

    def ended(self, remote: RemoteWork, name: str) -> None:
        remote.lost(name, "its process has ended")

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        for thread in threads:
            thread.join()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.closed = True


class Careless(Pipes):
    """Refuses too many places with an error of Python."""

    def preflight(self, expected: ExpectedAttempts) -> None:
        if expected.places > 64:
            raise ValueError("too many places")


class Homebound(Pipes):
    """Runs attempts in this process."""

    def run(self, work: Work) -> None:
        while (attempt := work.take()) is not None:
            attempt()


class Hasty(Pipes):
    """Does not wait for long attempts."""

    def run(self, work: Work) -> None:
        with contextlib.suppress(UnavailableError):
            super().run(work)

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        for thread in threads:
            thread.join(0.2)


class Impatient(Pipes):
    """Waits for a first worker, although there may be none."""

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        if not threads:
            LEFT.wait()
        super().join(threads, work)


class Deaf(Pipes):
    """Waits until all attempts are recorded, although a stopped run leaves some."""

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        super().join(threads, work)
        while work.remaining and not LEFT.wait(0.02):
            pass


class Silent(Pipes):
    """Does not report workers that have ended, and gives them an hour."""

    lease_sec = 3600.0

    def ended(self, remote: RemoteWork, name: str) -> None:
        pass


class CloseOnce(Pipes):
    """Can be closed only once."""

    def close(self) -> None:
        super().close()
        del self.processes


class Exclusive(Pipes):
    """Closes when nothing is running."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def run(self, work: Work) -> None:
        with self.lock:
            super().run(work)

    def close(self) -> None:
        with self.lock:
            super().close()


class Litterer(Pipes):
    """Leaves a process running."""

    def run(self, work: Work) -> None:
        PROCESSES.append(subprocess.Popen(["sleep", "60"]))
        super().run(work)


LEFT = threading.Event()
"""Set at the end of a test, so that what doubles have left ends."""
PROCESSES: list[subprocess.Popen[bytes]] = []


def end() -> None:
    """End the threads and processes that doubles have left."""
    LEFT.set()
    for process in PROCESSES:
        process.kill()
        process.wait()
    PROCESSES.clear()


DOUBLES: Mapping[str, type[Pipes]] = {
    "test_preflight_errors_have_a_remedy": Careless,
    "test_workers_run_every_attempt": Homebound,
    "test_it_waits_for_workers": Hasty,
    "test_it_returns_without_attempts": Impatient,
    "test_it_ends_after_a_stop": Deaf,
    "test_attempts_of_a_killed_worker_are_repeated": Silent,
    "test_closing_twice": CloseOnce,
    "test_closing_while_it_runs": Exclusive,
    "test_nothing_is_left": Litterer,
}


def on(make: Callable[[], Executor], seconds: float = 60.0) -> type[RemoteExecutorConformance]:
    """The checks for such an executor."""

    class Checked(RemoteExecutorConformance):
        patience = seconds

        @classmethod
        def make_executor(cls) -> Executor:
            return make()

    return Checked
