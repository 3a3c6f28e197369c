"""Repositories with a history, for tests of mining.

``calculator`` is a project whose tests are shell scripts, so that a task is mined in a second.
"""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

TEST_COMMAND = "sh tests/all.sh"
"""Runs the tests of the calculator."""
CALCULATOR = {
    "lib/add.sh": "echo $(($1 - $2))\n",
    "lib/double.sh": "echo $(($1 + 2))\n",
    "lib/negate.sh": "echo $1\n",
    "lib/square.sh": "echo $(($1 + $1))\n",
    "tests/all.sh": 'for test in tests/check_*.sh; do sh "$test" || exit 1; done\n',
    "tests/check_nothing.sh": "true\n",
}
FIXES = {
    "add": ("Sums of two numbers are wrong", "echo $(($1 + $2))\n", "[ $(sh lib/add.sh 1 2) = 3 ]\n"),
    "double": ("Twice a number is too small", "echo $(($1 * 2))\n", "[ $(sh lib/double.sh 4) = 8 ]\n"),
    "negate": ("Signs of numbers never change", "echo $((- $1))\n", "[ $(sh lib/negate.sh 4) = -4 ]\n"),
    "square": ("Powers of large numbers are wrong", "echo $(($1 * $1))\n", "[ $(sh lib/square.sh 4) = 16 ]\n"),
}


class History:
    """A repository made for a test. Each commit has a date of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def commit(self, message: str, files: Mapping[str, str | None], *, author: str = "Ada <ada@example.com>") -> str:
        """Write files (``None`` deletes one), commit them, and return the commit's id."""
        for name, text in files.items():
            target = self.path / name
            if text is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text))
        self._number += 1
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--author", author, "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def fix(self, name: str) -> str:
        """Fix a program of the calculator, add its test, and return the commit's id."""
        message, program, test = FIXES[name]
        return self.commit(message, {f"lib/{name}.sh": program, f"tests/check_{name}.sh": test})

    def git(self, *arguments: str) -> str:
        """The output of a git command."""
        date = f"2024-03-{max(1, self._number):02}T12:00:00Z"
        who = {f"GIT_{role}_{what}": "ada" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {
            **os.environ,
            **who,
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        done = subprocess.run(["git", *arguments], cwd=self.path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


def calculator(path: Path) -> History:
    """The first version of a calculator, without fixes."""
    made = History(path)
    made.commit("The first version of the calculator", CALCULATOR)
    return made
