"""Calibrate a task: record the values that blinded tests must produce.

There are usually three runs: both sides of each assertion with the reference solution, both sides on the unfixed
program, and the blinded files with the reference solution under another hash seed. An assertion is no longer blinded if
it breaks, if its values differ between runs or are not plain data, or if the program affects its expected value. The
last run is repeated until no more assertions are excluded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import attrs

from agentbench_core import CalibrationContext, CalibrationError, Suitability, Tree, suitability
from agentbench_integrity.scorer.blinding.expectations import BlindedAssertion, Expectations
from agentbench_integrity.scorer.blinding.hidden_tests import (
    SITES_PER_FILE,
    HiddenFile,
    assertions_in,
    hidden_files,
    top_modules,
)
from agentbench_integrity.scorer.blinding.recoverable import recoverable_sites
from agentbench_integrity.scorer.blinding.transform import Position, Site
from agentbench_integrity.scorer.blinding.values import holds, is_value
from agentbench_integrity.scorer.blinding.witnesses import MISSING, Witnesses
from agentbench_integrity.scorer.pytest_command import PytestCommand
from agentbench_integrity.scorer.results import RecordKey, Results, expected_by_key, values_by_key
from agentbench_integrity.scorer.session import Session, run_session
from agentbench_integrity.scorer.suitability import check_tests, passed_tests, require_results

_MAX_ROUNDS = 8
_MAX_CHARS = 100_000  # characters of a value: half the limit of the recorder
_SEEDS = "1", "2"


def calibrate(context: CalibrationContext, command: PytestCommand) -> tuple[Expectations, Suitability]:
    """Calibrate a task in its environment.

    Raises:
        CalibrationError: with the reference solution, the tests time out, leave no valid results, or stay unstable.
        NotStartedError: pytest cannot be started.
        SandboxError: the sandbox failed.
    """
    return _Calibration(context, command).run()


class _Calibration:
    def __init__(self, context: CalibrationContext, command: PytestCommand) -> None:
        self._context = context
        self._command = command
        with Tree(context.environment.workspace) as pristine:
            self._program = frozenset(top_modules(pristine.files()))
        self._passing_before: frozenset[str] = frozenset()
        self._files = list(hidden_files(context.hidden_files))
        for file in self._files:
            file.blind(self._program)

    def run(self) -> tuple[Expectations, Suitability]:
        if not self._sites():
            empty = Expectations(files={}, names={}, tests={}, sites={}, left=self._unblinded_counts(), size=0)
            return empty, check_tests(self._context, self._command)
        solved, unsolved = self._with_both_sides()
        for _ in range(_MAX_ROUNDS):
            blinded = self._run({each.path: each.blinded.blind for each in self._blinded()}, _SEEDS[1], solved=True)
            before = self._excluded_counts()
            records = self._compare(solved, blinded)
            if self._excluded_counts() == before:
                return self._expectations(solved, unsolved, blinded, records), self._suitability(solved, blinded)
            for file in self._files:
                file.blind(self._program)
        raise CalibrationError("the blinded tests did not become stable with the reference solution")

    def _with_both_sides(self) -> tuple[Results, Results]:
        """Run the tests with both sides recorded, and exclude assertions and files that do not work."""
        while True:
            files = {each.path: each.blinded.both for each in self._blinded()}
            solved = _results(self._run(files, _SEEDS[0], solved=True))
            broken = [each for each in self._blinded() if _is_broken(each.path, solved)]
            for file in broken:
                file.skip("the file cannot be collected with its assertions blinded")
            if not broken:
                break
        session = self._run(files, _SEEDS[0], solved=False)
        unsolved = require_results(session) or Results(tests={})
        sites = self._sites()
        self._exclude_functions(
            [name for name, outcome in solved.tests.items() if outcome not in ("passed", "skipped")],
            required=frozenset(self._context.validation.expected_tests or solved.tests),
        )
        unsolved_values = dict(values_by_key(unsolved))
        wrong = {
            key[0]
            for key, sides in unsolved_values.items()
            if key[1] in sites and not holds(sites[key[1]].operator, *sides)
        }
        missing = {key[0] for key, _ in values_by_key(solved) if key not in unsolved_values}
        self._passing_before = frozenset({*passed_tests(unsolved)} - wrong - missing)
        for key, (value, expected) in values_by_key(solved):
            site = sites.get(key[1])
            if site is None:
                continue
            plain = is_value(value) and is_value(expected, is_expected=True)
            plain = plain and max(len(str(value)), len(str(expected))) <= _MAX_CHARS
            same = key not in unsolved_values or unsolved_values[key][1] == expected
            if not plain or not same or not holds(site.operator, value, expected):
                self._exclude_site(site)
        for file in self._files:
            file.blind(self._program)
        return solved, unsolved

    def _compare(self, solved: Results, session: Session) -> Mapping[str, list[tuple[int, Any]]]:
        """Compare a blinded run with the run that recorded both sides, and return the expected records of each test."""
        blinded = _results(session)
        names = self._names(solved, blinded)
        sites = self._sites()
        expected_records: dict[str, list[tuple[int, Any]]] = {}
        broken: list[str] = []
        for name, outcome in blinded.tests.items():
            task_name = names.get(name, name)
            records = [(site, expected) for site, _, expected in solved.records.get(task_name, ()) if site in sites]
            values = [(each[0], each[1]) for each in blinded.records.get(name, ())]
            if outcome not in ("passed", "skipped") and solved.tests.get(task_name) in ("passed", "skipped"):
                broken.append(task_name)
            elif [site for site, _ in records] != [site for site, _ in values]:
                differ = Counter(site for site, _ in records)
                differ.subtract(Counter(site for site, _ in values))
                affected = {site for site, times in differ.items() if times} or {site for site, _ in records}
                for site in affected & sites.keys():
                    self._exclude_site(sites[site])
            else:
                for (site, expected), (_, value) in zip(records, values, strict=True):
                    if not holds(sites[site].operator, value, expected):
                        self._exclude_site(sites[site])
            if outcome == "passed" and records:
                expected_records[task_name] = records
        self._exclude_functions(broken, required=frozenset(broken))
        return expected_records

    def _names(self, solved: Results, blinded: Results) -> Mapping[str, str]:
        """Map names of blinded tests to names in the task. Files whose tests do not correspond are skipped."""
        names: dict[str, str] = {}
        for file in self._blinded():
            original, blinded_tests = _by_function(file.path, solved), _by_function(file.path, blinded)
            if {name: len(each) for name, each in original.items()} != {
                name: len(each) for name, each in blinded_tests.items()
            }:
                file.skip("the set of tests changes when assertions are blinded")
                continue
            for function, tests in original.items():
                names |= dict(zip(blinded_tests[function], tests, strict=True))
        return names

    def _expectations(
        self, solved: Results, unsolved: Results, session: Session, records: Mapping[str, list[tuple[int, Any]]]
    ) -> Expectations:
        blinded = _results(session)
        names = self._names(solved, blinded)
        texts = {each.path: each.blinded.blind for each in self._blinded()}
        sites = {
            site.number: BlindedAssertion(
                file=file.path,
                line=site.position[0],
                function=site.function,
                operator=site.operator,
                assertion=site.assertion,
                secret=round(site.secret, 1),
            )
            for file in self._blinded()
            for site in file.blinded.sites
        }
        witnesses = self._witnesses(sites, texts, dict(values_by_key(unsolved)), records)
        witnessed = {test for test, _, _ in witnesses.keys}
        fail_to_pass = self._context.validation.fail_to_pass
        failing = {
            name
            for name in fail_to_pass
            or (names.get(each, each) for each, how in blinded.tests.items() if how == "passed")
            if name.partition("::")[0] in self._context.hidden_files
            and (fail_to_pass or unsolved.tests.get(name) != "passed" or name in witnessed)
        }
        return Expectations(
            files=texts,
            names={name: task_name for name, task_name in names.items() if name != task_name},
            tests={name: tuple(each) for name, each in records.items() if self._is_selected(name)},
            sites={number: witnesses.annotate(number, site) for number, site in sites.items()},
            left=self._unblinded_counts(),
            size=session.size,
            fail_to_pass=len(failing),
            witnessed=len(witnessed & failing),
        )

    def _suitability(self, solved: Results, session: Session) -> Suitability:
        blinded = _results(session)
        names = self._names(solved, blinded)
        outcomes, why = (
            {names.get(name, name): value for name, value in each.items()}
            for each in (blinded.tests, blinded.tracebacks)
        )
        why |= blinded.not_collected
        return suitability(self._context, passing_before=self._passing_before, ended=outcomes, why=why)

    def _witnesses(
        self,
        sites: Mapping[int, BlindedAssertion],
        texts: Mapping[str, str],
        unsolved_values: Mapping[RecordKey, tuple[Any, Any]],
        records: Mapping[str, list[tuple[int, Any]]],
    ) -> Witnesses:
        """Find the assertions that the unfixed program fails, and rate their values."""
        unfixed_values: defaultdict[str, list[Any]] = defaultdict(list)
        for (_, number, _), (value, _) in unsolved_values.items():
            if number in sites:
                unfixed_values[sites[number].function].append(value)
        witnesses = Witnesses(self._context, texts, unfixed_values, recoverable_sites(self._blinded()))
        for test, expected_records in records.items():
            for key, expected in expected_by_key(test, expected_records):
                site, (unfixed, _) = sites[key[1]], unsolved_values.get(key, (MISSING, None))
                if unfixed is MISSING or not holds(site.operator, unfixed, expected):
                    witnesses.add(key, site, expected, unfixed)
        return witnesses

    # --- exclusions ---

    def _unblinded_counts(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for file in self._files:
            counts.update(
                file.blinded.unblinded if file.blinded is not None else {file.skip_reason: assertions_in(file.source)}
            )
        return dict(counts)

    def _blinded(self) -> Iterator[Any]:
        return (file for file in self._files if file.blinded is not None)

    def _sites(self) -> dict[int, Site]:
        return {site.number: site for file in self._blinded() for site in file.blinded.sites}

    def _excluded_counts(self) -> tuple[int, int]:
        return sum(len(file.excluded) for file in self._files), sum(bool(file.skip_reason) for file in self._files)

    def _file_of(self, number: int) -> HiddenFile:
        return self._files[number // SITES_PER_FILE]

    def _exclude_site(self, site: Site) -> None:
        self._file_of(site.number).excluded.add(site.position)

    def _exclude_functions(self, tests: Collection[str], *, required: Collection[str]) -> None:
        """Exclude all assertions of tests that do not pass.

        If a test is ``required``, assertions of helpers in its file are excluded as well, and if there are none to
        exclude, the whole file is skipped.
        """
        functions: defaultdict[tuple[str, str], bool] = defaultdict(bool)
        for test in tests:
            path, _, rest = test.partition("::")
            functions[path, rest.partition("[")[0].rpartition("::")[2]] |= test in required
        positions: dict[str, set[Position]] = {}
        for (path, function), is_required in functions.items():
            for file in self._blinded():
                if file.path != path:
                    continue
                enclosing = [(site, site.function.split("::")) for site in file.blinded.sites]
                affected = {site.position for site, names in enclosing if function in names}
                if is_required:
                    affected |= {site.position for site, names in enclosing if not names[-1].startswith("test")}
                positions.setdefault(path, set()).update(affected)
                if is_required and not affected:
                    file.skip("a test does not pass without code that was removed from its file")
        for file in self._blinded():
            file.excluded |= positions.get(file.path, set())

    def _run(self, files: Mapping[str, str], seed: str, *, solved: bool) -> Session:
        return run_session(self._context, self._all_parameters(), self._context.fork(solved), files, seed=seed)

    def _is_selected(self, name: str) -> bool:
        """Whether the command, which can name single parameters of a function, selects a test."""
        parametrized = [argument for argument in self._command.arguments if "[" in argument and "::" in argument]
        single = {f"{PurePosixPath(path)}::{rest}" for path, _, rest in (each.partition("::") for each in parametrized)}
        return name in single or name.partition("[")[0] not in {each.partition("[")[0] for each in single}

    def _all_parameters(self) -> PytestCommand:
        """The command with functions instead of single parameters, because blinded files have other parameter ids."""
        arguments = []
        for argument in self._command.arguments:
            path, colons, rest = argument.partition("::")
            is_hidden = bool(colons) and str(PurePosixPath(path)) in self._context.hidden_files
            arguments.append(f"{path}::{rest.partition('[')[0]}" if is_hidden else argument)
        return attrs.evolve(self._command, arguments=tuple(dict.fromkeys(arguments)))


def _results(session: Session) -> Results:
    results = require_results(session)
    if session.result.timed_out:
        raise CalibrationError("the tests timed out with the reference solution")
    if results is None or results.end is None:
        problem = "and without results"
    elif results.tests.get(session.must_pass) != "passed" or results.tests.get(session.must_fail) != "failed":
        problem = "and unexpected outcomes of the canary tests"
    else:
        return results
    raise CalibrationError(
        f"with the reference solution, the tests ended with exit code {session.result.exit_code} {problem}: "
        f"{session.result.last_lines(3)}"
    )


def _is_broken(path: str, results: Results) -> bool:
    return any(name.partition("::")[0] == path for name in results.not_collected)


def _by_function(path: str, results: Results) -> Mapping[str, list[str]]:
    """The tests of a file in collection order, grouped by their names without parameters."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    position = {name: index for index, name in enumerate(results.collected)}
    for name in sorted(results.tests, key=lambda name: position.get(name, len(position))):
        if name.partition("::")[0] == path:
            tests[name.partition("[")[0]].append(name)
    return tests
