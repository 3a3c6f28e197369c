"""A child process of the coordinator that is a client of Dask: ``python -m agentbench_dask.launcher``.

It reads one line of JSON with its configuration, then lines such as ``{"places": 5}``, and ends when its standard
input is closed. It writes lines of JSON: ``connected``, counts of tickets, ``note``, and ``error`` before it ends.

A Dask cluster can run code in its clients. Therefore, this process has no secrets in its environment, refuses to
unpickle objects (:mod:`.guard`), and has limited memory.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentbench_core import AgentBenchError, InputError, UnavailableError

from . import guard, ticket
from .board import Board, BoardError
from .knock import knock
from .lines import Output, messages
from .versions import PACKAGE, UPDATE, check_versions, packages_of, unable

if TYPE_CHECKING:
    from distributed import Client, Future

MEMORY = 4 << 30
"""Limit of the address space, in bytes. Each thread reserves a lot of it, but uses little."""
TICK = 1.0
"""Seconds between checks of the cluster's workers."""
SOON = 5.0
"""Seconds for newly joined Dask workers to report their versions."""
MESSAGES = 1000
"""Maximum number of messages to read before other work is done."""
LOST = "the connection to the Dask scheduler was lost"

_Message = tuple[str, Any]


class Launcher:
    """Keeps tickets submitted. Everything except reading input happens in one thread."""

    def __init__(self, config: Mapping[str, Any], output: Output, inbox: queue.SimpleQueue[_Message]) -> None:
        self._config = config
        self._output = output
        self._inbox = inbox
        self._group = str(config["group"])
        self._futures: dict[str, Future] = {}
        self._client: Client  # from connect() on
        self._order: Mapping[str, Any] = config["ticket"]
        self._judged: set[str] = set()  # workers whose versions are known
        self._unable: set[str] = set()  # workers without this package
        self._noted: set[str] = set()
        group = f"agentbench-{self._group}-"
        self._board = Board(
            group, f"{group}{secrets.token_hex(4)}-", submit=self._submit, cancel=self._cancel, note=self._note
        )
        self._said: Mapping[str, int] = {}

    def connect(self) -> None:
        """Connect, check versions, and find the processes of an earlier launcher. Raises UnavailableError."""
        from distributed import Client
        from distributed.security import Security

        config, address = self._config, str(self._config["scheduler"])
        timeout = float(config["timeout_sec"])
        encrypted = address.startswith("tls://")
        files = {"tls_ca_file": config["ca"], "tls_client_cert": config["cert"], "tls_client_key": config["key"]}
        security = Security(require_encryption=encrypted, **(files if encrypted else {}))
        if not config["local"]:
            knock(address, ca=config["ca"], cert=config["cert"], key=config["key"], timeout_sec=timeout)
        try:
            self._client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, ImportError, TypeError, ValueError) as error:
            raise UnavailableError(f"cannot connect to the Dask scheduler {address}: {error}", remedy=UPDATE) from None
        self._check_connection()
        for name in ("print", "warn"):  # messages that workers send to all clients
            self._client.unsubscribe_topic(name)
        versions = self._judge(timeout)
        topic = ticket.topic(self._group)
        self._client.subscribe_topic(topic, lambda event: self._inbox.put(("event", event[1])))
        self._board.want(int(self._config["places"]))
        for event in self._client.get_events(topic):
            self._board.event(event[1], old=True)
        self._look()
        threads = self._threads()
        scheduler = str(self._client.scheduler_info().get("id", ""))
        facts = {"scheduler": scheduler, "address": address, "workers": len(threads), "threads": sum(threads.values())}
        self._output.say({"connected": {**facts, "versions": versions}})

    def run(self) -> None:
        """Run until the input is closed. Raises UnavailableError."""
        look_at = time.monotonic() + TICK
        while True:
            self._board.fill()
            self._report()
            for what, value in self._next(look_at - time.monotonic()):
                if what == "closed":
                    return
                self._handle(what, value)
            if time.monotonic() >= look_at:
                self._check_connection()
                self._look()
                look_at = time.monotonic() + TICK

    def stop(self) -> None:
        """Cancel all tickets, and end all processes, including those of earlier launchers."""
        grace = float(self._config["grace_sec"])
        until = time.monotonic() + grace + 2.0
        self._board.stop()
        able = [worker for worker in self._threads() if worker not in self._unable]
        _bounded(lambda: self._client.run(ticket.end, self._group, grace, workers=able, on_error="ignore"), grace)
        while self._board.busy and time.monotonic() < until and self._client.status == "running":
            for what, value in self._next(0.2):
                if what == "event":
                    self._board.event(value)
            self._look()
            self._report()

    def _check_connection(self) -> None:
        """Raise UnavailableError if Dask will report nothing more."""
        if self._client.status != "running":
            raise UnavailableError(LOST)
        # After an unreadable message, Dask's client still sends, and its status stays "running".
        reader = self._client._handle_report_task
        if reader.done():
            raise UnavailableError(f"{LOST}: it sent a message that was rejected")

    def _handle(self, what: str, value: Any) -> None:
        if what == "places":
            self._board.want(int(value))
        elif what == "event":
            self._board.event(value)
        elif what == "done":
            name, status = value
            future = self._futures.pop(name, None)
            if future is None:
                return
            future.release()
            if status in ("cancelled", "lost"):
                raise UnavailableError(LOST)
            self._board.done(name, status)

    def _next(self, seconds: float) -> Iterator[_Message]:
        """The messages that have arrived; waits for the first one."""
        with contextlib.suppress(queue.Empty):
            yield self._inbox.get(timeout=max(0.0, seconds))
            for _ in range(MESSAGES):
                yield self._inbox.get_nowait()

    def _report(self) -> None:
        counts = self._board.counts()
        if counts != self._said:
            self._said = counts
            self._output.say(counts)

    def _note(self, text: str) -> None:
        self._output.say({"note": text})

    def _submit(self, name: str, workers: Sequence[str]) -> None:
        where = {"workers": list(workers), "allow_other_workers": not self._unable} if workers else {}
        function, *arguments = ticket.task(self._order, name)
        future = self._client.submit(function, *arguments, key=name, pure=False, retries=0, **where)
        self._futures[name] = future
        future.add_done_callback(lambda done: self._inbox.put(("done", (name, done.status))))

    def _cancel(self, names: Sequence[str]) -> None:
        futures = [self._futures.pop(name) for name in names if name in self._futures]
        if futures:
            self._client.cancel(futures)

    def _threads(self) -> dict[str, int]:
        return {str(address): int(count) for address, count in self._client.nthreads().items()}

    def _look(self) -> None:
        """Pass the workers that can run tickets to the board."""
        threads = self._threads()
        if not set(threads) <= self._judged:
            self._judge(SOON)
        self._unable &= set(threads)
        able = {worker: count for worker, count in threads.items() if worker not in self._unable}
        self._board.look(able, some_unable=bool(self._unable))

    def _judge(self, timeout: float) -> Mapping[str, str]:
        """Ask all workers for their versions. Raises UnavailableError if tickets cannot run on the cluster."""
        found = _bounded(lambda: self._client.get_versions(packages=[PACKAGE]), timeout)
        if found is None:
            self._note(f"the Dask workers did not report their versions within {timeout:g} s")
            self._judged |= set(self._threads())
            return {}
        self._judged |= set(found["workers"])
        self._unable = set(unable(found))
        for note in check_versions(found):
            if note not in self._noted:
                self._noted.add(note)
                self._note(note)
        return packages_of(found["scheduler"])


def _bounded(function: Callable[[], Any], seconds: float) -> Any:
    """The result of a call to Dask, or None after that time, since a worker that hangs never answers."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def call() -> None:
        with contextlib.suppress(Exception):
            results.put(function())

    threading.Thread(target=call, daemon=True).start()
    with contextlib.suppress(queue.Empty):
        return results.get(timeout=seconds)
    return None


def _listen(inbox: queue.SimpleQueue[_Message], lines: Iterator[dict[str, Any]], ending: threading.Event) -> None:
    """Read the coordinator's messages until it closes the pipe, then announce the end."""
    with contextlib.suppress(ValueError):
        for message in lines:
            if isinstance(places := message.get("places"), int):
                inbox.put(("places", places))
    inbox.put(("closed", None))
    ending.set()


def main() -> None:
    """Run until the standard input is closed."""
    output = Output()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lines = messages()
    config = next(lines, None)
    if config is None:
        return
    inbox: queue.SimpleQueue[_Message] = queue.SimpleQueue()
    ending, connected = threading.Event(), threading.Event()
    threading.Thread(target=_listen, args=(inbox, lines, ending), daemon=True).start()
    late = float(config["grace_sec"]) + 10.0
    threading.Thread(target=_exit_late, args=(ending, connected, late), daemon=True).start()
    try:
        guard.install()
        launcher = Launcher(config, output, inbox)
        launcher.connect()
        connected.set()
        launcher.run()
        launcher.stop()
    except AgentBenchError as error:
        unusable = isinstance(error, InputError)
        output.say({"error": error.message, "remedy": error.remedy, "input": unusable})
    except BoardError as error:
        output.say({"error": f"{error}", "remedy": f"{UPDATE} See also the logs of the Dask workers.", "final": True})
    except OSError as error:  # includes Dask's error for a broken connection
        output.say({"error": f"{LOST}: {error}", "remedy": ""})
    except (guard.GuardError, AttributeError) as error:  # the latter if a part of Dask was renamed
        output.say({"error": f"the launcher for Dask failed: {error}", "remedy": UPDATE})
    else:
        os._exit(0)  # Dask's own exit handlers would wait for the cluster
    os._exit(1)


def _exit_late(ending: threading.Event, connected: threading.Event, seconds: float) -> None:
    ending.wait()
    if connected.is_set():
        time.sleep(seconds)
    os._exit(1)


if __name__ == "__main__":
    main()
