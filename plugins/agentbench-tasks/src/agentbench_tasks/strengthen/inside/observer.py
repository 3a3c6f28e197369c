"""Call functions in the sandbox and report the values that they return. Runs within a pytest test.

The program under test runs in a child process, which reports through a pipe. If a call does not return in time or ends
the process, the parent starts another child for the calls after it. All values are untrusted: only exact built-in types
are read, so that no code of the program runs while a value is converted. This file must work with Python 3.8.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Call = tuple[int, int, Callable[[], Any]]

RESULTS = "observations.jsonl"
_MAX_PARTS = 2000  # number of nested values
_MAX_CHARS = 20_000
_MAX_DEPTH = 12
_MAX_DIGITS = 100
_MAX_LINE = 400_000  # bytes
_MAX_LOST = 2
"""How many calls of a group may end the process or fail to return before the rest of the group is skipped."""


class _UnfitError(Exception):
    """The value cannot be written as a literal."""


def observe(calls: Sequence[Call]) -> None:
    """Make the calls (number, group, function) listed in the plan, in its order, and write the results."""
    with open(os.path.join(os.environ["AGENTBENCH_INPUTS"], "plan.json"), encoding="ascii") as file:
        plan = json.load(file)
    by_number = {number: (number, group, function) for number, group, function in calls}
    pending = [by_number[number] for number in plan["order"] if number in by_number]
    lost: dict[int, int] = {}
    path = os.path.join(os.environ["AGENTBENCH_RESULTS"], RESULTS)
    with open(path, "a", encoding="ascii") as results:
        while pending:
            pending = _in_child(pending, results, plan["seconds"])
            if pending:  # the first of them did not return
                number, group, _ = pending.pop(0)
                results.write(json.dumps({"id": number, "problem": "it does not return"}) + "\n")
                results.flush()
                lost[group] = lost.get(group, 0) + 1
                pending = [call for call in pending if lost.get(call[1], 0) < _MAX_LOST]


def _in_child(calls: list[Call], results: Any, seconds: float) -> list[Call]:
    """Make the calls in a child process, and return those without a result; the first of them was running."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _silence()
            for number, _, function in calls:
                os.write(writing, (json.dumps(dict(_called(function), id=number)) + "\n").encode("ascii"))
        finally:
            os._exit(0)
    os.close(writing)
    done, buffered = 0, b""
    try:
        limit = time.monotonic() + seconds
        while done < len(calls):
            ready, _, _ = select.select([reading], [], [], max(0.0, limit - time.monotonic()))
            data = os.read(reading, 65_536) if ready else b""
            buffered += data
            if not data or len(buffered) > _MAX_LINE:
                break
            *lines, buffered = buffered.split(b"\n")
            for line in lines:
                results.write(line.decode("ascii", "replace") + "\n")
                done += 1
                limit = time.monotonic() + seconds
            results.flush()
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return calls[done:]


def _silence() -> None:
    """Discard everything that the program prints."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until the process ends


def _called(function: Callable[[], Any]) -> dict[str, Any]:
    try:
        value = function()
    except BaseException as error:
        return {"raised": _name_of(error)}
    try:
        return {"value": _Converter().convert(value)}
    except _UnfitError as error:
        return {"problem": str(error)}


def _name_of(error: BaseException) -> str:
    try:
        name = type(error).__name__
        return name[:80] if type(name) is str and name.isidentifier() and name.isascii() else "exception"
    except BaseException:
        return "exception"


class _Converter:
    """Converts one value to JSON. Plain values represent themselves; others are lists that start with their type."""

    def __init__(self) -> None:
        self._parts = 0
        self._chars = 0

    def convert(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        self._parts += 1
        if self._parts > _MAX_PARTS or depth > _MAX_DEPTH:
            raise _UnfitError("its value is too large")
        if value is None or kind is bool:
            return value
        if kind is int:
            return self._integer(value)
        if kind is float:
            if not math.isfinite(value):
                raise _UnfitError("its value contains a non-finite float")
            return ["float", value.hex()]
        if kind is str or kind is bytes:
            self._count(len(value))
            return value if kind is str else ["bytes", value.hex()]
        if kind in (list, tuple, set):
            items = [self.convert(item, depth + 1) for item in list(value)[: _MAX_PARTS + 1]]
            return [kind.__name__] + (sorted(items, key=json.dumps) if kind is set else items)
        if kind is dict:
            pairs = list(value.items())[: _MAX_PARTS + 1]
            return ["dict"] + [[self.convert(key, depth + 1), self.convert(item, depth + 1)] for key, item in pairs]
        raise _UnfitError("its value contains an object that is not plain data")

    def _integer(self, value: int) -> Any:
        if value.bit_length() > 4 * _MAX_DIGITS:
            raise _UnfitError("its value is too large")
        return ["int", hex(value)]

    def _count(self, chars: int) -> None:
        self._chars += chars
        if self._chars > _MAX_CHARS:
            raise _UnfitError("its value is too large")
