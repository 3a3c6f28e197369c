"""Find out what blinded tests must record: with the reference solution, and on the unfixed program.

Three runs as a rule: both sides of each assertion with the reference solution, both sides on the unfixed program, and
the blinded files with the reference solution under another seed of Python's hashes. What differs, has no plain value,
depends on the program, or breaks, stays as it is in the next run; most files need no further one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import attrs

from agentbench_core import CalibrationContext, CalibrationError, Suitability, Tree, suitability
from agentbench_integrity.scorer.blinding.cutting import Place, Site
from agentbench_integrity.scorer.blinding.expectations import BlindedAssertion, Expectations
from agentbench_integrity.scorer.blinding.hidden import (
    SITES,
    HiddenFile,
    assertions_in,
    hidden_files,
    top_modules,
)
from agentbench_integrity.scorer.blinding.survivors import surviving
from agentbench_integrity.scorer.blinding.values import holds, is_value
from agentbench_integrity.scorer.blinding.witnesses import MISSING, Witnesses
from agentbench_integrity.scorer.pytest_command import PytestCommand
from agentbench_integrity.scorer.results import Key, Results, keyed, numbered
from agentbench_integrity.scorer.session import Session, run_session
from agentbench_integrity.scorer.suitability import check_tests, passed, results_of

_TURNS = 8
_LONGEST = 100_000  # characters of a value: half of what the recorder takes
_SEEDS = "1", "2"


def calibrate(context: CalibrationContext, command: PytestCommand) -> tuple[Expectations, Suitability]:
    """Calibrate a task in its environment.

    Raises:
        CalibrationError: the reference solution's tests do not end, or leave no results.
        NotStartedError: pytest cannot be started.
        SandboxError: the machinery broke.
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
            nothing = Expectations(files={}, names={}, tests={}, sites={}, left=self._left(), size=0)
            return nothing, check_tests(self._context, self._command)
        solved, unsolved = self._with_both_sides()
        for _ in range(_TURNS):
            blinded = self._run({each.path: each.blinded.blind for each in self._blinded()}, _SEEDS[1], solved=True)
            before = self._state()
            records = self._compare(solved, blinded)
            if self._state() == before:
                return self._expectations(solved, unsolved, blinded, records), self._suitability(solved, blinded)
            for file in self._files:
                file.blind(self._program)
        raise CalibrationError("the blinded tests did not become stable with the reference solution")

    def _with_both_sides(self) -> tuple[Results, Results]:
        """The runs that record both sides; what they show not to work is taken out."""
        while True:
            files = {each.path: each.blinded.both for each in self._blinded()}
            solved = _results(self._run(files, _SEEDS[0], solved=True))
            broken = [each for each in self._blinded() if _is_broken(each.path, solved)]
            for file in broken:
                file.leave("the file cannot be collected with its assertions blinded")
            if not broken:
                break
        session = self._run(files, _SEEDS[0], solved=False)
        unsolved = results_of(session) or Results(tests={})
        sites = self._sites()
        self._leave_functions(
            [name for name, outcome in solved.tests.items() if outcome not in ("passed", "skipped")],
            needed=frozenset(self._context.validation.expected_tests or solved.tests),
        )
        given = dict(keyed(unsolved))
        wrong = {
            key[0] for key, sides in given.items() if key[1] in sites and not holds(sites[key[1]].operator, *sides)
        }
        missing = {key[0] for key, _ in keyed(solved) if key not in given}
        self._passing_before = frozenset({*passed(unsolved)} - wrong - missing)
        for key, (value, expected) in keyed(solved):
            site = sites.get(key[1])
            if site is None:
                continue
            plain = is_value(value) and is_value(expected, wanted=True)
            plain = plain and max(len(str(value)), len(str(expected))) <= _LONGEST
            same = key not in given or given[key][1] == expected
            if not plain or not same or not holds(site.operator, value, expected):
                self._leave_site(site)
        for file in self._files:
            file.blind(self._program)
        return solved, unsolved

    def _compare(self, solved: Results, session: Session) -> Mapping[str, list[tuple[int, Any]]]:
        """Hold a run of the blinded files against the one with both sides; gives what each test must record."""
        blinded = _results(session)
        names = self._names(solved, blinded)
        sites = self._sites()
        wanted: dict[str, list[tuple[int, Any]]] = {}
        broken: list[str] = []
        for name, outcome in blinded.tests.items():
            meant = names.get(name, name)
            records = [(site, expected) for site, _, expected in solved.records.get(meant, ()) if site in sites]
            values = [(each[0], each[1]) for each in blinded.records.get(name, ())]
            if outcome not in ("passed", "skipped") and solved.tests.get(meant) in ("passed", "skipped"):
                broken.append(meant)
            elif [site for site, _ in records] != [site for site, _ in values]:
                differ = Counter(site for site, _ in records)
                differ.subtract(Counter(site for site, _ in values))
                odd = {site for site, times in differ.items() if times} or {site for site, _ in records}
                for site in odd & sites.keys():
                    self._leave_site(sites[site])
            else:
                for (site, expected), (_, value) in zip(records, values, strict=True):
                    if not holds(sites[site].operator, value, expected):
                        self._leave_site(sites[site])
            if outcome == "passed" and records:
                wanted[meant] = records
        self._leave_functions(broken, needed=frozenset(broken))
        return wanted

    def _names(self, solved: Results, blinded: Results) -> Mapping[str, str]:
        """The task's names of the tests of blinded files; a file whose tests are not the same ones is left as it is."""
        names: dict[str, str] = {}
        for file in self._blinded():
            mine, theirs = _by_function(file.path, solved), _by_function(file.path, blinded)
            if {name: len(each) for name, each in mine.items()} != {name: len(each) for name, each in theirs.items()}:
                file.leave("its tests are not the same ones with its assertions blinded")
                continue
            for function, tests in mine.items():
                names |= dict(zip(theirs[function], tests, strict=True))
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
                line=site.place[0],
                function=site.function,
                operator=site.operator,
                assertion=site.assertion,
                secret=round(site.secret, 1),
            )
            for file in self._blinded()
            for site in file.blinded.sites
        }
        found = self._witnesses(sites, texts, dict(keyed(unsolved)), records)
        witnessed = {test for test, _, _ in found.seen}
        listed = self._context.validation.fail_to_pass
        failing = {
            name
            for name in listed or (names.get(each, each) for each, how in blinded.tests.items() if how == "passed")
            if name.partition("::")[0] in self._context.hidden_files
            and (listed or unsolved.tests.get(name) != "passed" or name in witnessed)
        }
        return Expectations(
            files=texts,
            names={name: meant for name, meant in names.items() if name != meant},
            tests={name: tuple(each) for name, each in records.items() if self._is_meant(name)},
            sites={number: found.of(number, site) for number, site in sites.items()},
            left=self._left(),
            size=session.size,
            fail_to_pass=len(failing),
            witnessed=len(witnessed & failing),
        )

    def _suitability(self, solved: Results, session: Session) -> Suitability:
        blinded = _results(session)
        names = self._names(solved, blinded)
        ended, why = (
            {names.get(name, name): told for name, told in each.items()} for each in (blinded.tests, blinded.why)
        )
        why |= blinded.not_collected
        return suitability(self._context, passing_before=self._passing_before, ended=ended, why=why)

    def _witnesses(
        self,
        sites: Mapping[int, BlindedAssertion],
        texts: Mapping[str, str],
        given: Mapping[Key, tuple[Any, Any]],
        records: Mapping[str, list[tuple[int, Any]]],
    ) -> Witnesses:
        """Find the assertions that the unfixed program fails, and weigh their values."""
        near: defaultdict[str, list[Any]] = defaultdict(list)
        for (_, number, _), (value, _) in given.items():
            if number in sites:
                near[sites[number].function].append(value)
        found = Witnesses(self._context, texts, near, surviving(self._blinded()))
        for test, wanted in records.items():
            for key, expected in numbered(test, wanted):
                site, (unfixed, _) = sites[key[1]], given.get(key, (MISSING, None))
                if unfixed is MISSING or not holds(site.operator, unfixed, expected):
                    found.add(key, site, expected, unfixed)
        return found

    # --- what stays as it is ---

    def _left(self) -> Mapping[str, int]:
        left = Counter[str]()
        for file in self._files:
            left.update(file.blinded.left if file.blinded is not None else {file.as_it_is: assertions_in(file.source)})
        return dict(left)

    def _blinded(self) -> Iterator[Any]:
        return (file for file in self._files if file.blinded is not None)

    def _sites(self) -> dict[int, Site]:
        return {site.number: site for file in self._blinded() for site in file.blinded.sites}

    def _state(self) -> tuple[int, int]:
        return sum(len(file.without) for file in self._files), sum(bool(file.as_it_is) for file in self._files)

    def _file_of(self, number: int) -> HiddenFile:
        return self._files[number // SITES]

    def _leave_site(self, site: Site) -> None:
        self._file_of(site.number).without.add(site.place)

    def _leave_functions(self, tests: Collection[str], *, needed: Collection[str]) -> None:
        """Take out all assertions of tests that do not pass.

        If a test is ``needed``, those of its file's helpers go, too. Where there are none, the file stays as it is.
        """
        functions: defaultdict[tuple[str, str], bool] = defaultdict(bool)
        for test in tests:
            path, _, rest = test.partition("::")
            functions[path, rest.partition("[")[0].rpartition("::")[2]] |= test in needed
        found: dict[str, set[Place]] = {}
        for (path, function), is_needed in functions.items():
            for file in self._blinded():
                if file.path != path:
                    continue
                around = [(site, site.function.split("::")) for site in file.blinded.sites]
                places = {site.place for site, names in around if function in names}
                if is_needed:
                    places |= {site.place for site, names in around if not names[-1].startswith("test")}
                found.setdefault(path, set()).update(places)
                if is_needed and not places:
                    file.leave("a test does not pass without what was cut out of its file")
        for file in self._blinded():
            file.without |= found.get(file.path, set())

    def _run(self, files: Mapping[str, str], seed: str, *, solved: bool) -> Session:
        return run_session(self._context, self._all_parameters(), self._context.fork(solved), files, seed=seed)

    def _is_meant(self, name: str) -> bool:
        """Whether the command runs a test, if it names some parameters of its function alone."""
        named = [argument for argument in self._command.arguments if "[" in argument and "::" in argument]
        single = {f"{PurePosixPath(path)}::{rest}" for path, _, rest in (each.partition("::") for each in named)}
        return name in single or name.partition("[")[0] not in {each.partition("[")[0] for each in single}

    def _all_parameters(self) -> PytestCommand:
        """The command with whole functions in place of single parameters, whose names are others in blinded files."""
        said = []
        for argument in self._command.arguments:
            path, colons, rest = argument.partition("::")
            whole = bool(colons) and str(PurePosixPath(path)) in self._context.hidden_files
            said.append(f"{path}::{rest.partition('[')[0]}" if whole else argument)
        return attrs.evolve(self._command, arguments=tuple(dict.fromkeys(said)))


def _results(session: Session) -> Results:
    found = results_of(session)
    if session.result.timed_out:
        raise CalibrationError("the tests of the reference solution ran out of time")
    if found is None or found.end is None:
        without = "without results"
    elif found.tests.get(session.must_pass) != "passed" or found.tests.get(session.must_fail) != "failed":
        without = "did not run as they must"
    else:
        return found
    raise CalibrationError(
        f"the tests of the reference solution ended with exit code {session.result.exit_code}, and {without}: "
        f"{session.result.last_lines(3)}"
    )


def _is_broken(path: str, found: Results) -> bool:
    return any(name.partition("::")[0] == path for name in found.not_collected)


def _by_function(path: str, found: Results) -> Mapping[str, list[str]]:
    """The tests of a file in the order in which they stand there, by their names without parameters."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    place = {name: index for index, name in enumerate(found.collected)}
    for name in sorted(found.tests, key=lambda name: place.get(name, len(place))):
        if name.partition("::")[0] == path:
            tests[name.partition("[")[0]].append(name)
    return tests
