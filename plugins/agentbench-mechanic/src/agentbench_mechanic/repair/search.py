"""The search: find suspicious lines, try repairs, and choose a repair that helps."""

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

from .ranking import repaired, repairs, source_of
from .run_tests import Results, Run, run, warm_up
from .smells import smells
from .source import Repair, Source, unified_diff

_MAX_TESTS = 12
"""Maximum number of failing tests that the search tries to fix."""
_IGNORED = shutil.ignore_patterns(
    ".git", ".hg", "__pycache__", ".venv", "venv", "node_modules", ".*_cache", "*.egg-info", ".tox"
)
_MORE_AFTER_PARTIAL = 60
"""After a candidate that fixes only some of the failing tests, the search tries at most this many more candidates."""
_SHARE_OF_IMPORT_TIME = 0.2
"""Minimum suspicion of lines that run at import, relative to the most suspicious line of the file."""
_SHARE_OF_SMELLS = 0.5
"""Minimum suspicion of code smells, relative to the most suspicious line of the file."""


@dataclass(frozen=True)
class Candidate:
    """A repair of one file."""

    number: int
    """Its number among all candidates, from 1."""
    path: str
    repair: Repair
    after: str


class Search:
    """Tries repairs on copies of a tree. A context manager that removes the copies."""

    def __init__(self, root: Path, tests: Sequence[str], seconds: float, parallel: int) -> None:
        self._until = time.monotonic() + seconds
        self._root = root
        self._tests = list(tests)
        self._parallel = max(parallel, 1)
        self._directory = Path(tempfile.mkdtemp(prefix="repair-"))
        self._copies: list[Path] = []
        self._sources: dict[str, Source] = {}
        self._run_seconds = 2.0  # time limit of one run
        self.messages: list[str] = []
        """The messages to print."""

    def __enter__(self) -> Search:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def find(self, skip: int) -> str:
        """A unified diff that makes at least one failing test pass and breaks none; empty if no such diff was found."""
        warm_up(self._directory)
        first = self._directory / "0"
        shutil.copytree(self._root, first, symlinks=True, ignore=_IGNORED)
        baseline = run(first, self._tests, self._left(), compiled=True)
        self.messages.append(f"{len(baseline.passed)} tests pass, {len(baseline.failed)} fail")
        if not baseline.failed:
            return ""
        failing = [test for test in sorted(baseline.failed) if "::" in test][:_MAX_TESTS]
        # Run the failing tests again alone, so that they execute code whose results other tests had cached.
        traced = [run(first, tests, self._left() / 3, traced=True) for tests in (self._tests, failing)]
        candidates = self._candidates(traced, failing)
        self.messages.append(f"{len(candidates)} changes to try, from number {skip}")
        began = time.monotonic()
        run(first, failing, self._left())
        self._run_seconds = max(2.0, (time.monotonic() - began) * 4)
        self._copies = [first, *(self._directory / str(number) for number in range(1, self._parallel))]
        for copy in (*self._copies[1:], self._directory / "all"):
            shutil.copytree(first, copy, symlinks=True)
        return self._try(candidates, skip, failing, baseline)

    def _left(self) -> float:
        return max(self._until - time.monotonic(), 0.1)

    def _candidates(self, traced: Sequence[Results], failing: Sequence[str]) -> list[tuple[float, str, Repair]]:
        """Every repair of every file that failing tests use, best first."""
        result: list[tuple[float, str, Repair]] = []
        for path, lines in suspicions(traced, failing).items():
            source = source_of(self._read(path) or "")
            if source is not None:
                self._sources[path] = source
                result += [
                    (weight, path, repair) for weight, repair in repairs(source, _Weights(source, lines).suspicion)
                ]
        return sorted(result, key=lambda one: -one[0])

    def _applicable(self, candidates: Sequence[tuple[float, str, Repair]], skip: int) -> Iterator[Candidate]:
        for number, (_, path, repair) in enumerate(candidates[skip:], start=skip + 1):
            after = repaired(self._sources[path], repair)
            if after is not None:
                yield Candidate(number, path, repair, after)

    def _read(self, path: str) -> str | None:
        name = path.rpartition("/")[2]
        if name.startswith("test_") or name == "conftest.py" or name.endswith("_test.py"):
            return None  # tests are not changed
        try:
            return (self._root / path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def _try(
        self, candidates: Sequence[tuple[float, str, Repair]], skip: int, failing: Sequence[str], baseline: Results
    ) -> str:
        tried, best, last = skip, None, 0
        for candidate, results in self._results(self._applicable(candidates, skip), failing):
            tried = candidate.number
            if last and tried > last:
                break
            fixed = results.passed & baseline.failed
            if not results.complete or not fixed:
                continue
            if not self._is_better(candidate, baseline, fixed):
                continue
            if len(fixed) == len(failing):
                best = candidate
                break
            best = best or candidate  # a partial fix is better than nothing; the next search handles the rest
            last = last or tried + _MORE_AFTER_PARTIAL
        if best is None and time.monotonic() < self._until - self._run_seconds:
            tried = len(candidates)  # the remaining candidates were not valid Python
        self.messages.append(f"tried up to number {tried}, {len(candidates) - tried} left")
        if best is None:
            return ""
        best = self._extended(best, baseline)
        self.messages.append(f"chosen: {best.repair.kind} at {best.path}:{best.repair.line}")
        return unified_diff(best.path, self._sources[best.path].text, best.after)

    def _results(self, candidates: Iterator[Candidate], failing: Sequence[str]) -> Iterator[tuple[Candidate, Results]]:
        """Candidates in order, each with the results of the failing tests; several are tried in parallel."""
        running: dict[Path, tuple[Run, Candidate]] = {}
        order: list[Candidate] = []
        done: dict[int, Results] = {}
        exhausted = False
        while True:
            for copy in self._copies:
                if copy in running or exhausted or time.monotonic() > self._until - self._run_seconds:
                    continue
                candidate = next(candidates, None)
                if candidate is None:
                    exhausted = True
                    continue
                order.append(candidate)
                self._write(copy, candidate.path, candidate.after)
                running[copy] = (Run(copy, failing, self._run_seconds), candidate)
            if not running:
                return
            self._wait(running, done)
            while order and id(order[0]) in done:
                first = order.pop(0)
                yield first, done.pop(id(first))

    def _wait(self, running: dict[Path, tuple[Run, Candidate]], done: dict[int, Results]) -> None:
        """Wait until a run prints something or its time is over, and collect the results of runs that have ended."""
        soonest = min(run_.until for run_, _ in running.values())
        runs = [run_ for run_, _ in running.values()]
        ready = select.select(runs, [], [], max(soonest - time.monotonic(), 0))[0]
        for copy, (run_, candidate) in list(running.items()):
            if (run_ in ready and run_.read()) or time.monotonic() >= run_.until:
                done[id(candidate)] = run_.results()
                self._restore(copy, candidate.path)
                del running[copy]

    def _write(self, copy: Path, path: str, text: str) -> None:
        (copy / path).write_text(text, encoding="utf-8")
        os.utime(copy / path, (1, 1))  # differs from the time of compiled files

    def _restore(self, copy: Path, path: str) -> None:
        shutil.copy2(self._root / path, copy / path)

    def _is_better(self, candidate: Candidate, baseline: Results, fixed: frozenset[str]) -> bool:
        """Whether the tests in ``fixed`` pass and no passing test breaks when all tests run in a separate copy."""
        copy = self._directory / "all"
        self._write(copy, candidate.path, candidate.after)
        now = run(copy, self._tests, max(self._left(), self._run_seconds))
        self._restore(copy, candidate.path)
        return now.complete and baseline.passed <= now.passed and fixed <= now.passed

    def _extended(self, best: Candidate, baseline: Results) -> Candidate:
        """Also fix the first code smell in the same function whose repair breaks no test."""
        source = self._sources[best.path]
        start, end = source.function_at(best.repair.line)
        for smell in smells(source):
            if not start <= smell.line <= end or smell.overlaps(best.repair):
                continue
            both = replace(best.repair, edits=best.repair.edits + smell.edits)
            more = replace(best, repair=both, after=source.after(both.edits))
            if self._left() > self._run_seconds and self._is_better(more, baseline, frozenset()):
                self.messages.append(f"and in the same function: {smell.kind} at line {smell.line}")
                return more
        return best


class _Weights:
    """The suspicion of the lines of one file."""

    def __init__(self, source: Source, lines: Mapping[int, float]) -> None:
        self._lines = lines
        self._most = max(lines.values(), default=0.0)
        self._top = set(source.top_lines())

    def suspicion(self, repair: Repair) -> float:
        """The suspicion of the repaired line, 0 to 1."""
        executed = self._lines.get(repair.line, 0.0)
        if repair.is_smell:
            return max(executed, _SHARE_OF_SMELLS * self._most)
        return max(executed, _SHARE_OF_IMPORT_TIME * self._most) if repair.line in self._top else executed


def suspicions(traced: Sequence[Results], failing: Sequence[str]) -> dict[str, dict[int, float]]:
    """The suspicion of lines, 0 to 1: high if failing tests execute them and passing tests do not (Ochiai)."""
    executed: dict[tuple[str, int], tuple[set[str], set[str]]] = {}
    wanted = set(failing)
    for test, files in (entry for results in traced for entry in results.lines.items()):
        for path, lines in files.items():
            for line in lines:
                executed.setdefault((path, line), (set(), set()))[0 if test in wanted else 1].add(test)
    result: dict[str, dict[int, float]] = {}
    for (path, line), (bad, good) in executed.items():
        if bad:
            result.setdefault(path, {})[line] = len(bad) / math.sqrt(max(len(wanted), 1) * (len(bad) + len(good)))
    return result
