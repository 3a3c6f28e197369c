"""Crash-safe files of JSON lines: events have numbers and checksums, and incomplete last lines are removed.

Every change to a run directory that a crash could leave half done is preceded by a :func:`checkpoint`.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentbench_core.errors import InputError

_SEAL = b',"crc":"%08x"}'
_SEAL_LENGTH = len(_SEAL % 0)
_BLOCK = 1 << 18


def checkpoint(half: Callable[[], object] = lambda: None) -> None:
    """Mark the next change to a run directory as one that a crash could leave half done; ``half`` does half of it.

    Does nothing. Crash tests replace it with a function that kills the process at a chosen checkpoint.
    """


def json_line(value: object, indent: int | None = None) -> bytes:
    """Plain data as JSON in UTF-8, compact unless indented, with a newline."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators, indent=indent)
    # A lone surrogate (from a file name that is not UTF-8) becomes the JSON escape \udcNN and is preserved.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def add_checksum(value: dict[str, Any]) -> bytes:
    """A value as a line that ends with its checksum (CRC-32, as in zip files), to detect damage but not forgery."""
    return _sealed(json_line(value)[:-1])


def event_line(seq: int, attempt_id: str | None, type_: str, fields: bytes, at: str = "") -> bytes:
    """The line of an event whose fields are already JSON. Only this step, which numbers it, must be done in order."""
    head = json_line(envelope(seq, attempt_id, type_, at))[:-2]
    return _sealed(head + (b"}" if fields == b"{}" else b"," + fields[1:]))


def _sealed(body: bytes) -> bytes:
    return body[:-1] + _SEAL % zlib.crc32(body) + b"\n"


def envelope(seq: int, attempt_id: str | None, type_: str, at: str = "") -> dict[str, Any]:
    """The common fields of every event line; ``at`` defaults to now, in UTC with milliseconds."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"seq": seq, "at": at or now, "attempt_id": attempt_id, "type": type_}


def lines(path: Path, *, sealed: bool, type_: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The position and the value of each complete line; with ``type_``, only of lines whose type starts with it.

    Raises InputError for a damaged line.
    """
    for where, line in raw_lines(path, containing=f'"type":"{type_}'.encode() if type_ else b"\n"):
        try:
            value = parsed(line, sealed=sealed)
        except ValueError as error:
            raise damaged(where, error) from None
        if not type_ or str(value.get("type", "")).startswith(type_):
            yield where, value


def raw_lines(path: Path, *, containing: bytes = b"\n") -> Iterator[tuple[str, bytes]]:
    """Each complete line without its newline, with its position; with ``containing``, only lines that contain it.

    The file is searched in large pieces, so that skipping a line costs almost nothing.
    """
    if not path.is_file():
        return
    name, number = str(path), 1
    for block in _whole_lines(path):
        start = 0
        while (result := block.find(containing, start)) >= 0:
            begin = block.rfind(b"\n", start, result) + 1 or start
            end = block.find(b"\n", result)
            number += block.count(b"\n", start, begin)
            yield f"{name}:{number}", block[begin:end]
            start, number = end + 1, number + 1
        number += block.count(b"\n", start)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The file in pieces that end at line ends. Omits an incomplete last line."""
    parts: list[bytes] = []
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            end = block.rfind(b"\n") + 1
            if end:
                yield b"".join((*parts, block[:end]))
                parts.clear()
            parts.append(block[end:])


def parsed(line: bytes, *, sealed: bool) -> dict[str, Any]:
    """The value of one line. Raises ValueError if it is damaged."""
    line = line.rstrip(b"\n")
    try:
        value = json.loads(verify_checksum(line) if sealed else line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    if sealed and not isinstance(value.get("type", ""), str):
        raise ValueError("its type is not a string")
    return value


def verify_checksum(line: bytes) -> bytes:
    """A line without its checksum. Raises ValueError if the checksum does not match."""
    body = line[:-_SEAL_LENGTH] + b"}"
    if line[-_SEAL_LENGTH:] != _SEAL % zlib.crc32(body):
        raise ValueError("its checksum does not match")
    return body


def damaged(where: str, why: object) -> InputError:
    """The error for a damaged line."""
    return InputError(
        f"{where} is damaged: {why}",
        remedy=f"To recover the intact lines: agentbench runs rebuild {shlex.quote(str(Path(where).parent))}",
    )


def partial_line(path: Path) -> bytes:
    """The bytes after the last newline: an incomplete line left by a writer that died."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        tail = b""
        while position > 0:
            size = min(position, 1 << 16)
            position -= size
            file.seek(position)
            block = file.read(size)
            _, newline, after = block.rpartition(b"\n")
            if newline:
                return after + tail
            tail = block + tail
    return tail


def cut_partial_line(path: Path) -> int:
    """Remove an incomplete last line, and return its length in bytes."""
    size = len(partial_line(path))
    if size:
        with path.open("r+b") as file:
            file.truncate(file.seek(0, os.SEEK_END) - size)
            os.fsync(file.fileno())
    return size


def replace(path: Path, data: bytes) -> None:
    """Write a file atomically and durably."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(data)
        replace_durably(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def replace_durably(part: Path, path: Path) -> None:
    """Replace a file with a finished one, and sync its content and name to disk."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    checkpoint()
    part.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Sync a directory; otherwise, a power loss may undo a rename."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
