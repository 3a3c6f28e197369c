"""The ``plain`` scorer trusts the passing command's report. It is a baseline for evaluating the ``tests`` scorer."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError

import attrs
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from agentbench_core import (
    Calibration,
    CalibrationContext,
    Command,
    CommandContext,
    CommandResult,
    Label,
    Score,
    ScoringContext,
    check_command,
    not_passed,
    suitability,
)
from agentbench_core.builtin.options import PlainOptions

LARGEST_REPORT = 64 << 20  # maximum bytes
MOST_TESTS = 200_000
_DEEPEST = 64
"""Maximum parts of a dotted name that are considered."""

JUNIT_FILE = "junit.xml"
"""Name of pytest's report in the results directory."""
# The results directory may have any name, so it is quoted for pytest, which splits this variable like a shell.
_WITH_JUNIT = f"--junitxml='$AGENTBENCH_RESULTS/{JUNIT_FILE}' -o junit_family=xunit1"
_PYTEST = re.compile(r"(?<![\w.-])(?:pytest|py\.test)(?![\w.-])")
_WEAK = Label(name="weak_verdict", evidence="the `plain` scorer trusts what the tests report")


def with_junit(command: str, options: str = "") -> str:
    """The command with a variable that makes every pytest in it write a report that :func:`junit_outcomes` can read.

    ``options`` are additional pytest options, without characters that are special in a shell.
    """
    return f'export PYTEST_ADDOPTS="{_WITH_JUNIT} {options}"; {command}'


def junit_outcomes(data: bytes, known: Collection[str] = ()) -> Mapping[str, str]:
    """Outcome by pytest id: ``passed``, ``failed``, ``error``, ``skipped``, or ``repeated`` for an ambiguous id.

    ``known`` names files that contain tests, since a file whose tests are all inherited is not in the report.
    Needs ``junit_family=xunit1``, which reports the file of each test. Damaged or hostile XML yields no outcomes.
    """
    try:
        cases = list(_cases(data))
    except (ParseError, DefusedXmlException, ValueError, LookupError):  # the encoding may be unknown
        return {}
    if len(cases) > MOST_TESTS:
        return {}
    files = {_module(file): file for file in sorted({*known, *(case.get("file", "") for case, _ in cases)})}
    results = [(test_id(case, files), outcome) for case, outcome in cases]
    times = Counter(name for name, _ in results)
    return {name: outcome if times[name] == 1 else "repeated" for name, outcome in results}


def _cases(data: bytes) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield attributes and outcome of each test, at most one more than allowed, and discard the rest of the tree."""
    above: list[Element] = []
    number = 0
    for event, element in iterparse(io.BytesIO(data), events=("start", "end")):
        if event == "start":
            above.append(element)
            continue
        above.pop()
        if element.tag == "testcase":
            yield dict(element.attrib), _outcome(element)
            number += 1
            if number > MOST_TESTS:
                return
        if above and not any(each.tag == "testcase" for each in above):
            above[-1].remove(element)


def test_id(case: Mapping[str, str], files: Mapping[str, str]) -> str:
    """``tests/test_x.py::TestY::test_z[param]``, from the attributes ``file``, ``classname`` and ``name``.

    ``file`` is where a test is defined. An inherited test is collected in another file: one of ``files``, which maps
    module names to paths.
    """
    file, classname, name = (case.get(key, "") for key in ("file", "classname", "name"))
    parts = classname.split(".")[:_DEEPEST]
    modules = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    file = next((files[module] for module in modules if files.get(module)), file)
    inner = classname.removeprefix(_module(file)).strip(".")
    return "::".join(part for part in (file, *inner.split("."), name) if part)


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _outcome(case: Element) -> str:
    for tag, outcome in (("error", "error"), ("failure", "failed"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return outcome
    return "passed"


@attrs.frozen
class PlainScorer:
    """With expected test ids, pytest's report must list each of them as passed; otherwise, exit code 0 passes.

    As for every scorer, changes to protected files are dropped. Nothing else is checked.
    """

    options: PlainOptions

    def calibrate(self, context: CalibrationContext) -> Calibration:
        """Check whether the task can be scored here; nothing is cached."""
        validation = context.validation
        if not _PYTEST.search(validation.passing_command):
            match = check_command(context)
            return Calibration(data={}, obstacle=match.obstacle, not_failing=match.not_failing)
        unfixed: Mapping[str, str] = {}
        if validation.fail_to_pass or validation.passing_command != validation.failing_command:
            result, ended = self._run(context, context.fork(False))
            if ended is None and not result.timed_out:
                why = f"pytest could not be started in the environment: {result.last_lines(3)}"
                return Calibration(data={}, obstacle=why)
            unfixed = ended or {}
        solved, printed = None, ""
        if validation.expected_tests and context.has_reference:
            result, solved = self._run(context, context.fork(True))
            printed = _raised(result) or result.last_lines(3)
        passing = [name for name, outcome in unfixed.items() if outcome == "passed"]
        match = suitability(context, passing_before=passing, ended=solved, why={})
        obstacle = f"{match.obstacle}\n{printed}" if match.obstacle else ""
        return Calibration(data={}, obstacle=obstacle, not_failing=match.not_failing)

    def score(self, context: ScoringContext) -> Score:
        """Run the passing command once. With expected test ids, each of them must occur once and have passed."""
        expected = context.validation.expected_tests
        result, outcome = self._run(context, context.fork(), report_tests=bool(expected) or context.per_test)
        context.save_output(result)
        if result.timed_out:
            context.deadline.check()
            return Score(
                passed=False, exit_code=None, timed_out=True, explanation="the tests timed out", labels=(_WEAK,)
            )
        if not expected:
            return Score(passed=result.ok, exit_code=result.exit_code, tests=outcome, labels=(_WEAK,))
        missing = not_passed(expected, outcome)
        return Score(
            passed=not missing, exit_code=result.exit_code, explanation=missing, tests=outcome or {}, labels=(_WEAK,)
        )

    def _run(
        self, context: CommandContext, workspace: Path, *, report_tests: bool = True
    ) -> tuple[CommandResult, Mapping[str, str] | None]:
        """The result of the passing command, and each test by its id if ``report_tests`` and pytest reported it."""
        validation = context.validation
        read_only = self.options.read_only and not validation.writable
        command = Command(
            with_junit(validation.passing_command) if report_tests else validation.passing_command, read_only=read_only
        )
        result = context.run(command, workspace, files=[JUNIT_FILE], at_most=LARGEST_REPORT)
        report = result.files.get(JUNIT_FILE) if report_tests else None
        hidden = context.hidden if isinstance(context, (ScoringContext, CalibrationContext)) else ()
        known = {*hidden, *(test.partition("::")[0] for test in validation.expected_tests)}
        return result, None if report is None else junit_outcomes(report, known)


def _raised(result: CommandResult) -> str:
    """The last line of an exception that pytest printed; empty if there is none."""
    lines = [line[1:].strip() for line in result.stdout.text.splitlines() if line.startswith("E  ")]
    return lines[-1] if lines else ""
