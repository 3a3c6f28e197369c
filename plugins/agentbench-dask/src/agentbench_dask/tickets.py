"""Worker processes on a Dask cluster, as the coordinator sees them. Imports no Dask."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import AgentBenchError, InputError, Scratch, UnavailableError, escape_control, shorten

from .child import Child
from .options import DaskOptions

PURPOSE = "dask"
RESTARTS = 5
"""Maximum number of consecutive restarts of a launcher that ends early."""
HEALTHY = 600.0
"""Seconds after which a launcher counts as working, so that earlier restarts no longer count."""
LOCAL = 90.0
"""Seconds for the cluster on this machine to start."""
PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "DASK_CONFIG")
"""Environment variables for the child processes. Others are not passed, since they may contain secrets."""
PASSED_LOCAL = (
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
)
"""Further variables for a cluster on this machine, whose worker processes may start sandboxes."""


@attrs.frozen(kw_only=True)
class Counts:
    """Numbers of tickets by state."""

    queued: int = 0  #: the cluster has no free thread for them
    running: int = 0  #: their process is running
    paused: int = 0  #: their process has ended, and their node pauses
    finished: int = 0  #: since the launcher was started


class Tickets:
    """Keeps worker processes running on an existing Dask cluster, or on a new one on this machine.

    The launcher, the process that talks to Dask, is restarted if it ends early; worker processes do not depend on it.
    """

    def __init__(
        self,
        options: DaskOptions,
        command: Sequence[str],
        first_line: Mapping[str, Any],
        note: Callable[[str], None],
        *,
        failed: Callable[[AgentBenchError], None] = lambda error: None,
        environment: Mapping[str, str] | None = None,
        grace_sec: float = 10.0,
    ) -> None:
        """Start nothing yet.

        Args:
            options: describe the cluster.
            command: the command of a worker process; ``{python}`` stands for the Dask worker's interpreter.
            first_line: a line that the process reads from its standard input. It may contain secrets. The input stays
                open, and the process must end when it is closed.
            note: called with messages for the user, in any thread.
            failed: called once, in any thread, if there will be no more worker processes.
            environment: further variables for a cluster on this machine; not used for other clusters.
            grace_sec: time for worker processes to end after their standard input is closed.
        """
        self._options = options
        self._note = note
        self._failed = failed
        self._environment = dict(environment or {})
        self._grace_sec = grace_sec
        self._group = secrets.token_hex(8)
        self._order = {"group": self._group, "command": list(command), "first_line": json.dumps(dict(first_line))}
        self._scratch = Scratch(PURPOSE)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._closed = threading.Lock()
        self._places = 0
        self._local: Child | None = None
        self._launcher: Child | None = None
        self._address: Mapping[str, Any] = {}
        self._final = False
        self._follower: threading.Thread | None = None
        self.counts = Counts()
        self.cluster: Mapping[str, Any] = {}
        """Facts about the cluster: ``scheduler``, ``address``, ``workers``, ``threads``, ``versions``."""

    @property
    def pids(self) -> Sequence[int]:
        """Ids of the child processes."""
        with self._lock:
            return [child.pid for child in (self._launcher, self._local) if child is not None]

    def start(self) -> None:
        """Connect to the cluster, or start one. On an error, nothing is left running.

        Raises:
            InputError: the certificates cannot be used.
            UnavailableError: there is no scheduler, it refuses the connection, or its version is not compatible.
        """
        Scratch.sweep(PURPOSE)
        try:
            self._address = self._find_cluster()
            self._connect()
        except BaseException:
            self.close()
            raise
        self._follower = threading.Thread(target=self._follow, name="dask-launcher", daemon=True)
        self._follower.start()

    def want(self, places: int) -> None:
        """Keep up to this number of worker processes running, if the cluster has room. Running ones are not stopped."""
        with self._lock:
            self._places = places
            if self._launcher is not None:
                self._launcher.say({"places": places})

    def close(self) -> None:
        """End all worker processes and the child processes. Idempotent; may be called by any thread."""
        self._closing.set()
        with self._closed:
            with self._lock:
                launcher, local = self._launcher, self._local
            if launcher is not None:
                launcher.end(self._grace_sec + 5.0)
            if local is not None:
                local.end(5.0)
            if self._follower not in (None, threading.current_thread()):
                assert self._follower is not None
                self._follower.join()
            self._scratch.close()

    @property
    def _log(self) -> Path:
        return self._scratch.path / "log"

    def _find_cluster(self) -> Mapping[str, Any]:
        options = self._options
        if options.scheduler:
            files = {name: path and str(Path(path).absolute()) for name, path in _files(options).items()}
            return {"scheduler": options.scheduler, "local": False, **files}
        config = {"processes": options.processes, "directory": str(self._scratch.fresh("workers"))}
        environment = {**_passed(*PASSED, *PASSED_LOCAL), **self._environment}
        local = self._begin("_local", "agentbench_dask.local", config, environment)
        try:
            said = local.hear(max(LOCAL, options.timeout_sec))
        except (TimeoutError, ValueError):
            said = None
        if said is None:
            raise UnavailableError(
                f"the Dask cluster on this machine did not start{self._last_words()}",
                remedy="Start a cluster yourself (dask scheduler, dask worker), and set the `scheduler` option.",
            )
        return {"scheduler": said["address"], "local": True, **{name: said[name] for name in ("ca", "cert", "key")}}

    def _connect(self) -> None:
        """Start a launcher, and wait until it has connected."""
        with self._lock:
            places = self._places
        timeout = self._options.timeout_sec
        config = {**self._address, "timeout_sec": timeout, "grace_sec": self._grace_sec, "group": self._group}
        config |= {"ticket": self._order, "places": places}
        launcher = self._begin("_launcher", "agentbench_dask.launcher", config, _passed(*PASSED))
        until = time.monotonic() + 2 * timeout + 30.0  # importing Dask takes seconds
        try:
            while (message := launcher.hear(until - time.monotonic())) is not None:
                self._take(message)
                if "connected" in message:
                    self.want(self._places)  # the number may have changed in the meantime
                    return
        except (TimeoutError, ValueError):
            pass
        except BaseException:
            launcher.end(0.0)
            raise
        launcher.end(0.0)
        raise UnavailableError(f"the launcher for Dask did not connect{self._last_words()}")

    def _begin(self, name: str, module: str, config: Mapping[str, Any], environment: Mapping[str, str]) -> Child:
        with self._lock:
            if self._closing.is_set():
                raise UnavailableError("the Dask executor is closed")
            child = Child(module, config, environment=environment, log=self._log)
            setattr(self, name, child)
            return child

    def _follow(self) -> None:
        """In a thread: read the launcher's messages, and restart it when it ends."""
        restarts, started_at = 0, time.monotonic()
        error = self._listen()
        while not self._closing.is_set():
            if self._local is not None and not self._local.alive:
                error = UnavailableError(f"the Dask cluster on this machine ended{self._last_words()}")
                self._final = True
            restarts = 1 if time.monotonic() - started_at > HEALTHY else restarts + 1
            if self._final or restarts > RESTARTS:
                self._failed(error)
                return
            self._note(f"{error.message}; restarting the launcher for Dask ({restarts} of {RESTARTS})")
            if self._closing.wait(0.2 * 2.0**restarts):
                return
            started_at = time.monotonic()
            try:
                self._connect()
            except AgentBenchError as problem:
                error = problem
            except OSError as problem:
                error = UnavailableError(f"cannot start the launcher for Dask: {problem}")
            else:
                error = self._listen()

    def _listen(self) -> AgentBenchError:
        """Follow the launcher to its end, and return the reason."""
        launcher = self._launcher
        assert launcher is not None
        try:
            while (message := launcher.hear()) is not None:
                self._take(message)
        except AgentBenchError as error:
            return error
        except ValueError as error:
            return UnavailableError(f"the launcher for Dask ended: {error}")
        finally:
            launcher.end(0.0)
        return UnavailableError(f"the launcher for Dask ended{self._last_words()}")

    def _take(self, message: Mapping[str, Any]) -> None:
        """Act on a message from the launcher, which the cluster may have altered. Raises the error in it."""
        if "error" in message:
            self._final = message.get("final") is True
            kind = InputError if message.get("input") is True else UnavailableError
            raise kind(_clean(message["error"]), remedy=_clean(message.get("remedy", "")))
        if isinstance(cluster := message.get("connected"), dict):
            self.cluster = cluster
        elif "note" in message:
            self._note(_clean(message["note"]))
        elif "running" in message:
            known = {field.name: message.get(field.name) for field in attrs.fields(Counts)}
            self.counts = Counts(**{name: count for name, count in known.items() if isinstance(count, int)})

    def _last_words(self) -> str:
        """The last line of the child processes' log."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
                lines = log.read().decode(errors="replace").split("\n")
        except (OSError, AgentBenchError):
            return ""
        last = next((text for text in reversed(lines) if text.strip()), "")
        return f": {_clean(last)}" if last else ""


def _files(options: DaskOptions) -> Mapping[str, str]:
    return {"ca": options.ca, "cert": options.cert, "key": options.key}


def _passed(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _clean(text: object) -> str:
    return shorten(escape_control(str(text)), 600)
