"""From observed values to proposed assertions, and commands that run other files."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import pytest

from agentbench_tasks.strengthen.calls import find_calls
from agentbench_tasks.strengthen.command_line import runs_pytest, with_file, with_other_files
from agentbench_tasks.strengthen.observing import MISSING, Observed, Probe, _read
from agentbench_tasks.strengthen.proposals import Proposal, make_proposals

(CALL,), _ = find_calls("from m import f\ndef test_a():\n    assert f(1) == 2\n", "t.py", {"test_a"})


def value(content: Any) -> Observed:
    return Observed(kind="value", value=content)


def probe(number: int, fixed: Sequence[Observed], unfixed: Sequence[Observed]) -> Probe:
    return Probe(call=CALL, inputs=(number,), fixed=tuple(fixed), unfixed=tuple(unfixed))


def proposed(*pairs: tuple[Any, Any], limit: int = 9) -> tuple[Sequence[Proposal], str]:
    """The proposals for fixed and unfixed values, and the first reason why there are none."""
    probes = [probe(n, [value(fixed)] * 2, [value(unfixed)] * 2) for n, (fixed, unfixed) in enumerate(pairs)]
    proposals, skipped = make_proposals(probes, limit)
    return proposals, skipped[0].reason if skipped else ""


def test_several_values_are_compared_at_once_in_two_functions() -> None:
    proposals, reason = proposed(*((f"text {n}", f"wrong {n * n}") for n in range(20)))
    assert not reason
    assert [proposal.name for proposal in proposals] == ["test_strengthened_1", "test_strengthened_2"]
    for proposal in proposals:
        assert len(proposal.sources) == 6
        compare = ast.parse(proposal.code)
        assert ast.unparse(compare).startswith("def test_strengthened_")
    assert not {*proposals[0].sources} & {*proposals[1].sources}


def test_long_values_stand_alone() -> None:
    proposals, _ = proposed(*((f"{n}" * 200, "") for n in range(8)))
    assert [len(proposal.sources) for proposal in proposals] == [1, 1]
    assert proposals[0].assertion == f"assert f(0) == {'0' * 200!r}"
    assert len(proposed(*((f"{n}" * 200, "") for n in range(8)), limit=1)[0]) == 1


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([(5, 5), (6, 6)], "its values are the same in the unfixed program"),
        ([(True, False), (None, True), ([False], [True])], "only True, False or None"),
        ([(5, 4), (9, 8), (20, 19)], "by the same amount"),
        ([("x" * 500, "y")], "too long to review"),
    ],
)
def test_values_that_are_easy_to_guess_are_not_proposed(pairs: list[tuple[Any, Any]], reason: str) -> None:
    proposals, said = proposed(*pairs)
    assert not proposals
    assert reason in said


def test_a_constant_difference_is_hidden_among_unchanged_values() -> None:
    (proposal,), _ = proposed((5, 4), (9, 8), (30, 30))
    assert (proposal.values, proposal.unfixed) == (("5", "30"), ("4", "30"))


@pytest.mark.parametrize(
    ("fixed", "unfixed", "reason"),
    [
        ([value(1), value(2)], [value(3)] * 2, "differ between runs"),
        ([value(1), MISSING], [value(3)] * 2, "differ between runs"),
        ([Observed(kind="raised", value="KeyError")] * 2, [value(3)] * 2, "exceptions are not proposed"),
        ([MISSING] * 2, [value(3)] * 2, "it did not run"),
        ([value(7)] * 2, [MISSING] * 2, "the unfixed program does not return"),
        ([value(7)] * 2, [value(3), value(7)], "the same in the unfixed program"),
    ],
)
def test_values_that_are_not_certain_are_not_proposed(
    fixed: list[Observed], unfixed: list[Observed], reason: str
) -> None:
    proposals, (skipped,) = make_proposals([probe(1, fixed, unfixed)], 9)
    assert not proposals
    assert reason in skipped.reason


def test_an_exception_of_the_unfixed_program_is_shown() -> None:
    raised = [Observed(kind="raised", value="KeyError")] * 2
    (proposal,), _ = make_proposals([probe(1, [value("a long text")] * 2, raised)], 9)
    assert proposal.unfixed == ("raised KeyError",)


def test_results_that_the_program_forged_are_left_out() -> None:
    """Duplicates, other numbers, unknown fields and damaged lines."""
    lines = [
        b'{"id": 0, "value": ["int", "0x1"]}',
        b'{"id": 1, "value": "a"}',
        b'{"id": 1, "value": "b"}',
        b'{"id": 9, "value": "c"}',
        b'{"id": true, "value": "c"}',
        b'{"id": 2, "value": "c", "raised": "x"}',
        b'{"id": 3, "value": ["object"]}',
        b'{"id": 4, "raised": ["x"]}',
        b'{"id": 5, "value": %s}' % (b"[" * 100_000),
        b"\xff",
        b"[1]",
        b"3",
    ]
    assert _read(b"\n".join(lines), frozenset(range(6))) == {0: value(1), 1: MISSING}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest", "pytest"),
        ("python -m pytest -q tests checks/t.py::test_a -p no:x", "python -m pytest -q -p no:x"),
        ("A=1 python3 -m pytest --tb short .", "A=1 python3 -m pytest --tb short"),
    ],
)
def test_the_command_runs_other_files(command: str, expected: str) -> None:
    there = {"tests", "checks/t.py", "."}
    made = with_other_files(command, ["checks/new.py"], there.__contains__, "1", "UTC0")
    prefix, _, rest = made.partition("PYTHONDONTWRITEBYTECODE=1 ")
    assert prefix == "env PYTHONHASHSEED=1 TZ=UTC0 "
    assert rest == f"{expected} -k agentbench_observe checks/new.py"


@pytest.mark.parametrize(
    "command", ["make test", "cd x && pytest", "pytest > log", "pytest $X", "echo 'x", "python -m x"]
)
def test_other_commands_are_recognized(command: str) -> None:
    assert not runs_pytest(command)
    assert with_file(command, "checks/new.py", "checks/t.py") == command


@pytest.mark.parametrize(
    ("command", "is_added"),
    [
        ("pytest -q", False),
        ("pytest checks", False),
        ("pytest ./checks/", False),
        ("pytest tests checks/t.py", True),
        ("pytest checks/t.py::test_a", True),
        ("pytest tests", False),
    ],
)
def test_a_command_that_names_files_gets_the_new_one(command: str, is_added: bool) -> None:
    assert with_file(command, "checks/new.py", "checks/t.py") == command + (" checks/new.py" if is_added else "")
