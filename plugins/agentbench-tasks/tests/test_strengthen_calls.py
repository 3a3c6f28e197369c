"""Finding the calls that failing tests compare."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pytest

from agentbench_tasks.strengthen.calls import Call, find_calls
from agentbench_tasks.strengthen.module import Module, parse

TOP = """\
from __future__ import annotations
import os, pytest
from shop import Basket, price, total
from shop.units import *

TABLE = [("a", 1), ("b", 2)]
TEXT = "some text"
RATE = price("rate")

def helper(name):
    return total(name, RATE)

@pytest.fixture
def basket():
    return Basket()

"""


def found(body: str, arguments: str = "", decorator: str = "") -> Sequence[Call]:
    """The calls in a test function with this body."""
    test = f"{decorator}\ndef test_it({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    return find_calls(TOP + test, "tests/test_shop.py", {"test_it"})[0]


def sources(calls: Sequence[Call]) -> list[str]:
    """The expressions with the literals that the tests contain."""
    return [call.source(inputs) for call in calls for inputs in call.inputs]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert price('x', 3) == 42", ["price('x', 3)"]),
        ("assert 42 == price('x')", ["price('x')"]),
        ("x = price('x')\nassert x == 42", ["price('x')"]),
        ("b = Basket(5)\nassert b.add(['x', 2]).name == 'y'", ["Basket(5).add(['x', 2]).name"]),
        ("assert price(TEXT) == 1 and total(-1.5) == 2", ["price('some text')", "total(-1.5)"]),
        ("for name, value in TABLE:\n    assert price(name) == value", ["price('a')", "price('b')"]),
        ("assert [price(n) for n in range(3)] == [1, 2, 3]", ["[price(n) for n in range(3)]"]),
        ("assert str(price(n='x' * 3)) == '1'", ["str(price(n='x' * 3))"]),
        ("assert 'x' in price('y')", ["price('y')"]),
        ("self.assertEqual(price(2), 3)", ["price(2)"]),
        ("assert helper('x') == 1", ["helper('x')"]),
        ("from shop import late\nassert late(1) == 2", ["late(1)"]),
        ("assert price({'a': [1, (2,)], 'b': {3}}) == 1", ["price({'a': [1, (2,)], 'b': {3}})"]),
    ],
)
def test_compared_calls_are_found(body: str, expected: list[str]) -> None:
    assert sources(found(body)) == expected


def test_rows_of_a_table_are_inputs_of_one_call() -> None:
    table = "@pytest.mark.parametrize('name, value', [('a', 1), pytest.param('b', 2, id='B'), ('c', 3)])"
    (call,) = found("assert price(name) == value", "name, value", table)
    assert call.inputs == (("a",), ("b",), ("c",))
    (call,) = found("assert price(*pair) == 1", "pair", "@pytest.mark.parametrize('pair', TABLE)")
    assert call.inputs == ((("a", 1),), (("b", 2),))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("assert basket.add(1) == 2", "basket is a fixture"),
        ("b = Basket(1)\nb.add(2)\nassert b.sum(3) == 2", "b may be modified"),
        ("b, c = price(1)\nassert total(b, 1) == 2", "b may be modified"),
        ("with pytest.warns():\n    assert price(1) == 2", "assertions within a with statement"),
        ("assert price(1) < 2", "does not compare with =="),
        ("assert len([1, 2]) == 2", "does not compare the result of a call"),
        ("assert price() == 2", "no literal argument"),
        ("assert self.price(1) == 2", "it does not compare the result of a call"),
        ("assert price(basket, 1) == 2", "basket is a fixture"),
    ],
)
def test_skipped_calls_have_a_reason(body: str, reason: str) -> None:
    text = f"{TOP}\ndef test_it(basket):\n{textwrap.indent(body, '    ')}\n"
    calls, skipped = find_calls(text, "t.py", {"test_it"})
    assert not calls
    assert reason in skipped[0].reason
    assert skipped[0].where.startswith("t.py:")


def test_names_of_fixtures_and_unknown_names_are_refused() -> None:
    text = "from shop import price\n\ndef test_it():\n    assert price(unknown, 1) == 2\n"
    _, (skipped,) = find_calls(text, "t.py", {"test_it"})
    assert skipped.reason == "unknown is not defined at the top of the file"


def test_only_failing_tests_are_searched() -> None:
    method = "class TestA:\n    def test_a(self):\n        assert price(1) == 2\n"
    text = f"{TOP}\n{method}\ndef test_b():\n    assert price(2) == 3\n"
    calls, _ = find_calls(text, "t.py", {"TestA::test_a"})
    assert [(call.test, call.line) for call in calls] == [("TestA::test_a", 20)]


def test_text_that_is_not_python_is_reported() -> None:
    for text in ("def (", "\0", f"x = {'-' * 100_000}1"):
        calls, (skipped,) = find_calls(text, "t.py", {"test_it"})
        assert not calls
        assert skipped.reason == "it is not valid Python"


def test_a_new_file_gets_what_its_calls_need() -> None:
    module = Module(parse(TOP))
    assert module.needed({"helper", "os"}).splitlines() == [
        "from __future__ import annotations",
        "import os",
        "from shop import price, total",
        "from shop.units import *",
        "RATE = price('rate')",
        "def helper(name):",
        "    return total(name, RATE)",
    ]
    assert not module.defines("basket")


def test_literals_keep_their_types_and_precedence() -> None:
    (call,) = found("assert price(2 ** 3, -1) == 1")
    assert call.source((-2, -3, None)) == "price((-2) ** (-3), None)"
