"""Run the tests of a candidate: without the fix, with it, and as agents can run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

import attrs

from agentbench_core import Command, CommandContext, CommandResult, Tree, quantity
from agentbench_core.harness import JUNIT_FILE, Prepared, Session, Task, junit_outcomes, with_junit
from agentbench_tasks.mining.splitting import Split, is_test_module
from agentbench_tasks.mining.values import Code, RejectedError

_FAILED = ("failed", "error", None)  # None: the test could not be collected
_MOST_EXCLUDED = 20
_RELATED = 5
_USAGE_ERROR = 4  # exit code of pytest
_MOST_CHARACTERS = 200_000
_LARGEST_REPORT = 64 << 20
_PYTEST = "python -m pytest -q"
_SESSION = "--rootdir=. --maxfail=0 --continue-on-collection-errors"
"""As in the `tests` scorer: ids are relative to the workspace, and no failure ends the session."""
_MISSING = re.compile(r"\bNo module named '([\w.]{1,100})'")
_READ = 100  # lines of output


@attrs.frozen(kw_only=True)
class Outcomes:
    """The results of the tests without and with the fix."""

    command: str  #: the test command, without files that cannot be collected even with the fix
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    writable: bool  #: whether the tests must be able to write to the workspace


@attrs.frozen(kw_only=True)
class PublicCommand:
    """A command that agents can run."""

    command: str
    passes: bool  #: whether it passes without the fix, because public tests do not cover the bug


@attrs.frozen(kw_only=True)
class Trials:
    """Runs of tests on forks of one prepared environment."""

    session: Session
    task: Task
    prepared: Prepared
    split: Split
    public: frozenset[str]  #: paths of the repository before the fix
    timeout_sec: float  #: time limit for one run
    options: tuple[str, ...] = ()  #: options of pytest in every command
    junit: str = ""  #: path of the JUnit report that the task's own test command writes; empty for pytest
    custom: bool = False  #: whether the commands are the user's, not pytest's

    def compare(self, command: str) -> Outcomes:
        """Run the tests without and with the fix. Raises RejectedError if there is no test that the fix makes pass."""
        writable = False
        fixed, after = self._run(command, hidden=True, fixed=True, writable=False)
        if not fixed.timed_out and (not self._passing(fixed, after) or _any_failed(after)):
            again, outcomes = self._run(command, hidden=True, fixed=True, writable=True)
            if self._passing(again, outcomes) > self._passing(fixed, after):  # tests must be able to write files
                writable, fixed, after = True, again, outcomes
        if fixed.timed_out:
            raise RejectedError(Code.TIMEOUT, f"the tests timed out with the fix, after {self.timeout_sec:g} s")
        if not self._passing(fixed, after):
            if not self.custom and fixed.exit_code == _USAGE_ERROR:
                raise RejectedError(Code.ENVIRONMENT_FAILED, f"pytest could not be started: {_error_line(fixed)}")
            if not self.custom and (missing := _MISSING.search(fixed.last_lines(_READ))):
                message = f"no test passes with the fix, because the module {missing[1]} is not installed"
                raise RejectedError(Code.ENVIRONMENT_FAILED, message)
            if not after and (not self.custom or self.junit):
                raise RejectedError(Code.NO_TESTS_FOUND, f"no test ran: {_last_line(fixed)}")
            raise RejectedError(Code.FIX_FAILS, f"no test passes with the fix: {_last_line(fixed)}")
        if not self.custom:
            broken = _not_collected(after)
            command = shlex.join([word for word in shlex.split(command) if word not in broken])
        unfixed, before = self._run(command, hidden=True, fixed=False, writable=writable)
        if unfixed.timed_out:
            raise RejectedError(Code.TIMEOUT, f"the tests timed out without the fix, after {self.timeout_sec:g} s")
        if self.custom and not after:
            return self._by_exit_code(command, unfixed, fixed, writable=writable)
        passing = [name for name, outcome in after.items() if outcome == "passed"]
        fail_to_pass = tuple(name for name in passing if before.get(name) in _FAILED)
        if not fail_to_pass:
            tests = quantity(len(passing), "test")
            raise RejectedError(
                Code.TESTS_PASS_BEFORE, f"every test that passes with the fix also passes without it ({tests})"
            )
        return Outcomes(
            command=command,
            fail_to_pass=fail_to_pass,
            pass_to_pass=tuple(name for name in passing if before.get(name) == "passed"),
            writable=writable,
        )

    def _by_exit_code(self, command: str, unfixed: CommandResult, fixed: CommandResult, *, writable: bool) -> Outcomes:
        if unfixed.ok:
            raise RejectedError(Code.TESTS_PASS_BEFORE, "the test command also passes without the fix")
        if not fixed.ok:
            raise RejectedError(Code.FIX_FAILS, f"the test command fails with the fix: {_last_line(fixed)}")
        return Outcomes(command=command, fail_to_pass=(), pass_to_pass=(), writable=writable)

    def public_command(self, outcomes: Outcomes) -> PublicCommand:
        """A command that agents can run: tests of the affected part, which pass, or fail because of the bug.

        Raises RejectedError if none works.
        """
        if self.custom:
            command = self.task.spec.validation.passing_command
            result, _ = self._run(command, hidden=False, fixed=False, writable=outcomes.writable)
            return PublicCommand(command=command, passes=result.ok)
        files = list(dict.fromkeys(name.partition("::")[0] for name in outcomes.fail_to_pass))
        failure = RejectedError(Code.INVALID, "there is no public test")
        for targets in self._targets(files):
            command = shlex.join([*_PYTEST.split(), *self.options, *targets])
            result, tests = self._run(command, hidden=False, fixed=False, writable=outcomes.writable)
            failing = [name for name, outcome in tests.items() if outcome in ("failed", "error")]
            excluded = [name for name in failing if name not in outcomes.fail_to_pass]
            if excluded and len(excluded) <= _MOST_EXCLUDED and not result.timed_out:
                command = shlex.join(
                    [*_PYTEST.split(), *self.options, *_without(targets, excluded, _not_collected(tests))]
                )
                result, tests = self._run(command, hidden=False, fixed=False, writable=outcomes.writable)
                failing = [name for name, outcome in tests.items() if outcome in ("failed", "error")]
            if not result.timed_out and tests and set(failing).issubset(outcomes.fail_to_pass):
                return PublicCommand(command=command, passes=result.ok)
            if result.timed_out:
                message = f"`{command}` timed out without the hidden tests, after {self.timeout_sec:g} s"
                failure = RejectedError(Code.TIMEOUT, message)
            else:
                message = f"no public test command works; `{command}` failed: {_last_line(result)}"
                failure = RejectedError(Code.INVALID, message)
        raise failure

    def _targets(self, files: Sequence[str]) -> Sequence[Sequence[str]]:
        """Arguments of public commands: existing files of the failing tests, else their directories, else all tests."""
        existing = [file for file in files if file in self.public]
        if existing:
            return [existing]
        directories = list(dict.fromkeys(str(PurePosixPath(file).parent) for file in files))
        inhabited = [name for name in directories if any(self._is_test_in(path, name) for path in self.public)]
        return [[name for name in inhabited if name != "."], []] if inhabited else [[]]

    @staticmethod
    def _is_test_in(path: str, directory: str) -> bool:
        return is_test_module(path) and PurePosixPath(directory) in PurePosixPath(path).parents

    def _run(
        self, command: str, *, hidden: bool, fixed: bool, writable: bool
    ) -> tuple[CommandResult, Mapping[str, str]]:
        shared, made = self.session.shared, []

        def keep(path: Path) -> Path:
            made.append(path)
            return path

        try:
            workspace = keep(shared.fork(self.task, self.prepared.environment, "mining", hidden=hidden))
            if fixed:
                self._fix(workspace)
            context = CommandContext(
                environment=self.prepared.environment,
                validation=self.task.spec.validation,
                scratch=lambda name: keep(shared.empty(name)),
                network=False,
                deadline=self.session.stop.within(self.timeout_sec),
            )
            text = self._with_report(command)
            result = context.run(
                Command(text, read_only=not writable), workspace, files=[JUNIT_FILE], at_most=_LARGEST_REPORT
            )
            self.session.stop.check()
            report = result.files.get(JUNIT_FILE, b"")
            return result, junit_outcomes(report, list(self.split.hidden)) if report else {}
        finally:
            for path in made:
                shared.discard(path)

    def _with_report(self, command: str) -> str:
        if not self.custom:
            return with_junit(command, _SESSION)
        if not self.junit:
            return command
        return f'{command}\ncode=$?; cp {shlex.quote(self.junit)} "$AGENTBENCH_RESULTS/{JUNIT_FILE}"; exit $code'

    def _fix(self, workspace: Path) -> None:
        with Tree(workspace) as tree:
            for path, file in self.split.changed.items():
                if file is not None:
                    tree.write(path, file.data, executable=file.executable)
                elif path in set(tree.files()):
                    tree.remove(path)

    def _passing(self, result: CommandResult, tests: Mapping[str, str]) -> int:
        """The number of tests that passed; of a command without a report, 1 if it succeeded."""
        if result.timed_out:
            return 0
        if self.custom and not tests:
            return int(result.ok)
        return sum(outcome == "passed" for outcome in tests.values())


def _any_failed(tests: Mapping[str, str]) -> bool:
    return not {"failed", "error"}.isdisjoint(tests.values())


def test_command(split: Split, public: frozenset[str], options: Sequence[str]) -> str:
    """The passing command: the hidden test files, and a few public ones of the changed source files.

    If only test data or helpers changed, it names the nearest directories that contain public tests.
    """
    named = list(split.test_modules)
    tested = {PurePosixPath(file).parent for file in public if is_test_module(file)}
    # A file with another name is a test if public tests are next to it; otherwise, it may be data that looks like a
    # test.
    modules = [path for path in named if is_test_module(path) or PurePosixPath(path).parent in tested]
    if not modules:
        helpers = [path for path in split.hidden if PurePosixPath(path).name != "conftest.py"]
        modules = [*dict.fromkeys(found for path in helpers if (found := _nearest(path, tested)))] or named
    if not modules:
        raise RejectedError(Code.NO_TESTS_FOUND, "only test helpers changed, not test modules")
    related = [path for path in _related(split, public) if not any(path.startswith(f"{name}/") for name in modules)]
    return shlex.join([*_PYTEST.split(), *options, *modules, *related])


def _nearest(path: str, tested: Collection[PurePosixPath]) -> str:
    """The directory in ``tested`` above ``path`` that is nearest to it; empty if that is only the root."""
    return next((str(parent) for parent in PurePosixPath(path).parents[:-1] if parent in tested), "")


def _related(split: Split, public: frozenset[str]) -> Sequence[str]:
    """Public test files that are named after a changed source file."""
    stems = {PurePosixPath(path).stem.strip("_") for path in split.changed if path.endswith(".py")} - {"init", ""}
    named = sorted(
        path
        for path in public
        if path.endswith(".py")
        and is_test_module(path)
        and PurePosixPath(path).stem.removeprefix("test_").removesuffix("_test") in stems
        and path not in split.hidden
    )
    return named[:_RELATED]


def sample(names: Sequence[str], most: int) -> Sequence[str]:
    """Names spread evenly over all of them, if they are too many or too long for a task file."""
    most = min(most, _MOST_CHARACTERS // max((len(name) or 1 for name in names), default=1))
    if len(names) <= most:
        return names
    return [names[number * len(names) // most] for number in range(most)]


def _without(targets: Sequence[str], tests: Sequence[str], files: Collection[str]) -> Sequence[str]:
    """Arguments of pytest for ``targets`` without some tests, and without files that cannot be collected."""
    ignored = [f"--ignore={file}" for file in sorted(files) if file not in targets]
    deselected = [f"--deselect={name}" for name in tests if name.partition("::")[0] not in files]
    return [*(target for target in targets if target not in files), *ignored, *deselected]


def _not_collected(tests: Mapping[str, str]) -> frozenset[str]:
    """The files that pytest could not collect. It reports each of them as a test with the name of the module."""
    files = {name.partition("::")[0] for name, outcome in tests.items() if outcome == "error"}
    return frozenset(file for file in files if f"{file}::{_module(file)}" in tests)


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _error_line(result: CommandResult) -> str:
    """The line of a usage error that states the problem; after it, pytest prints where it searched."""
    lines = f"{result.stdout.text}\n{result.stderr.text}".splitlines()
    return next((line.strip()[:200] for line in lines if "error:" in line), _last_line(result))


def _last_line(result: CommandResult) -> str:
    lines = result.last_lines(1)
    return lines[:200] if lines else f"exit code {result.exit_code}, no output"
