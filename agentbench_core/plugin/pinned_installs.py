"""Recognizes setup commands that only install pinned packages.

Such commands do not depend on the workspace, so sandboxes may run them once for many tasks. The check is strict: a
command that it does not recognize ends the search.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = rf"\[{_NAME}(?:,{_NAME})*\]"
_VERSION = (
    r"(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*"  # epoch and release
    r"(?:[._-]?(?:a|b|c|rc|alpha|beta|pre|preview)[._-]?[0-9]*)?"
    r"(?:-[0-9]+|[._-]?(?:post|rev|r)[._-]?[0-9]*)?"
    r"(?:[._-]?dev[._-]?[0-9]*)?"
    r"(?:\+[a-z0-9]+(?:[._-][a-z0-9]+)*)?"  # local version
)
_PIN = re.compile(rf"{_NAME}(?:{_EXTRAS})?=={_VERSION}", re.IGNORECASE | re.ASCII)
_ARCHIVE = re.compile(r"\.(?:zip|whl|tar|tgz|tbz|txz|tlz|gz|bz2|xz|lz|lzma)$", re.IGNORECASE)
"""A pin with such a local version is the name of a file if the file exists: pip looks for it in the workspace."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ALLOWED = re.compile(r"[A-Za-z0-9 '\"\[\],_.+!=:-]+", re.ASCII)
_ALLOWED_OUTSIDE_QUOTES = re.compile(r"[A-Za-z0-9 ,_.+!=:-]*", re.ASCII)
"""Excludes everything that a shell would interpret, including the pattern in ``name[extra]==1.0``."""
_ASSIGNMENT = re.compile(
    r"(?:PIP_(?:DISABLE_PIP_VERSION_CHECK|NO_CACHE_DIR|NO_COLOR|NO_INPUT|QUIET)|PYTHONDONTWRITEBYTECODE)=[A-Za-z0-9]*"
)
_PROGRAMS = (["python", "-m", "pip", "install"], ["pip", "install"])
_NO_DEPS = "--no-deps"
_OPTIONS = frozenset(
    {
        *("-q", "-qq", "--quiet", "--no-color", "--no-input", "--progress-bar=off", "--no-warn-script-location"),
        *("--no-cache-dir", "--disable-pip-version-check", "--root-user-action=ignore"),
        *("--no-build-isolation", "--only-binary=:all:", "--prefer-binary", "--no-compile"),
    }
)


def pinned_installs(commands: Sequence[str]) -> int:
    """The number of leading setup commands that only install pinned packages, and do not depend on the workspace.

    These are ``python -m pip install --no-deps NAME==VERSION ...``, also with ``pip install``, extras in quotes and
    options that do not name files or indexes. Anything else, such as a path, a URL, a requirement without an exact
    version, or shell syntax, ends the count.
    """
    return sum(1 for _ in itertools.takewhile(_is_pinned_install, commands))


def _is_pinned_install(command: str) -> bool:
    if not _ALLOWED.fullmatch(command) or not _ALLOWED_OUTSIDE_QUOTES.fullmatch(_QUOTED.sub("", command)):
        return False
    words = list(itertools.dropwhile(_ASSIGNMENT.fullmatch, shlex.split(command)))
    program = next((program for program in _PROGRAMS if words[: len(program)] == program), None)
    if program is None:
        return False
    arguments = words[len(program) :]
    pins = [word for word in arguments if word not in _OPTIONS and word != _NO_DEPS]
    return _NO_DEPS in arguments and bool(pins) and all(map(_is_pin, pins))


def _is_pin(word: str) -> bool:
    return bool(_PIN.fullmatch(word)) and not _ARCHIVE.search(word)
