"""``agentbench view`` in a separate process, and clients that have its token."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import httpx
import pytest

from agentbench_testing.fixtures import make_task as make_task, run_agentbench as run_agentbench

COMMAND = [str(Path(sys.executable).parent / "agentbench"), "view"]


@attrs.frozen
class Served:
    """A server."""

    process: subprocess.Popen[str]
    address: str
    """The printed address, with the token."""

    @property
    def origin(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return f"http://{urlsplit(self.address).netloc}"

    @property
    def token(self) -> str:
        """The token."""
        return urlsplit(self.address).query.removeprefix("token=")

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """A client with the cookie that a browser gets by opening the printed address."""
        with httpx.Client(base_url=self.origin, trust_env=False, timeout=60) as client:
            assert client.get(self.address).status_code == 303
            yield client


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Served]]:
    """Start servers, and stop them at the end of the module, as with Ctrl-C."""
    with contextlib.ExitStack() as closing:

        def start(*arguments: object) -> Served:
            command = [*COMMAND, *map(str, arguments)]
            process = closing.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            closing.callback(process.send_signal, signal.SIGINT)
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            assert " at http://" in line, process.stderr.read()
            return Served(process, line.split(" at ")[1].strip())

        yield start
