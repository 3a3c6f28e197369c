"""An executor whose workers are threads of this process. Calls cross as JSON text, and can be disturbed by a test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from agentbench_core import Deadline, ExpectedAttempts, RemoteWork, Work, option
from agentbench_core.harness import App, Worker, WorkerSettings, running_harness

Call = Callable[[str, Mapping[str, Any]], Iterator[Mapping[str, Any]]]

DISTURB: list[Callable[[str, Call], Call]] = []
"""Replaces the calls of a worker, given its name; set by tests."""

SETTINGS: list[Callable[[WorkerSettings], WorkerSettings]] = []
"""Replaces the settings of a worker; set by tests."""


@attrs.frozen
class MemoryOptions:
    """How many workers there are."""

    workers: int = option(2, help="number of workers")
    places: int = option(1, help="places of each worker")
    lease_sec: float = option(30.0, help="seconds after which a silent worker is lost")


class MemoryExecutor:
    """Implements ``Executor``."""

    def __init__(self, options: MemoryOptions) -> None:
        self._options = options

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Nothing to check."""

    def run(self, work: Work) -> None:
        """Run the workers until they end."""
        app = App(frozenset())
        assert app.plugins.plugins, "loaded before the workers start: loading captures the process's standard error"
        remote = work.remote(self._options.lease_sec)
        threads = [
            threading.Thread(target=self._work, args=(app, remote, work, f"w{number}"), name=f"w{number}")
            for number in range(1, self._options.workers + 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Nothing to release."""

    def _work(self, app: App, remote: RemoteWork, work: Work, name: str) -> None:
        def plain(method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            for part in remote.call(name, method, json.loads(json.dumps(document))):
                yield json.loads(json.dumps(part))

        call: Call = plain
        for disturb in DISTURB:
            call = disturb(name, call)
        settings = WorkerSettings(
            name=name,
            places=self._options.places,
            registry=app.registry,
            plugins=[plugin.source for plugin in app.plugins.plugins if plugin.status == "ok"],
            harness=running_harness(),
            allow_unisolated=True,
        )
        for change in SETTINGS:
            settings = change(settings)
        try:
            Worker(settings, call, lambda message: work.note(f"{name}: {message}"), Deadline(600)).run()
        except Exception as error:  # noqa: BLE001 - shown to the test as a note
            work.note(f"{name} ended: {type(error).__name__}: {error}")
