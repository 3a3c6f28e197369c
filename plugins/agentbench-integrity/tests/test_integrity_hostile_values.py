"""Hostile values recorded from the code under test compare as unequal and are cheap to read."""

from __future__ import annotations

import hmac
import json
import time
from typing import Any

import pytest

from agentbench_core import ExecResult, Validation
from agentbench_integrity.scorer.blinding.formatting import first_difference, format_value
from agentbench_integrity.scorer.blinding.values import holds, is_value
from agentbench_integrity.scorer.results import parse_results
from agentbench_integrity.scorer.session import Session
from agentbench_integrity.scorer.verdict import judge

PRIME = (1 << 61) - 1
"""Integers that differ by this number have the same hash."""
ALL = [["float", "inf"], ["float", "inf"], True]
EXPECTED: dict[str, list[Any]] = {
    "==": [
        5,
        "five",
        ["list", 1, 2],
        ["float", "0x1p0"],
        ["object", "A", ["b", 1]],
        ["dict", ["a", 1]],
        ["decimal", "1"],
    ],
    "<": [5],
    "in": [["list", 1, 2]],
    "has": [5, "five"],
    "match": ["a.*a.*c", "a.*c", "five"],
    "same items": [["list", 1, 2]],
    "almost": [["float", "0x1p0"], ["decimal", "0.5"]],
    "startswith": ["five"],
}


def deep(depth: int, word: str = "list") -> Any:
    form: Any = 1
    for _ in range(depth):
        form = [word, form]
    return form


KEY = bytes(32)


def signed(line: bytes) -> bytes:
    """Return a line signed like the first line of the runner."""
    said = b"0 " + line
    return hmac.digest(KEY, said, "sha256").hex()[:32].encode() + b" " + said + b"\n"


HEAVY = {
    "equal hashes": ["set", *[["int", hex(PRIME * number)] for number in range(1, 15_000)]],
    "some equal hashes": ["set", *[["int", hex(PRIME * number)] for number in range(1, 5000)]],
    "equal hashes of keys": ["dict", *[[["int", hex(PRIME * number)], 1] for number in range(1, 5000)]],
    "equal hashes of objects": ["set", *[["object", "A", ["b", number]] for number in range(5000)]],
    "fraction": ["fraction", "0x1" + "f0e" * 200_000, "0x1" + "3d7" * 200_000],
    "exponent": ["decimal", "1e999999999999999999"],
    "digits": ["decimal", "7" * 2_000_000],
    "integer": ["int", "0x" + "f" * 2_000_000],
    "range": ["range", "0x0", "0xf4240", "0x1"],
    "text": "a" * 10_000,
    "other text": "ab" * 5000,
    "surrogates": "\ud800\x1b]0;x\x07" * 50,
    **{
        f"{word} {depth}": deep(depth, word)
        for word in ("list", "!", "int", "enum", "object")
        for depth in (79, 470, 985)
    },
    **{f"odd {number}": form for number, form in enumerate([[], [[]], {}, ["dict", 1], ["object"], ["enum"], 1e400])},
}


@pytest.mark.parametrize("kind", HEAVY)
def test_heavy_values_are_compared_quickly_and_unequal(kind: str) -> None:
    """C32: comparing and showing a heavy value is fast, and every comparison fails."""
    value = HEAVY[kind]
    started = time.process_time()
    for operator, expectations in EXPECTED.items():
        for expected in expectations:
            assert not holds(operator, value, expected)
            assert len(first_difference(value, expected)) < 5000
            assert len(first_difference(["list", value], ["list", expected])) < 5000
    assert len(format_value(value)) < 5000
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["approx", 1, *ALL], 5),
        (["approx", ["float", "0x1p0"], *ALL], ["float", "0x1p3"]),
        (["list", ["approx", 1, *ALL]], ["list", 7]),
        (["dict", ["a", ["approx", 1, *ALL]]], ["dict", ["a", 7]]),
        (["object", "A", ["b", ["approx", 1, *ALL]]], ["object", "A", ["b", 7]]),
        (["approx", 1, *ALL], ["approx", 5, None, None, False]),
        (["object", "A"], ["object", "A", ["b", 1]]),
        (["object", "B", ["b", 1]], ["object", "A", ["b", 1]]),
        (["enum", "A", "x"], ["enum", "A", "y"]),
        (["float", "nan"], ["float", "nan"]),
        (["!", "odd"], ["!", "odd"]),
        (["other"], ["other"]),
        (["unknown", 5], 5),
    ],
)
def test_forged_forms_are_unequal(value: Any, expected: Any) -> None:
    """C11, C32: the program cannot return an approximation, and objects need all compared fields."""
    assert not holds("==", value, expected)
    assert not holds("almost", value, expected)


def test_an_approximation_is_an_expectation() -> None:
    """An approximation is valid as an expected value but not as a recorded one."""
    near = ["approx", 5, None, None, False]
    assert holds("==", ["float", (5.0000001).hex()], near)
    assert not holds("==", ["float", (5.1).hex()], near)
    assert is_value(near, is_expected=True)
    assert not is_value(near)


def test_sets_of_objects_with_equal_hashes_are_compared() -> None:
    """Sets of up to some hundred objects of one class can be compared."""
    some = ["set", *[["object", "A", ["b", number]] for number in range(150)]]
    assert holds("==", some, ["set", *some[:0:-1]])


def test_lines_that_would_take_much_memory() -> None:
    """C32: lines that would take much memory are not read, and the results count as damaged."""
    found = parse_results(signed(b'{"test":"a","records":[[0,[' + b"[]," * 4_500_000 + b"[]]]]}"), KEY)
    assert found.damaged
    assert not found.records


def test_explanations_are_escaped() -> None:
    """C32: names and messages of the code under test are escaped in explanations."""
    line = {"id": "a", "when": "call", "outcome": "failed", "why": "\ud800\x1b]0;x\x07\u202e"}
    found = parse_results(signed(json.dumps(line).encode()), KEY)
    session = Session(
        result=ExecResult(exit_code=1), results=found, canary_file="c", must_pass="c::g", must_fail="c::b", size=0
    )
    named = Validation(failing_command="pytest", passing_command="pytest", fail_to_pass=("a",))
    score = judge(session, named, None, "").score
    assert score.explanation == r"1 of 1 expected tests did not pass: a (failed: \ud800\x1b]0;x\x07\u202e)"
