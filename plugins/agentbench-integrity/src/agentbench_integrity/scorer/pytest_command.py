"""A passing command that starts pytest and nothing else, taken apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import attrs

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON = re.compile(r"(?:[\w./-]*/)?python(?:3(?:\.\d+)?)?")
_FOR_A_SHELL = frozenset("$`*?~(){}<>|&;\n#!")
_ALONE = frozenset({"-b", "-bb", "-B", "-d", "-E", "-I", "-O", "-OO", "-P", "-q", "-s", "-S", "-u", "-v"})
_WITH_VALUE = frozenset({"-W", "-X"})


@attrs.frozen(kw_only=True)
class PytestCommand:
    """What a command that starts pytest says."""

    python: str
    """The interpreter; empty for a command that starts with ``pytest``, which has its own."""
    flags: tuple[str, ...]
    """The interpreter's, before ``-m``."""
    arguments: tuple[str, ...]
    """pytest's."""
    variables: Mapping[str, str]

    @property
    def path(self) -> tuple[str, ...]:
        """Directories that the command puts on the path of imports, besides its interpreter's."""
        named = [part for part in self.variables.get("PYTHONPATH", "").split(":") if part]
        # `python -m` puts the working directory there, `pytest` does not.
        return (*([""] if self.python else []), *named)


def parse(command: str) -> PytestCommand | None:
    """The command, or ``None`` if it is none that pytest alone answers: a shell decides, or another program."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if "\n" in command.strip() or any(_FOR_A_SHELL & set(word) for word in words):
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
    flags, rest = _flags(words)
    if rest[:2] not in (["-m", "pytest"], ["-m", "py.test"]):
        return None
    return PytestCommand(python=program, flags=tuple(flags), arguments=tuple(rest[2:]), variables=variables)


def _flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The interpreter's flags, and what comes after them."""
    rest = list(words)
    flags: list[str] = []
    while rest:
        if rest[0] in _ALONE:
            flags.append(rest.pop(0))
        elif rest[0] in _WITH_VALUE and len(rest) > 1:
            flags += [rest.pop(0), rest.pop(0)]
        elif rest[0][:2] in _WITH_VALUE and len(rest[0]) > 2:
            flags.append(rest.pop(0))
        else:
            break
    return flags, rest
