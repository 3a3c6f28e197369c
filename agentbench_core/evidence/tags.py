"""Tags of a run: notes that people add, in a separate file, so that the recorded evidence does not change."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agentbench_core.errors import InputError
from agentbench_core.evidence import journal, layout

MOST_TAGS = 64
"""Maximum number of tags of a run."""
_LONGEST_VALUE = 200  # characters
_LARGEST = 1 << 16  # bytes of the file
_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")


def parse_tag(text: str) -> tuple[str, str]:
    """The key and the value of ``KEY=VALUE``. Raises InputError if it has a different form."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} is not a valid tag", remedy="Use the form KEY=VALUE, for example ticket=42.")
    if problem := _problem(key, value):
        raise InputError(f"tag {text!r}: {problem}")
    return key, value


def read_tags(directory: Path) -> Mapping[str, str]:
    """The tags of a run by key, sorted; empty if there are none.

    The file may come from an untrusted source. Raises InputError if it is not a small JSON object of valid tags in a
    regular file; links are not followed.
    """
    path = directory / layout.TAGS
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _invalid(path, error.strerror or "it cannot be read") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _invalid(path, "not a regular file")
    with os.fdopen(handle, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise _invalid(path, f"larger than {_LARGEST} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _invalid(path, str(error)) from None
    if not isinstance(value, dict):
        raise _invalid(path, "not a JSON object")
    _check(path, value)
    return dict(sorted(value.items()))


def write_tags(directory: Path, tags: Mapping[str, str]) -> None:
    """Replace the tags of a run, atomically; without tags, remove the file.

    Raises InputError if there are too many or one is invalid, and OSError if the file cannot be written.
    """
    path = directory / layout.TAGS
    _check(path, tags)
    if not tags:
        path.unlink(missing_ok=True)
        return
    # A new name: a file that is already there could be a link to a file elsewhere.
    handle, name = tempfile.mkstemp(prefix=f".{layout.TAGS}.", dir=directory)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(journal.json_line(dict(sorted(tags.items())), indent=2))
        part.chmod(0o644)
        journal.replace_durably(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def _check(path: Path, tags: Mapping[str, object]) -> None:
    if len(tags) > MOST_TAGS:
        raise _invalid(path, f"{len(tags)} tags are too many; the maximum is {MOST_TAGS}")
    for key, value in tags.items():
        if problem := _problem(key, value):
            raise _invalid(path, f"tag {key[:80]!r}: {problem}")


def _problem(key: str, value: object) -> str:
    if not _KEY.fullmatch(key):
        return "a key has at most 63 letters, digits and . _ / -; it begins and ends with a letter or digit"
    if not isinstance(value, str):
        return "its value is not a string"
    if len(value) > _LONGEST_VALUE:
        return f"its value has more than {_LONGEST_VALUE} characters"
    return "" if value.isprintable() else "its value contains control characters"


def _invalid(path: Path, problem: str) -> InputError:
    return InputError(f"{path}: {problem}", remedy="Remove the file: tags can be added again with `runs tag`.")
