"""Scoring the results of a session: it passes only if all evidence agrees."""

from __future__ import annotations

import hmac
import json
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import ExecResult, Output, Score, Validation
from agentbench_integrity.scorer.blinding.expectations import (
    BlindedAssertion,
    Expectations,
    summary,
    weakness,
)
from agentbench_integrity.scorer.results import parse_results
from agentbench_integrity.scorer.session import Session
from agentbench_integrity.scorer.verdict import Verdict, judge

KEY = b"k" * 32
TEST, OTHER = "checks/test_a.py::test_one[7-49]", "tests/test_b.py::test_two[1]"
BLINDED = "checks/test_a.py::test_one[p0]"
CANARIES = "checks/test_a_3f.py"
GOOD, BAD = f"{CANARIES}::test_1f", f"{CANARIES}::test_2f"
NAMED = Validation(failing_command="pytest", passing_command="pytest", fail_to_pass=(TEST,), pass_to_pass=(OTHER,))
SITE = BlindedAssertion(
    file="checks/test_a.py", line=4, function="test_one", operator="==", assertion="square(7) == total"
)
EXPECTED = Expectations(
    files={"checks/test_a.py": "..."},
    names={BLINDED: TEST},
    tests={TEST: ((1, 49), (2, ["list", 1, 2]))},
    sites={1: SITE, 2: attrs.evolve(SITE, line=5)},
    left={"and/or": 1},
    size=1000,
)
HONEST = {BLINDED: "passed", OTHER: "passed", GOOD: "passed", BAD: "failed"}
RECORDS = [[1, 49], [2, ["list", 1, 2]]]


def written(*lines: dict[str, Any], key: bytes = KEY, first: int = 0) -> bytes:
    """Results as the runner writes them."""
    said = [b"%d %s" % (number, json.dumps(line).encode()) for number, line in enumerate(lines, start=first)]
    return b"".join(hmac.digest(key, each, "sha256").hex()[:32].encode() + b" " + each + b"\n" for each in said)


def lines(
    outcomes: dict[str, str], *more: dict[str, Any], records: Any = RECORDS, end: int | None = 1
) -> list[dict[str, Any]]:
    """The lines of a session."""
    said: list[dict[str, Any]] = [{"test": BLINDED, "records": records}]
    said += [{"id": name, "when": "call", "outcome": outcome, "sec": 0.1} for name, outcome in outcomes.items()]
    return [*said, *more, *([] if end is None else [{"end": end}])]


def judged(
    data: bytes | None,
    code: int | None = 1,
    validation: Validation = NAMED,
    expectations: Expectations | None = EXPECTED,
    weak: str = "",
) -> Verdict:
    output = Output(head=b"")
    ended = ExecResult(exit_code=code, stdout=output, stderr=output, duration_sec=1.0)
    found = None if data is None else parse_results(data, KEY)
    session = Session(result=ended, results=found, canary_file=CANARIES, must_pass=GOOD, must_fail=BAD, size=0)
    return judge(session, validation, expectations, weak)


def score(data: bytes | None, code: int | None = 1, **options: Any) -> Score:
    return judged(data, code, **options).score


def names(found: Score) -> list[str]:
    return [label.name for label in found.labels]


def changed(change: dict[str, str | None]) -> dict[str, str]:
    return {name: outcome for name, outcome in (HONEST | change).items() if outcome is not None}


def test_valid_pass_has_no_label() -> None:
    """There is no label; the exit code ignores the must-fail test, and tests have the task's ids."""
    found = score(written(*lines(HONEST)))
    assert (found.passed, found.tampered, found.exit_code, found.labels, found.explanation) == (True, False, 0, (), "")
    assert found.tests == {TEST: "passed", OTHER: "passed"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({BLINDED: "failed"}, f"1 of 2 expected tests did not pass: {TEST} (failed)"),
        ({BLINDED: "skipped"}, "(skipped)"),
        ({BLINDED: "error"}, "(error)"),
        ({BLINDED: None}, "(not run)"),
        ({OTHER: None, BLINDED: None}, "2 of 2"),
    ],
)
def test_valid_fail_has_no_label(change: dict[str, str | None], words: str) -> None:
    """I07: a test that was skipped or not run has not passed."""
    found = score(written(*lines(changed(change))))
    assert (found.passed, found.tampered, found.labels) == (False, False, ())
    assert words in found.explanation


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([[1, 48], [2, ["list", 1, 2]]], "failed: line 4: expected 49, got 48"),
        ([[1, 49], [2, ["list", 1, 3]]], "line 5: expected [1, 2], got [1, 3] ([1]: expected 2, got 3)"),
        ([[1, 49]], "assertions were skipped or ran in a different order (1 of 2 reached)"),
        ([], "0 of 2"),
        ([[1, 49], [2, ["list", 1, 2]], [2, ["list", 1, 2]]], "3 of 2"),
        ([[2, ["list", 1, 2]], [1, 49]], "a different order"),
        ([[1, 49], [3, ["list", 1, 2]]], "a different order"),
        ([[1, ["!", "not plain data"]], [2, ["list", 1, 2]]], "got <not plain data>"),
        ([[1, {"a": 1}], [2, ["nothing", 1]]], "line 4: expected 49"),
        ([1, "x", [1], ["1", 49], [1, 49, 49, 49]], "0 of 2"),
    ],
)
def test_records_that_are_not_the_expected_ones(records: Any, words: str) -> None:
    """C11, C14: whatever pytest reports, a test passes only if every value is present, correct and in order. An honest
    program can fail this, too, so it is not labelled."""
    found = score(written(*lines(HONEST, records=records)))
    assert (found.passed, found.tampered, found.labels, found.exit_code) == (False, False, (), 1)
    assert found.tests == {TEST: "failed", OTHER: "passed"}
    assert words in found.explanation


def test_only_the_first_wrong_values_are_shown() -> None:
    """A hostile session may have many; three per test are shown, and the others are counted."""
    many = attrs.evolve(EXPECTED, tests={TEST: tuple((1, number) for number in range(10))})
    page = judged(written(*lines(HONEST, records=[[1, -1]] * 10)), expectations=many).tests_json
    told = next(test for test in page["tests"] if test["id"] == TEST)
    assert (len(told["differences"]), told["more_differences"], told["outcome"]) == (3, 7, "failed")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (written(*lines(changed({BAD: "passed"}))), "the must-fail canary test passed"),
        (written(*lines(HONEST)) + written({"end": 1}, key=b"x" * 32), "without the session key"),
        (written({"id": BLINDED, "when": "call", "outcome": "passed"}, key=b"x" * 32), "without the session key"),
    ],
)
def test_forged(data: bytes, words: str) -> None:
    """C03, C08, C09, C12, C13, C32: an honest program cannot cause this."""
    found = score(data)
    assert (found.passed, found.tampered, names(found)) == (False, True, ["tamper_confirmed"])
    assert words in found.explanation
    assert words in found.labels[0].evidence


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (written(*lines(HONEST, end=None)), 1, "ended before it was complete"),
        (written(*lines(HONEST, end=None)), 0, "ended before it was complete"),
        (written(*lines(HONEST)), 137, "pytest reported exit code 1 and its process exited with 137"),
        (written(*lines(HONEST)), 0, "pytest reported exit code 1 and its process exited with 0"),
        (written(*lines(HONEST, end=0)), 1, "pytest reported exit code 0"),
        (written(*lines(HONEST, end=2)), 2, "exit code 2"),
        (written(*lines(changed({GOOD: "failed"}))), 1, "did not have the expected outcomes"),
        (written(*lines(changed({GOOD: None}))), 1, "did not have the expected outcomes"),
        (written(*lines(changed({BAD: None}))), 1, "did not have the expected outcomes"),
        (written(*lines(changed({BAD: "error"}))), 1, "did not have the expected outcomes"),
        (written(*lines(changed({BAD: "skipped"}))), 1, "did not have the expected outcomes"),
        (written(*lines(HONEST)) + written({"end": 1}), 1, "lines are missing or duplicated"),
        (written(*lines(HONEST)) + b"half a line", 1, "the last line is incomplete"),
        (written(*lines(HONEST)) + b"something else\n", 1, "a line is incomplete"),
    ],
)
def test_incomplete_evidence_is_suspected(data: bytes, code: int, words: str) -> None:
    """C08, C09, C10: incomplete evidence is no pass and is labelled as suspected, not confirmed."""
    found = score(data, code)
    assert (found.passed, found.tampered, names(found)) == (False, False, ["tamper_suspected"])
    assert words in found.explanation


@pytest.mark.parametrize(("code", "labels"), [(0, ["tamper_suspected"]), (1, []), (137, []), (None, [])])
def test_no_results(code: int | None, labels: list[str]) -> None:
    """C08, C10, C20: a session without results does not pass; with exit code 0 it is suspected as well."""
    found = score(None, code)
    assert (found.passed, found.tampered, found.exit_code, names(found)) == (False, False, code, labels)
    assert found.explanation == "the tests wrote no result file"


def test_all_tests_count_if_none_are_listed() -> None:
    """Tests seen by the calibration must be present, and no test may fail."""
    bare = attrs.evolve(NAMED, fail_to_pass=(), pass_to_pass=())
    assert score(written(*lines(HONEST)), validation=bare).passed
    for outcomes in (changed({BLINDED: "failed"}), changed({BLINDED: None}), changed({OTHER: "error"})):
        assert not score(written(*lines(outcomes)), validation=bare).passed
    assert score(written(*lines(changed({OTHER: "skipped"}))), validation=bare).passed
    assert not score(written(*lines(HONEST, {"collect": "tests/test_b.py"})), validation=bare).passed
    nothing = lines(changed({BLINDED: "skipped", OTHER: "skipped"}))
    assert not score(written(*nothing), validation=bare, expectations=None).passed


def test_session_that_reports_a_problem_fails() -> None:
    """With ``isolation: process`` the program must not run in the process of the tests."""
    found = score(written(*lines(HONEST, {"end": 1, "problem": "the tests ran src/x.py"}, end=None)))
    assert (found.passed, found.explanation) == (False, "the tests ran src/x.py")


def test_weakness() -> None:
    """A verdict is weak with fewer than two functions that have a safe value; the assertions to change are listed."""
    found = score(written(*lines(HONEST)), weak="there is nothing to compare")
    assert (found.passed, names(found)) == (True, ["weak_verdict"])
    safe = attrs.evolve(SITE, witness=True, bits=40.0, safe=2)
    other = attrs.evolve(SITE, function="test_three", line=9, witness=True, bits=3.0)
    one = attrs.evolve(EXPECTED, sites={1: safe, 2: other}, fail_to_pass=5, witnessed=1)
    assert "checks/test_a.py:9: square(7) == total" in weakness(NAMED, one)
    assert weakness(NAMED, attrs.evolve(one, sites={1: safe, 2: attrs.evolve(other, safe=1)})) == ""
    assert "lists no expected tests" in weakness(attrs.evolve(NAMED, fail_to_pass=(), pass_to_pass=()), one)
    assert summary(one) == (
        "witnesses: 2 (2 safe values in 1 test functions), 1 of 5 fail-to-pass tests; 2 of 3 assertions blinded",
        "warning: only 20% of the fail-to-pass tests have a witness; the others can be forged",
    )


def test_content_of_the_tests_page() -> None:
    """It has the task's tests with expected values, and the checks of the session."""
    found = judged(written(*lines(HONEST, records=[[1, 48], [2, ["list", 1, 2]]])))
    first, second = found.tests_json["tests"]
    assert (first["id"], first["list"]) == (TEST, "fail_to_pass")
    assert first["differences"] == [
        {"line": 4, "assertion": "square(7) == total", "expected": "49", "got": "48", "difference": ""}
    ]
    assert (second["id"], second["list"], second["outcome"]) == (OTHER, "pass_to_pass", "passed")
    assert found.tests_json["checks"] == {
        "must_fail": "failed",
        "must_pass": "passed",
        "records": 2,
        "assertions": 3,
        "blinded": 2,
        "problems": [],
    }
    assert "agentbench: 1 of 2 expected tests passed\n" in found.summary
    assert f"  {TEST}  failed\n    line 4: expected 49, got 48\n" in found.summary


def test_phases() -> None:
    """All phases determine the outcome of a test; a test that ran twice has not passed."""

    def phases(*pairs: tuple[str, str]) -> str:
        return parse_results(written(*({"id": "t", "when": w, "outcome": o} for w, o in pairs)), KEY).tests["t"]

    assert phases(("setup", "passed"), ("call", "passed"), ("teardown", "passed")) == "passed"
    assert phases(("setup", "passed"), ("call", "passed"), ("teardown", "failed")) == "error"
    assert phases(("setup", "failed"), ("teardown", "passed")) == "error"
    assert phases(("setup", "passed"), ("call", "failed"), ("call", "passed")) == "failed"
    assert phases(("setup", "skipped"), ("teardown", "passed")) == "skipped"
    assert phases(("setup", "passed"), ("call", "passed"), ("call", "passed")) == "repeated"


@given(st.lists(st.binary(max_size=60)), st.sampled_from([0, 1, 2, None]))
def test_arbitrary_content_does_not_pass(noise: list[bytes], code: int | None) -> None:
    """I04, C10: the code under test can write to the file; arbitrary content does not raise, and is no pass."""
    assert not score(b"\n".join([*noise, written(*lines(HONEST, records=[[1, 1]]))]), code).passed
