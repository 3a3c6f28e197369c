"""A worker process: connects to a coordinator, and runs its attempts until none are left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

from agentbench_core import Deadline, InputError, Interrupted, UnavailableError, load
from agentbench_core.harness import App, Worker, WorkerSettings, running_harness, say
from agentbench_workers.addresses import parse_address
from agentbench_workers.client import Client
from agentbench_workers.tls import client_context

FOR_EVER = 1e8
"""Seconds until a deadline that is never reached."""


@attrs.frozen(kw_only=True)
class Place:
    """The settings of a worker process."""

    connect: str
    """``HOST:PORT`` of the coordinator."""
    name: str = ""
    """Shown in events and messages; empty: host name and process id."""
    places: int = 1
    """Number of concurrent attempts."""
    token: str = ""
    """The run's token, for connections without TLS."""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    sandboxes: tuple[str, ...] = ()
    """The sandboxes to offer; empty: all installed ones."""
    allow_unisolated: bool = False


def work(app: App, place: Place, stop: Deadline, note: Callable[[str], None]) -> int:
    """Run attempts until none are left, and return how many were run.

    Raises InputError for a wrong address, sandbox or certificate, and UnavailableError if the coordinator refuses this
    worker or the connection is lost.
    """
    parse_address(place.connect, "--connect ")
    for name in place.sandboxes:
        app.registry.find("sandbox", name)
    files = (place.ca, place.certificate, place.key)
    if any(files) and not all(files):
        raise InputError("TLS requires three files", remedy="Pass --ca, --certificate and --key.")
    context = client_context(*map(Path, files)) if all(files) else None
    if context is None and not place.token:
        raise InputError(
            "connecting without certificates requires the run's token, which only processes of that run have",
            remedy="Pass --ca, --certificate and --key; create these files with: agentbench executor certs",
        )
    settings = WorkerSettings(
        name=place.name or f"{socket.gethostname()}-{os.getpid()}",
        places=place.places,
        registry=app.registry,
        plugins=[plugin.source for plugin in app.plugins.plugins if plugin.status == "ok"],
        harness=running_harness(),
        sandboxes=place.sandboxes,
        allow_unisolated=place.allow_unisolated,
    )
    with Client(place.connect, place.token, context) as client:

        def call(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            try:
                yield from client.call(method, document)
            except OSError as error:
                if stop.expired:  # do not wait for the coordinator, which has probably also ended
                    raise UnavailableError(f"this worker has ended: {error}") from None
                raise

        return Worker(settings, call, note, stop).run()


@contextlib.contextmanager
def ended_by_signals(stop: Deadline) -> Iterator[None]:
    """Ctrl-C, SIGTERM or a closed terminal ends the worker; others repeat its attempts. A second signal kills it."""

    def end(number: int, frame: FrameType | None) -> None:
        if stop.expired:
            os._exit(130)
        stop.end(Interrupted("the worker was interrupted"))

    with contextlib.ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                with contextlib.suppress(ValueError):  # not in the main thread
                    stack.callback(signal.signal, number, signal.signal(number, end))
        yield


def from_stdin(app: App) -> int:
    """Run as described by one line of JSON on standard input, until the writing process closes the input or ends."""
    try:
        place = load(json.loads(sys.stdin.readline()), Place, where="standard input")
    except ValueError:
        raise InputError("standard input: expected a line of JSON; only executors use --stdin") from None
    stop = Deadline(FOR_EVER)

    def watch() -> None:
        while sys.stdin.buffer.read(1):
            pass
        stop.end(Interrupted("the process that started this worker has ended"))
        threading.Event().wait(10)
        os._exit(1)  # an attempt has not ended

    threading.Thread(target=watch, name="stdin", daemon=True).start()
    return work(app, place, stop, lambda message: say(message, err=True))
