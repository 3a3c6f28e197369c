"""Parse a passing command that runs pytest and nothing else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import attrs

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON = re.compile(r"(?:[\w./-]*/)?python(?:3(?:\.\d+)?)?")
_SHELL_CHARACTERS = frozenset("$`*?~(){}<>|&;\n#!")
_FLAGS = frozenset({"-b", "-bb", "-B", "-d", "-E", "-I", "-O", "-OO", "-P", "-q", "-s", "-S", "-u", "-v"})
_FLAGS_WITH_VALUE = frozenset({"-W", "-X"})


@attrs.frozen(kw_only=True)
class PytestCommand:
    """A parsed pytest command."""

    python: str
    """The interpreter; empty if the command starts with ``pytest``, which selects its own interpreter."""
    flags: tuple[str, ...]
    """Interpreter flags, before ``-m``."""
    arguments: tuple[str, ...]
    """Arguments of pytest."""
    variables: Mapping[str, str]
    """Environment variables set by the command."""

    @property
    def path(self) -> tuple[str, ...]:
        """Directories that the command adds to the import path."""
        named = [part for part in self.variables.get("PYTHONPATH", "").split(":") if part]
        # `python -m` adds the working directory, `pytest` does not.
        return (*([""] if self.python else []), *named)


def parse(command: str) -> PytestCommand | None:
    """Parse a command. ``None`` if it needs a shell or runs anything other than pytest."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if "\n" in command.strip() or any(_SHELL_CHARACTERS & set(word) for word in words):
        return None
    variables: dict[str, str] = {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    if not words:
        return None
    program = words.pop(0)
    if program in ("pytest", "py.test"):
        return PytestCommand(python="", flags=(), arguments=tuple(words), variables=variables)
    if not _PYTHON.fullmatch(program):
        return None
    flags, rest = _split_flags(words)
    if rest[:2] not in (["-m", "pytest"], ["-m", "py.test"]):
        return None
    return PytestCommand(python=program, flags=tuple(flags), arguments=tuple(rest[2:]), variables=variables)


def _split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The interpreter flags and the remaining words."""
    rest = list(words)
    flags: list[str] = []
    while rest:
        if rest[0] in _FLAGS:
            flags.append(rest.pop(0))
        elif rest[0] in _FLAGS_WITH_VALUE and len(rest) > 1:
            flags += [rest.pop(0), rest.pop(0)]
        elif rest[0][:2] in _FLAGS_WITH_VALUE and len(rest[0]) > 2:
            flags.append(rest.pop(0))
        else:
            break
    return flags, rest
