"""Docker daemons of their own for tests: engines that die, and engines that share nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

IMAGE = "agentbench/py-runner:0.1.0"
_SMALLER = (
    *("docker", "run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "tar", IMAGE, "--create"),
    *("--exclude", "usr/lib/gcc*", "--exclude", "*.a", "--exclude", "usr/lib/git-core", "--exclude", "perl*"),
    *("--directory", "/", "bin", "lib", "lib64", "usr/bin", "usr/lib", "usr/lib64", "opt/venv", "etc/ld.so.cache"),
)
"""Packs the part of the runner's image that commands need: all of it takes twenty seconds to copy."""
OURS = "label=agentbench.owner"
_NUMBERS = itertools.count(1)


@attrs.define
class Engine:
    """A dockerd for this module, with its own socket and one that we hold, as with systemd's socket activation.

    Clients of the second socket wait for the next daemon while it is dead.
    """

    place: Path
    bridge: str
    listening: socket.socket
    process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.place}/own.sock"

    @property
    def activated(self) -> str:
        return f"unix://{self.place}/given.sock"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        hand_over = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3);"
            "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); os.execvp('dockerd', sys.argv[2:])"
        )
        options = [
            *("--data-root", f"{self.place}/data", "--exec-root", f"{self.place}/exec"),
            *("--pidfile", f"{self.place}/pid", "-H", self.host, "-H", "fd://"),
            *("--bridge", self.bridge, "--iptables=false", "--ip-masq=false"),
        ]
        number = self.listening.fileno()
        with (self.place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", hand_over, str(number), "dockerd", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(number,),
                start_new_session=True,
            )
        wait_until(lambda: self.docker("version").returncode == 0 or self.process_ended())

    def process_ended(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.place / "log").read_text()[-3000:]
        return False

    def end(self, number: signal.Signals) -> None:
        """Signal it, and wait for its end and for that of its containerd, which the next one would take for its own."""
        assert self.process is not None
        note = self.place / "exec/containerd/containerd.pid"
        its_own = int(note.read_text())
        self.process.send_signal(number)
        self.process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.kill(its_own, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{its_own}/exe").exists())
        note.unlink(missing_ok=True)  # without an init process, the zombie would count as running

    def docker(self, *arguments: str, stdin: Any = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", *arguments],
            env={"PATH": os.environ["PATH"], "DOCKER_HOST": self.host, "HOME": str(self.place)},
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def add_image(self) -> None:
        """Give it the image that tasks run in, reduced to what commands need."""
        with subprocess.Popen(_SMALLER, stdout=subprocess.PIPE) as packing:
            path = "PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin"
            loaded = self.docker("import", "--change", f"ENV {path}", "-", IMAGE, stdin=packing.stdout)
        assert loaded.returncode == 0, loaded.stderr

    def has(self) -> list[str]:
        """List our containers and networks."""
        containers = self.docker("ps", "-aq", "--filter", OURS).stdout.split()
        return containers + self.docker("network", "ls", "-q", "--filter", OURS).stdout.split()


@contextlib.contextmanager
def private_engine(place: Path) -> Iterator[Engine]:
    """Start a daemon in an empty directory, whose path is short; it has no images."""
    number = next(_NUMBERS)
    bridge = f"ab{os.getpid() % 10**8:08d}{number}"
    with contextlib.ExitStack() as stack:
        subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
        stack.callback(subprocess.run, ["ip", "link", "delete", bridge], check=True)
        subprocess.run(["ip", "addr", "add", f"10.213.{76 + number}.1/24", "dev", bridge], check=True)
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(place / "given.sock"))
        listening.listen(64)
        engine = Engine(place, bridge, listening)
        stack.callback(remove_what_is_mounted, place)
        engine.start()
        stack.callback(lambda: engine.end(signal.SIGTERM))
        yield engine


def remove_what_is_mounted(place: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in sorted((each for each in mounted if each.startswith(str(place))), reverse=True):
        subprocess.run(["umount", "-l", path], check=True)
    shutil.rmtree(place)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)
