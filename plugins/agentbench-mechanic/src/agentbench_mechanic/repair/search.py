"""The search: which lines are suspicious, which repairs to try, which of those that help to choose."""

from __future__ import annotations

import math
import os
import select
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from .ranking import mended, repairs, source_of
from .smells import smells
from .source import Repair, Source, unified_diff
from .trials import Trial, Verdict, run, warm_up

_MOST_TESTS = 12
"""Failing tests that are looked at."""
_LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".hg", "__pycache__", ".venv", "venv", "node_modules", ".*_cache", "*.egg-info", ".tox"
)
_MORE_AFTER_A_PART = 60
"""Changes that are tried after one that mends some of the failing tests."""
_SHARE_OF_IMPORT_TIME = 0.2
"""Suspicion of lines that run before any test does, in files that failing tests touch."""
_SHARE_OF_SMELLS = 0.5
"""Suspicion, at least, of what smells in such files."""


@dataclass(frozen=True)
class Candidate:
    """A repair of one file."""

    number: int
    """Its place among all, from 1."""
    path: str
    repair: Repair
    after: str


class Search:
    """Tries repairs on copies of a tree. A context manager: the copies go with it."""

    def __init__(self, root: Path, tests: Sequence[str], seconds: float, at_once: int) -> None:
        self._until = time.monotonic() + seconds
        self._root = root
        self._tests = list(tests)
        self._at_once = max(at_once, 1)
        self._place = Path(tempfile.mkdtemp(prefix="repair-"))
        self._copies: list[Path] = []
        self._sources: dict[str, Source] = {}
        self._patience = 2.0  # seconds for one trial
        self.told: list[str] = []
        """What there is to say."""

    def __enter__(self) -> Search:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        shutil.rmtree(self._place, ignore_errors=True)

    def look(self, skip: int) -> str:
        """A unified diff that makes failing tests pass and breaks none, or nothing."""
        warm_up(self._place)
        first = self._place / "0"
        shutil.copytree(self._root, first, symlinks=True, ignore=_LEFT_BEHIND)
        whole = run(first, self._tests, self._left(), compiled=True)
        self.told.append(f"{len(whole.passed)} tests pass, {len(whole.failed)} fail")
        if not whole.failed:
            return ""
        failing = [test for test in sorted(whole.failed) if "::" in test][:_MOST_TESTS]
        # The failing ones once more alone: what others had cached, they do themselves then.
        traced = [run(first, tests, self._left() / 3, traced=True) for tests in (self._tests, failing)]
        candidates = self._candidates(traced, failing)
        self.told.append(f"{len(candidates)} changes to try, from number {skip}")
        began = time.monotonic()
        run(first, failing, self._left())
        self._patience = max(2.0, (time.monotonic() - began) * 4)
        self._copies = [first, *(self._place / str(number) for number in range(1, self._at_once))]
        for copy in (*self._copies[1:], self._place / "whole"):
            shutil.copytree(first, copy, symlinks=True)
        return self._try(candidates, skip, failing, whole)

    def _left(self) -> float:
        return max(self._until - time.monotonic(), 0.1)

    def _candidates(self, traced: Sequence[Verdict], failing: Sequence[str]) -> list[tuple[float, str, Repair]]:
        """Every repair of every file that failing tests touch, best first."""
        found: list[tuple[float, str, Repair]] = []
        for path, lines in suspicions(traced, failing).items():
            source = source_of(self._read(path) or "")
            if source is not None:
                self._sources[path] = source
                found += [
                    (weight, path, repair) for weight, repair in repairs(source, _Weights(source, lines).suspicion)
                ]
        return sorted(found, key=lambda one: -one[0])

    def _usable(self, candidates: Sequence[tuple[float, str, Repair]], skip: int) -> Iterator[Candidate]:
        for number, (_, path, repair) in enumerate(candidates[skip:], start=skip + 1):
            after = mended(self._sources[path], repair)
            if after is not None:
                yield Candidate(number, path, repair, after)

    def _read(self, path: str) -> str | None:
        name = path.rpartition("/")[2]
        if name.startswith("test_") or name == "conftest.py" or name.endswith("_test.py"):
            return None  # what judges stays as it is
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def _try(
        self, candidates: Sequence[tuple[float, str, Repair]], skip: int, failing: Sequence[str], whole: Verdict
    ) -> str:
        tried, best, last = skip, None, 0
        for candidate, verdict in self._outcomes(self._usable(candidates, skip), failing):
            tried = candidate.number
            if last and tried > last:
                break
            mended = verdict.passed & whole.failed
            if not verdict.complete or not mended:
                continue
            if not self._is_better(candidate, whole, mended):
                continue
            if len(mended) == len(failing):
                best = candidate
                break
            best = best or candidate  # a part is better than nothing; the rest is for the next time
            last = last or tried + _MORE_AFTER_A_PART
        if best is None and time.monotonic() < self._until - self._patience:
            tried = len(candidates)  # what came after the last one was no Python
        self.told.append(f"tried up to number {tried}, {len(candidates) - tried} left")
        if best is None:
            return ""
        best = self._rounded_off(best, whole)
        self.told.append(f"chosen: {best.repair.kind} at {best.path}:{best.repair.line}")
        return unified_diff(best.path, self._sources[best.path].text, best.after)

    def _outcomes(self, waiting: Iterator[Candidate], failing: Sequence[str]) -> Iterator[tuple[Candidate, Verdict]]:
        """Candidates in order, each with what became of the failing tests; several are tried at once."""
        running: dict[Path, tuple[Trial, Candidate]] = {}
        order: list[Candidate] = []
        done: dict[int, Verdict] = {}
        exhausted = False
        while True:
            for copy in self._copies:
                if copy in running or exhausted or time.monotonic() > self._until - self._patience:
                    continue
                candidate = next(waiting, None)
                if candidate is None:
                    exhausted = True
                    continue
                order.append(candidate)
                self._put(copy, candidate.path, candidate.after)
                running[copy] = (Trial(copy, failing, self._patience), candidate)
            if not running:
                return
            self._wait(running, done)
            while order and id(order[0]) in done:
                first = order.pop(0)
                yield first, done.pop(id(first))

    def _wait(self, running: dict[Path, tuple[Trial, Candidate]], done: dict[int, Verdict]) -> None:
        """Until one of them is done."""
        soonest = min(trial.until for trial, _ in running.values())
        trials = [trial for trial, _ in running.values()]
        ready = select.select(trials, [], [], max(soonest - time.monotonic(), 0))[0]
        for copy, (trial, candidate) in list(running.items()):
            if (trial in ready and trial.take_in()) or time.monotonic() >= trial.until:
                done[id(candidate)] = trial.verdict()
                self._restore(copy, candidate.path)
                del running[copy]

    def _put(self, copy: Path, path: str, text: str) -> None:
        (copy / path).write_text(text, encoding="utf-8")
        os.utime(copy / path, (1, 1))  # never the time of what was compiled

    def _restore(self, copy: Path, path: str) -> None:
        shutil.copy2(self._root / path, copy / path)

    def _is_better(self, candidate: Candidate, whole: Verdict, mended: frozenset[str]) -> bool:
        """Whether all tests together say so too. In a copy of its own: others are in use."""
        copy = self._place / "whole"
        self._put(copy, candidate.path, candidate.after)
        now = run(copy, self._tests, max(self._left(), self._patience))
        self._restore(copy, candidate.path)
        return now.complete and whole.passed <= now.passed and mended <= now.passed

    def _rounded_off(self, best: Candidate, whole: Verdict) -> Candidate:
        """With what smells in the same function mended as well, where the tests still agree."""
        source = self._sources[best.path]
        start, end = source.function_at(best.repair.line)
        for smell in smells(source):
            if not start <= smell.line <= end or smell.overlaps(best.repair):
                continue
            both = replace(best.repair, edits=best.repair.edits + smell.edits)
            more = replace(best, repair=both, after=source.after(both.edits))
            if self._left() > self._patience and self._is_better(more, whole, frozenset()):
                self.told.append(f"and at the same place: {smell.kind} at line {smell.line}")
                return more
        return best


class _Weights:
    """How suspicious the places of one file are."""

    def __init__(self, source: Source, lines: Mapping[int, float]) -> None:
        self._lines = lines
        self._most = max(lines.values(), default=0.0)
        self._top = set(source.top_lines())

    def suspicion(self, repair: Repair) -> float:
        """0 to 1."""
        executed = self._lines.get(repair.line, 0.0)
        if repair.is_smell:
            return max(executed, _SHARE_OF_SMELLS * self._most)
        return max(executed, _SHARE_OF_IMPORT_TIME * self._most) if repair.line in self._top else executed


def suspicions(traced: Sequence[Verdict], failing: Sequence[str]) -> dict[str, dict[int, float]]:
    """How suspicious lines are, 0 to 1: those that failing tests execute and passing ones do not (Ochiai)."""
    executed: dict[tuple[str, int], tuple[set[str], set[str]]] = {}
    wanted = set(failing)
    for test, files in (entry for verdict in traced for entry in verdict.lines.items()):
        for path, lines in files.items():
            for line in lines:
                executed.setdefault((path, line), (set(), set()))[0 if test in wanted else 1].add(test)
    found: dict[str, dict[int, float]] = {}
    for (path, line), (bad, good) in executed.items():
        if bad:
            found.setdefault(path, {})[line] = len(bad) / math.sqrt(max(len(wanted), 1) * (len(bad) + len(good)))
    return found
