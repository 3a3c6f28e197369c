"""A real terminal for tests: a tmux session on a server of its own."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROMPT = "typed> "
"""The prompt of the shell in the terminal, on a line of its own when a command has ended."""


class Terminal:
    """A shell in a terminal of ``columns`` by ``lines``, which is read as a person sees it."""

    def __init__(self, directory: Path, environment: Mapping[str, str], *, columns: int = 100, lines: int = 30) -> None:
        """Start a shell in a directory, with exactly these environment variables."""
        self._sockets = tempfile.TemporaryDirectory(prefix="tmux-")
        self._tmux = ["tmux", "-L", "test", "-f", os.devnull]
        self._environment = {**environment, "TMUX_TMPDIR": self._sockets.name, "PS1": PROMPT}
        size = ["-x", str(columns), "-y", str(lines)]
        self._commands = 0
        self._call("new-session", "-d", *size, "-c", str(directory), "bash", "--norc", "--noprofile")
        self._call("set-option", "-g", "history-limit", "20000")
        self.wait_for(rf"^{PROMPT.strip()}\s*$")

    def close(self) -> None:
        """End the shell and everything in the terminal."""
        self._call("kill-server")
        self._sockets.cleanup()

    def type(self, text: str) -> None:
        """Type a line."""
        self._call("send-keys", "-l", text)
        self._call("send-keys", "Enter")

    def press(self, key: str) -> None:
        """Press a key, such as ``C-c``."""
        self._call("send-keys", key)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal."""
        self._call("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self, *, colours: bool = False) -> str:
        """The lines that are visible now; with their escape sequences if ``colours`` is set."""
        return self._call("capture-pane", "-p", *(["-e"] if colours else []))

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Wait until the pattern matches the visible lines. AssertionError shows them if the time is up."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.screen(), re.MULTILINE)):
            assert time.monotonic() < deadline, f"{pattern!r} was not shown within {seconds} s:\n{self.screen()}"
            time.sleep(0.1)
        return match

    def run(self, command: str, seconds: float = 60) -> str:
        """Run a command until the prompt is back, and return the visible lines. Its exit code must be 0."""
        self._commands += 1  # the screen may still show the end of the last command
        self._call("send-keys", "C-l")
        self.type(f'{command}; echo "command {self._commands}: exit code $?"')
        match = self.wait_for(rf"^command {self._commands}: exit code (\d+)$", seconds)
        assert match[1] == "0", self.screen()
        return self.screen()

    def _call(self, *arguments: str) -> str:
        command: Sequence[str] = [*self._tmux, *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout
