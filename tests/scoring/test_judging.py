"""From what a session left behind to a score: only what all evidence agrees on is a pass."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench_core import Score, Validation
from agentbench_core.builtin.tests_scorer.additions import Additions
from agentbench_core.builtin.tests_scorer.judging import Session, judge
from agentbench_core.builtin.tests_scorer.results import results
from agentbench_core.builtin.tests_scorer.twins import Twin

TEST, OTHER = "checks/test_a.py::test_one", "tests/test_b.py::test_two[1]"
TWIN = Twin(id=f"{TEST}#1")
ADDED = Additions(
    canaries="checks/test_a_3f.py",
    must_pass="checks/test_a_3f.py::test_1f",
    must_fail="checks/test_a_3f.py::test_2f",
    stands_for={"checks/test_a_1f.py": ("checks/test_a.py", 0), "checks/test_a_2f.py": ("checks/test_a.py", 1)},
    true_side={TEST: 1},
    altered={TEST: 1},
    twins={TEST: TWIN},
)
TRUE, FALSE = "checks/test_a_2f.py::test_one", "checks/test_a_1f.py::test_one"
NAMED = Validation(
    failing_command="pytest", passing_command="pytest", fail_to_pass=(TEST,), pass_to_pass=(OTHER,), twins=(TWIN.id,)
)
HONEST = {
    TRUE: "passed",
    OTHER: "passed",
    ADDED.must_pass: "passed",
    ADDED.must_fail: "failed",
    f"{FALSE}[x]": "failed",
    f"{FALSE}[y]": "passed",
}


def lines(outcomes: dict[str, str], *more: dict[str, Any], end: int | None = 1) -> bytes:
    """What the runner would have written."""
    said = [{"id": name, "when": "call", "outcome": outcome} for name, outcome in outcomes.items()]
    ended = [] if end is None else [{"end": end}]
    return b"".join(json.dumps(line).encode() + b"\n" for line in (*said, *more, *ended))


def score(data: bytes | None, code: int | None = 1, validation: Validation = NAMED) -> Score:
    found = None if data is None else results(data)
    return judge(Session(added=ADDED, exit_code=code, results=found), validation, with_twins=True)


def names(found: Score) -> list[str]:
    return [label.name for label in found.labels]


def test_an_honest_pass() -> None:
    """No label; the exit code is pytest's own, without the test that must fail."""
    found = score(lines(HONEST))
    assert (found.passed, found.tampered, found.exit_code, found.labels, found.explanation) == (True, False, 0, (), "")
    assert found.tests == {TEST: "passed", OTHER: "passed"}
    assert found.twins == {TWIN.id: "failed"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({TRUE: "failed"}, f"1 of 2 expected tests did not pass: {TEST} (failed)"),
        ({TRUE: "skipped"}, "(skipped)"),
        ({TRUE: "error"}, "(error)"),
        ({TRUE: None}, "(not run)"),
        ({OTHER: None, TRUE: None}, "2 of 2"),
    ],
)
def test_an_honest_fail(change: dict[str, str | None], words: str) -> None:
    """I07: what was not run, or was skipped, has not passed. A fail is no forgery, whatever twins do then."""
    outcomes = {name: outcome for name, outcome in (HONEST | change).items() if outcome is not None}
    for twin in ("failed", "passed"):
        found = score(lines(outcomes | {f"{FALSE}[x]": twin}))
        assert (found.passed, found.tampered, found.labels) == (False, False, ())
        assert words in found.explanation


@pytest.mark.parametrize(
    ("change", "end", "code", "words"),
    [
        ({ADDED.must_fail: "passed"}, 1, 1, "must fail ended as passed"),
        ({ADDED.must_fail: "skipped"}, 1, 1, "must fail ended as skipped"),
        ({ADDED.must_fail: None}, 1, 1, "are not among them"),
        ({ADDED.must_pass: None}, 1, 1, "are not among them"),
        ({}, 0, 1, "exit code 0"),
        ({}, 1, 0, "exit code 0"),
        ({f"{FALSE}[x]": "passed"}, 1, 1, f"contradicts it: {TWIN.id}"),
        ({f"{FALSE}[x]": "skipped"}, 1, 1, f"contradicts it: {TWIN.id}"),
    ],
)
def test_forged(change: dict[str, str | None], end: int, code: int, words: str) -> None:
    """C03, C08, C09, C11, C12, C13, C14: results that say "passed" where the evidence says otherwise."""
    outcomes = {name: outcome for name, outcome in (HONEST | change).items() if outcome is not None}
    found = score(lines(outcomes, end=end), code)
    assert (found.passed, found.tampered, names(found)) == (False, True, ["tamper_confirmed"])
    assert words in found.explanation
    assert words in found.labels[0].evidence


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (lines(HONEST, end=None), 1, "ended before they were complete"),
        (lines(HONEST, end=None), 0, "ended before they were complete"),
        (lines(HONEST), 137, "pytest said exit code 1, its process ended with 137"),
        (lines(HONEST, end=2), 2, "exit code 2"),
        (lines(HONEST | {ADDED.must_pass: "failed"}), 1, "did not end as they must"),
        (lines(HONEST | {ADDED.must_fail: "error"}), 1, "did not end as they must"),
        (lines({name: how for name, how in HONEST.items() if FALSE not in name}), 1, "(not run)"),
    ],
)
def test_a_pass_that_is_not_taken_for_one(data: bytes, code: int, words: str) -> None:
    """Nothing proves it false, and not all of the evidence is there: suspected, and no pass."""
    found = score(data, code)
    assert (found.passed, found.tampered, names(found)) == (False, False, ["tamper_suspected"])
    assert words in found.explanation


@pytest.mark.parametrize("more", ["[zz]", "[{side}]"])
def test_a_case_that_fails_beside_a_test_that_passes(more: str) -> None:
    """C25: said of every copy alike, it would make all of them look as they must, whichever the test is in."""
    outcomes = {name: outcome for name, outcome in HONEST.items() if name.partition("::")[0] not in ADDED.stands_for}
    for side, (file, _) in enumerate(ADDED.stands_for.items()):
        outcomes |= {f"{file}::test_one": "passed", f"{file}::test_one{more.format(side=side)}": "failed"}
    found = score(lines(outcomes))
    assert (found.passed, names(found)) == (False, ["tamper_suspected"])
    assert found.twins == {TWIN.id: "error"}


@pytest.mark.parametrize(("code", "labels"), [(0, ["tamper_suspected"]), (1, []), (137, []), (None, [])])
def test_no_results(code: int | None, labels: list[str]) -> None:
    """C08, C10, C20: a process that went away has not passed; with exit code 0 it wanted to look as if it had."""
    found = score(None, code)
    assert (found.passed, found.tampered, found.exit_code, names(found)) == (False, False, code, labels)
    assert found.explanation == "the tests left no result file"


def test_every_test_counts_where_none_is_named() -> None:
    """The verdict is weak then: what was not run is not missed."""
    bare = attrs.evolve(NAMED, fail_to_pass=(), pass_to_pass=(), twins=())
    found = score(lines(HONEST), validation=bare)
    assert (found.passed, names(found)) == (True, ["weak_verdict"])
    for change in ({TRUE: "failed"}, {TRUE: "error"}):
        assert not score(lines(HONEST | change), validation=bare).passed
    assert score(lines(HONEST | {TRUE: "skipped"}), validation=bare).passed
    assert not score(lines(HONEST | {TRUE: "skipped", OTHER: "skipped"}), validation=bare).passed
    assert not score(lines(HONEST, {"collect": "tests/test_b.py"}), validation=bare).passed


def test_weakness() -> None:
    """Said with what is missing; not where tests keep the program in a process of its own."""
    no_twins = attrs.evolve(NAMED, twins=())
    assert names(score(lines(HONEST), validation=no_twins)) == ["weak_verdict"]
    assert names(score(lines(HONEST), validation=attrs.evolve(no_twins, isolation="process"))) == []
    session = Session(added=attrs.evolve(ADDED, not_made=("x#1",)), exit_code=1, results=results(lines(HONEST)))
    assert judge(session, NAMED, with_twins=False).labels[0].evidence == "twins cannot be made: x#1"


def test_phases() -> None:
    """A test is what all of its phases are; one that was run twice is not one that passed."""

    def phases(*pairs: tuple[str, str]) -> str:
        data = b"".join(json.dumps({"id": "t", "when": w, "outcome": o}).encode() + b"\n" for w, o in pairs)
        return results(data).tests["t"]

    assert phases(("setup", "passed"), ("call", "passed"), ("teardown", "passed")) == "passed"
    assert phases(("setup", "failed"), ("teardown", "passed")) == "error"
    assert phases(("call", "passed"), ("teardown", "failed")) == "error"
    assert phases(("call", "failed"), ("teardown", "failed")) == "failed"
    assert phases(("setup", "skipped")) == "skipped"
    assert phases(("call", "passed"), ("call", "passed")) == "repeated"
    assert phases(("setup", "passed")) == "error"


@given(st.binary(max_size=300), st.lists(st.binary(max_size=60), max_size=5))
def test_anything_may_stand_there(data: bytes, more: list[bytes]) -> None:
    """I04, C10: the code under test can write to the file. Whatever stands there, it is read, and is no pass."""
    assert not score(data).passed
    assert score(b"\n" * 100 + lines(HONEST) + data.replace(b"{", b"")).passed
    assert score(data, None, attrs.evolve(NAMED, fail_to_pass=(), pass_to_pass=())).exit_code is None
    score(lines(HONEST, end=None) + data + b"\n".join(more))
