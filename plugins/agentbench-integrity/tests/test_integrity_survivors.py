"""Expected values that can be recovered from a blinded test."""

from __future__ import annotations

import ast
import textwrap

import pytest

from agentbench_integrity.scorer.blinding.recoverable import is_recoverable
from agentbench_integrity.scorer.blinding.transform import blind


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("made = timedelta(minutes=5)\nassert parse(render(made)) == made", True),
        ("made = timedelta(minutes=5)\nassert parse('5m') == made", False),
        ("assert parse('5m') == timedelta(minutes=5)", False),
        ("assert parse('5m') == timedelta(minutes=8)", False),
        ("for name in CODES:\n    assert parse(name) == CODES[name]", True),
        ("names = list(CODES)\nassert parse(names) == max(CODES[name] for name in names)", True),
        ("names = list(CODES)\nassert parse(names) == max(CODES[name] + 7 for name in names)", False),
        ("text = 'a' * 5\nassert parse(text) == model(text)\nassert model(text)", True),
        ("text = 'a' * 5\nassert parse(text) == model(text)", False),
        ("text = 'a' * 5\nassert parse(text) == [text, 0]", True),
        ("text = 'a' * 5\nassert parse(text) == [text, 17]", False),
    ],
)
def test_values_recoverable_from_the_remaining_code(body: str, expected: bool) -> None:
    """C32: a value is recoverable from variables, tables and helpers that are left in the blinded test."""
    head = "from datetime import timedelta\nfrom program import parse, render\nCODES = {'a': 7, 'b': 9}\n\n\n"
    helper = "def model(text):\n    return text.upper()\n\n\n"
    text = f"{head}{helper}def test_it():\n{textwrap.indent(body, '    ')}\n"
    blinded = blind(text, {"program"})
    assert is_recoverable(blinded.sites[0].expected, blinded.sites[0].function, ast.parse(blinded.blind)) == expected


@pytest.mark.parametrize("expected", ["missing", "5 5", "timedelta(...", "", "x" * 5 + "..."])
def test_missing_names_and_truncated_sources_are_not_recoverable(expected: str) -> None:
    """Missing names and truncated sources are not recoverable."""
    assert not is_recoverable(expected, "test_it", ast.parse("def test_it():\n    pass\n"))
    assert not is_recoverable(expected, "Odd::test_gone", ast.parse(""))
