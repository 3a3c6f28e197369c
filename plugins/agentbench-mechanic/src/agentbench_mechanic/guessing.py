"""Guess fixes from the source files read, without trying them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agentbench_mechanic.failure_output import locations_in
from agentbench_mechanic.repair.ranking import is_python, repaired, repairs, source_of
from agentbench_mechanic.repair.source import Repair, Source, unified_diff

_ELSEWHERE = 0.2
"""The suspicion of lines that are neither named in a traceback nor next to such a line."""
_SMELL = 0.5
"""Minimum suspicion of code smells."""
_PATH = re.compile(r"^\+\+\+ (?:b/)?(\S+)", re.MULTILINE)
_HUNK = re.compile(r"^@@ .*\n((?:[ +\-\\].*\n?|\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Idea:
    """A repair of a file, with its weight."""

    path: str
    repair: Repair
    weight: float


@dataclass(frozen=True)
class Guess:
    """A change that could fix the program."""

    diff: str
    why: str


def ideas(sources: Mapping[str, str], output: str) -> list[Idea]:
    """Possible repairs, the most promising first; ``output`` is the failing command's output."""
    named = {location: 1.0 - rank * 0.05 for rank, location in enumerate(locations_in(output)[:15])}
    result: list[Idea] = []
    for path in sorted(sources):
        source = source_of(sources[path])
        if source is None:
            continue

        def suspicion(repair: Repair, path: str = path) -> float:
            near = max(named.get((path, line), _ELSEWHERE) for line in range(repair.line - 1, repair.line + 2))
            return max(near, _SMELL) if repair.is_smell else near

        result += [Idea(path, repair, weight) for weight, repair in repairs(source, suspicion)]
    return sorted(result, key=lambda idea: -idea.weight)


def next_guess(
    read: Mapping[str, str], applied: Sequence[str], refused: Collection[str], output: str, *, keep: bool = False
) -> Guess | None:
    """The next change to make, including a revert of earlier changes; ``None`` if no ideas are left.

    Args:
        read: current sources: path -> text.
        applied: unified diffs that produced the current sources, in order; each changes one file.
        refused: unified diffs that could not be applied.
        output: output of the failing command before these changes.
        keep: keep the applied changes because they fixed some failures, and fix only further code smells.
    """
    if keep:
        return _next_smell(read, refused, output)
    originals, seen = dict(read), [dict(read)]
    for diff in reversed(applied):
        for path in set(paths_of(diff)) & originals.keys():
            originals[path] = patched(originals[path], diff, back=True)
        seen.append(dict(originals))
    sources = {path: Source(text) for path, text in originals.items() if is_python(text)}
    for idea in ideas(originals, output):
        after = repaired(sources[idea.path], idea.repair)
        wanted = originals if after is None else originals | {idea.path: after}
        if after is None or wanted in seen:
            continue
        diff = "".join(
            unified_diff(path, read[path], wanted[path]) for path in sorted(read) if read[path] != wanted[path]
        )
        if diff not in refused:
            return Guess(diff, f"{idea.repair.kind} at {idea.path}:{idea.repair.line}")
    return None


def _next_smell(read: Mapping[str, str], refused: Collection[str], output: str) -> Guess | None:
    for idea in ideas(read, output):
        after = repaired(Source(read[idea.path]), idea.repair) if idea.repair.is_smell else None
        diff = unified_diff(idea.path, read[idea.path], after) if after else ""
        if diff and diff not in refused:
            return Guess(diff, f"{idea.repair.kind} at {idea.path}:{idea.repair.line} as well")
    return None


def paths_of(diff: str) -> list[str]:
    """The files that a unified diff changes."""
    return _PATH.findall(diff)


def patched(text: str, diff: str, *, back: bool = False) -> str:
    """Text with a diff of one file applied, or reverted if ``back``. Skips hunks that do not match exactly once."""
    for hunk in _HUNK.finditer(diff):
        lines = hunk[1].splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        new = "".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        present, wanted = (new, old) if back else (old, new)
        if present and text.count(present) == 1:
            text = text.replace(present, wanted)
    return text
