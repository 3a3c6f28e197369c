"""Parse the passing command of a task: the tests that it runs, and how to make it run other files."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence

_PYTEST = re.compile(r"(?:.*/)?(?:pytest|py\.test)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_SHELL_CHARACTERS = frozenset("$`*?~(){}<>|&;\n#!")


def _split(command: str) -> tuple[list[str], list[str]] | None:
    """The words up to ``pytest``, and its arguments; ``None`` if the command does more than run pytest."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    program = next((index for index, word in enumerate(words) if _PYTEST.fullmatch(word)), None)
    if program is None or "\n" in command.strip() or any(_SHELL_CHARACTERS & set(word) for word in words):
        return None
    return words[: program + 1], words[program + 1 :]


def runs_pytest(command: str) -> bool:
    """Whether a command runs pytest and nothing else, judging by its words."""
    return _split(command) is not None


def with_other_files(command: str, files: Sequence[str], exists: Callable[[str], bool], seed: str, zone: str) -> str:
    """The command with other test files.

    Args:
        command: a command that runs pytest.
        files: the test files to run.
        exists: whether a path exists in the workspace; arguments that exist are replaced.
        seed: value of ``PYTHONHASHSEED``.
        zone: value of ``TZ``.
    """
    split = _split(command)
    assert split is not None, "the command must run pytest"
    program, arguments = split
    retained = [word for word in arguments if not exists(_path(word))]
    variables = [f"PYTHONHASHSEED={seed}", f"TZ={zone}", "PYTHONDONTWRITEBYTECODE=1"]
    return shlex.join(["env", *variables, *program, *retained, "-k", "agentbench_observe", *files])


def with_file(command: str, file: str, beside: str) -> str:
    """The command, with a new test file added if it lists its test files.

    Args:
        command: a command that runs pytest.
        file: the path of the new file.
        beside: the path of the test file that it belongs to.
    """
    split = _split(command)
    if split is None:
        return command
    paths = [_path(word) for word in split[1]]
    if any(file == path or file.startswith(f"{path}/") for path in paths) or beside not in paths:
        return command
    return f"{command.rstrip()} {shlex.quote(file)}"


def _path(word: str) -> str:
    path = word.partition("::")[0]
    return posixpath.normpath(path) if path and not _ASSIGNMENT.fullmatch(word) else ""
