"""Blinding of test files: which assertions are recorded, which side is cut, and that no expected value remains."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from hypothesis import given, strategies as st

import agentbench_core
from agentbench_integrity.scorer.blinding.hidden_tests import top_modules
from agentbench_integrity.scorer.blinding.source import unparse
from agentbench_integrity.scorer.blinding.transform import BlindedFile, blind
from agentbench_integrity.scorer.inside import recorder as recording

SECRET = "40501"
HEAD = """\
import re
import unittest
from fractions import Fraction

import pytest

import app
from app import Span, f

"""


def blinded(source: str, **options: Any) -> BlindedFile:
    return blind(HEAD + dedent(source), {"app"}, **options)


def in_test(*lines: str) -> BlindedFile:
    return blinded("def test_it(tmp_path):\n" + indent("\n".join(lines), "    "))


def in_class(*lines: str) -> BlindedFile:
    return blinded("class It(unittest.TestCase):\n    def test_it(self):\n" + indent("\n".join(lines), "        "))


# --- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assertion", "operator"),
    [
        ("assert f(1) == 40501", "=="),
        ("assert 40501 == f(1)", "=="),
        ("assert f(1) != 40501", "!="),
        ("assert f(1) in (1, 40501)", "in"),
        ("assert f(1) not in {40501}", "not in"),
        ("assert 'v40501' in f(1)", "has"),
        ("assert 'v40501' not in f(1)", "has not"),
        ("assert f(1) < 40501", "<"),
        ("assert 40501 < f(1)", ">"),
        ("assert f(1) <= 40501", "<="),
        ("assert f(1) > 40501", ">"),
        ("assert 40501 >= f(1)", "<="),
        ("assert f(1).startswith('v40501')", "startswith"),
        ("assert f(1).endswith('v40501')", "endswith"),
        ("assert not f(1).startswith('v40501')", "not startswith"),
        ("assert f(1) == pytest.approx(40501)", "=="),
        ("assert f(1) == Span(0, 40501)", "=="),
        ("assert f(1) == app.Span(0, 40501)", "=="),
        ("assert f(1) == [n for n in range(40501)]", "=="),
        ("assert f(1) == Fraction(40501, 2)", "=="),
        ("assert f(1) == f'v{40501:x}'", "=="),
        ("with pytest.raises(ValueError, match='v40501'):\n    f(1)", "match"),
        ("expected = 40501\nassert f(1) == expected", "=="),
        ("expected: int = 40501\nassert f(1) == expected", "=="),
        ("expected = []\nexpected.append(40501)\nassert f(1) == sorted(expected)", "=="),
        ("text, expected = 'a', 40501\nassert f(text) == expected", "=="),
        ("def wanted():\n    return 40501\nassert f(1) == wanted()", "=="),
        ("got = f(1)\nassert got.value == 40501, f'not {40501}'", "=="),
        ("assert f(1) == 40501  # it is 40501", "=="),
        ("'''it is 40501'''\nassert f(1) == 40501", "=="),
        ("x = 3\n'''it is 40501'''\nassert f(x) == 40501", "=="),
        ("for text, expected in [('a', 40501), ('b', 40501)]:\n    assert f(text) == expected", "=="),
        ("for text, expected in {'a': 40501}.items():\n    assert f(text) == expected", "=="),
        ("rows = [('a', 40501)]\nfor text, expected in rows:\n    assert f(text) == expected", "=="),
        ("rows = {'a': 40501}\nfor text, expected in rows.items():\n    assert f(text) == expected", "=="),
        ("for got in [f(1), f(2)]:\n    assert got == 40501", "=="),
        ("got = [f(1), f(2)]\nfor each in got:\n    assert each == 40501", "=="),
        ("for got, n in zip(f(1), [1, 2], strict=True):\n    assert got == 40501", "=="),
    ],
)
def test_forms(assertion: str, operator: str) -> None:
    """The program's side is recorded; the expected side is in the file with both sides, but not in the blind one."""
    found = in_test(*assertion.splitlines())
    assert [site.operator for site in found.sites] == [operator]
    assert dict(found.unblinded) == {}
    assert SECRET not in found.blind
    assert SECRET in found.both
    assert "_agentbench." in found.blind
    assert "assert" not in found.blind
    ast.parse(found.both)
    ast.parse(found.blind)


@pytest.mark.parametrize(
    ("assertion", "recorded"),
    [
        ("assert f(1)", "truth(0, f(1))"),
        ("assert not f(1)", "truth(0, f(1))"),
        ("assert not not f(1)", "truth(0, f(1))"),
        ("assert f(1) is None", "singleton(0, f(1))"),
        ("assert f(1) is True", "singleton(0, f(1))"),
        ("assert f(1) is not False", "singleton(0, f(1))"),
        ("assert None is not f(1)", "singleton(0, f(1))"),
        ("assert not f(1) == 3", "truth(0, f(1) == 3)"),
        ("assert Span(1, 2) < Span(1, 3)", None),
        ("assert not Span(1, 2) < Span(1, 3)", "truth(0, Span(1, 2) < Span(1, 3))"),
    ],
)
def test_forms_of_boolean_assertions(assertion: str, recorded: str | None) -> None:
    """The blind file does not show whether the value should be true."""
    found = in_test(assertion)
    assert len(found.sites) == (recorded is not None)
    assert (recorded or "assert ") in found.blind


@pytest.mark.parametrize(
    ("assertion", "operator"),
    [
        ("self.assertEqual(f(1), 40501)", "=="),
        ("self.assertEqual(40501, f(1), 'it is 40501')", "=="),
        ("self.assertEqual(f(1), 40501, msg='it is 40501')", "=="),
        ("self.assertListEqual(f(1), [40501])", "=="),
        ("self.assertDictEqual(f(1), {'a': 40501})", "=="),
        ("self.assertMultiLineEqual(f(1), 'v40501')", "=="),
        ("self.assertNotEqual(f(1), 40501)", "!="),
        ("self.assertIn('v40501', f(1))", "has"),
        ("self.assertIn(f(1), [40501])", "in"),
        ("self.assertNotIn('v40501', f(1))", "has not"),
        ("self.assertLess(f(1), 40501)", "<"),
        ("self.assertGreaterEqual(40501, f(1))", "<="),
        ("self.assertCountEqual(f(1), [40501, 1])", "same items"),
        ("self.assertAlmostEqual(f(1), 40501)", "almost"),
        ("self.assertTrue(f(1) == 40501)", "=="),
        ("with self.assertRaisesRegex(ValueError, 'v40501'):\n    f(1)", "match"),
        ("with self.subTest(wanted=40501):\n    self.assertEqual(f(1), 40501)", "=="),
        (
            "for text, wanted in [('a', 40501)]:\n    with self.subTest(text, wanted=wanted):\n"
            "        self.assertEqual(f(text), wanted)",
            "==",
        ),
    ],
)
def test_forms_of_unittest(assertion: str, operator: str) -> None:
    found = in_class(*assertion.splitlines())
    assert [site.operator for site in found.sites] == [operator]
    assert SECRET not in found.blind
    assert SECRET in found.both


@pytest.mark.parametrize(
    ("assertion", "recorded"),
    [
        ("self.assertTrue(f(1))", "truth"),
        ("self.assertFalse(f(1))", "truth"),
        ("self.assertIsNone(f(1))", "singleton"),
        ("self.assertIsNotNone(f(1))", "singleton"),
        ("self.assertIs(f(1), None)", "singleton"),
        ("self.assertIsNot(True, f(1))", "singleton"),
    ],
)
def test_forms_of_boolean_assertions_of_unittest(assertion: str, recorded: str) -> None:
    assert f"_agentbench.{recorded}(0, f(1))" in in_class(assertion).blind


TABLES = {
    "list": "@pytest.mark.parametrize('text, wanted', [('a', 40501), ('b', 40501)])\ndef test(text, wanted):\n",
    "names": "@pytest.mark.parametrize(['text', 'wanted'], (('a', 40501),))\ndef test(text, wanted):\n",
    "param": "@pytest.mark.parametrize(('text', 'wanted'), [pytest.param('a', 40501, id='40501')])\n"
    "def test(text, wanted):\n",
    "marked": "@pytest.mark.parametrize('text, wanted', [pytest.param('a', 40501, marks=[]), ('b', 40501)])\n"
    "def test(text, wanted):\n",
    "keywords": "@pytest.mark.parametrize(argnames='text, wanted', argvalues=[('a', 40501)], ids=['40501'])\n"
    "def test(text, wanted):\n",
    "ids by position": "@pytest.mark.parametrize('text, wanted', [('a', 40501)], False, ['40501'], 'class')\n"
    "def test(text, wanted):\n",
    "ids of the table": "ROWS = [('a', 40501)]\n"
    "@pytest.mark.parametrize('text, wanted', ROWS, ids=[str(r) for r in ROWS])\n"
    "def test(text, wanted):\n",
    "stacked": "@pytest.mark.parametrize('text', ['a', 'b'])\n@pytest.mark.parametrize('more, wanted', [(1, 40501)])\n"
    "def test(text, more, wanted):\n",
    "constant": "ROWS = [('a', 40501)]\n@pytest.mark.parametrize('text, wanted', ROWS)\ndef test(text, wanted):\n",
    "annotated constant": "ROWS: list = [('a', 40501)]\n@pytest.mark.parametrize('text, wanted', ROWS)\n"
    "def test(text, wanted):\n",
    "shared constant": "ROWS = [('a', 40501)]\n@pytest.mark.parametrize('text, wanted', ROWS)\n"
    "def test_more(text, wanted):\n    assert f(text * 2) == wanted\n"
    "@pytest.mark.parametrize('text, wanted', ROWS)\ndef test(text, wanted):\n",
    "items": "ROWS = {'a': 40501}\n@pytest.mark.parametrize('text, wanted', ROWS.items())\ndef test(text, wanted):\n",
    "class": "@pytest.mark.parametrize('text, wanted', [('a', 40501)])\nclass TestIt:\n"
    "  def test(self, text, wanted):\n",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_of_parametrize(table: str) -> None:
    """Cells are cut, rows stay; ids are replaced by numbers."""
    found = blinded(f"{table}    assert f(text) == wanted\n")
    assert {site.operator for site in found.sites} == {"=="}
    assert found.unblinded == {}
    assert SECRET not in found.blind
    assert SECRET in found.both
    assert "'a'" in found.blind
    assert "ids=_agentbench.ids()" in found.blind


def test_a_table_that_something_else_needs_stays() -> None:
    """Tables and rows with other uses stay, while their assertions are still blinded."""
    source = "ROWS = [('a', 40501)]\n@pytest.mark.parametrize('text, wanted', ROWS)\ndef test(text, wanted):\n"
    source += "    assert f(text) == wanted\n"
    assert SECRET in blinded(f"{source}    print(wanted)\n").blind
    assert SECRET in blinded(f"{source}    print(eval('wan' + 'ted'))\n").blind
    assert SECRET in blinded(f"{source}    print(locals())\n").blind
    assert SECRET in blinded(f"{source}\ndef test_more():\n    print(ROWS)\n").blind
    assert SECRET in blinded(source, imported_elsewhere={"ROWS"}).blind
    assert SECRET not in blinded(source, imported_elsewhere={"OTHER"}).blind


def test_a_column_of_one_value_stays() -> None:
    """pytest needs the same number of rows; the assertion is no witness, because its value is in the file."""
    found = blinded("@pytest.mark.parametrize('wanted', [40501, 2])\ndef test(wanted):\n    assert f(1) == wanted\n")
    assert len(found.sites) == 1
    assert SECRET in found.blind


@pytest.mark.parametrize(
    "definitions",
    [
        "WANTED = 40501\n",
        "WANTED: int = 40501\n",
        "SEED = 40501\nWANTED = [SEED, SEED * 2]\n",
        "def model(text):\n    return {text: 40501}\n\nWANTED = model('a')\n",
        "import functools\n@functools.lru_cache\ndef model(text):\n    return 40501\n\nWANTED = model('a')\n",
        "def model(n):\n    yield 40501\n    yield n\n\nWANTED = list(model(3))\n",
        "class Model:\n    def __init__(self):\n        self.wanted = 40501\n\nWANTED = Model().wanted\n",
        "import attrs\n@attrs.define\nclass Model:\n    wanted: int = 40501\n\nWANTED = Model().wanted\n",
        "import enum\nclass Model(enum.Enum):\n    wanted = 40501\n\nWANTED = Model.wanted.value\n",
    ],
)
def test_constants_and_models_are_cut(definitions: str) -> None:
    """Code that computes expected values is cut, too."""
    found = blinded(f"{definitions}\ndef test_it():\n    assert f(1) == WANTED\n")
    assert len(found.sites) == 1
    assert SECRET not in found.blind
    assert "model" not in found.blind.lower()


def test_helpers_with_assertions() -> None:
    """Their assertions are recorded; arguments that are only compared are cut from the calls."""
    found = blinded("""
        def check(text, wanted, /, more=40501, *, least=40501):
            assert f(text) == wanted
            assert len(f(text)) >= least
            assert f(text + 1) == more

        def test_one():
            check("a", 40501)
            check("b", 40501, least=40501)

        def test_two():
            wanted = 40501
            check("c", wanted, more=wanted)
    """)
    assert [site.operator for site in found.sites] == ["==", ">=", "=="]
    assert found.blind.count(SECRET) == 2  # the defaults, which are never evaluated
    assert found.both.count(SECRET) == 6
    assert "check('c', None, more=None)" in found.blind


def test_arguments_that_must_stay() -> None:
    """Arguments stay if the helper is passed on, called with stars, or if the program computes them."""
    for use in ("run(check)", "check(*pair)", "check('a', **more)"):
        found = blinded(
            f"def check(text, wanted=1):\n    assert f(text)\n\ndef test_it(pair):\n    check('a', 40501)\n    {use}\n"
        )
        assert SECRET in found.blind
    found = blinded(
        "def check(text, wanted):\n    assert f(text)\n\ndef test_it():\n    check('a', app.start(40501))\n"
    )
    assert SECRET in found.blind


# --- splitting --------------------------------------------------------------------------------------------------------


def test_parts_of_an_assertion() -> None:
    found = in_test("assert f(1) == 40501 and f(2) == 40502 and (f(3) or f(4)), '40503'")
    assert [site.operator for site in found.sites] == ["==", "=="]
    assert dict(found.unblinded) == {"and/or": 1}
    assert "4050" not in found.blind
    found = in_test("got = f(1)", "assert 3 < got <= 40501")
    assert [(site.operator, site.expected) for site in found.sites] == [(">", "3"), ("<=", "40501")]
    found = in_test("got = f(1)", "assert 40501 == got == f(2).name")
    assert [(site.operator, site.expected) for site in found.sites] == [("==", "40501")]
    found = in_test("assert 3 < f(1) <= 40501")
    assert dict(found.unblinded) == {"compares more than two values": 1}


# --- assertions that are not blinded ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "assert f(1) == f(2)",
        "assert f(1) == tmp_path / 'x'",
        "for each in f(1):\n    assert each == 3",
        "for each in list(f(1)):\n    assert each == 3",
        "if f(1):\n    assert f(2) == 3",
        "while f(1):\n    assert f(2) == 3",
        "while True:\n    assert f(2) == 3\n    break",
        "for n in [1, 2]:\n    assert f(n) == 3\n    if f(n):\n        break",
        "if f(1):\n    return\nassert f(2) == 3",
        "for n in f(1):\n    if n:\n        raise ValueError\nassert f(2) == 3",
        "try:\n    assert f(1) == 3\nexcept ValueError:\n    pass",
        "try:\n    f(1)\nfinally:\n    assert f(1) == 3",
        "try:\n    f(1)\nexcept ValueError:\n    return\nassert f(2) == 3",
        "with pytest.raises(ValueError):\n    assert f(1) == 3",
        "def called(n):\n    assert n == 3\nf(called)",
        "app.on_end(lambda: check(3))\ndef check(n):\n    assert f(n) == 3",
        "f(1) and check(3)\ndef check(n):\n    assert f(n) == 3",
        "def items():\n    for n in [1, 2]:\n        assert f(n) == 3\n        yield n\nf(items())",
        "match f(1):\n    case 3:\n        assert f(2) == 3",
        "async def run():\n    async for each in f(1):\n        assert each == 3\nf(run())",
        "assert f(1) is Span",
        "assert isinstance(f(1), int)",
        "assert f(1) or f(2)",
        "pytest.raises(ValueError, f)",
        "with pytest.raises(ValueError):\n    f(1)",
        "with pytest.raises(ValueError, match='(a+)+b'):\n    f(1)",
        "with pytest.raises(ValueError, match=f(1)):\n    f(1)",
        "assert 3 == 3",
        "class Inner:\n    assert f(1) == 3",
    ],
)
def test_assertions_that_are_not_blinded(body: str) -> None:
    """The assertion is unchanged, and counted as not blinded."""
    found = in_test(*body.splitlines())
    kept = [node for node in ast.walk(ast.parse(found.blind)) if isinstance(node, ast.Assert | ast.With | ast.Call)]
    assert found.sites == ()
    assert sum(found.unblinded.values()) >= 1
    assert kept
    assert "_agentbench" not in found.blind


def test_assertions_outside_of_tests_are_left() -> None:
    """They could not be recorded; those of fixtures would be recorded for whichever test runs first."""
    found = blinded("""
        assert f(1) == 3

        @pytest.fixture
        def ready():
            assert f(2) == 3

        class Part:
            def check(self):
                assert f(3) == 3

        def test_it(ready):
            Part().check()
    """)
    assert found.sites == ()
    assert found.blind.count("assert ") == 3


def test_early_return_in_a_nested_function_does_not_matter() -> None:
    found = blinded("""
        def test_it():
            def work():
                try:
                    f(0)
                except OSError:
                    return
            app.run(work)
            assert f(1) == 40501
    """)
    assert len(found.sites) == 1


def test_calibrated_places_stay_as_they_are() -> None:
    source = "def test_it():\n    assert f(1) == 40501\n    assert f(2) == 40502\n"
    first, second = blinded(source).sites
    found = blinded(source, excluded={first.position}, first=100)
    assert [site.number for site in found.sites] == [101]
    assert (first.number, second.number) == (0, 1)
    assert found.blind.count("40501") == 1
    assert "40502" not in found.blind


# --- property ---------------------------------------------------------------------------------------------------------

Piece = Callable[[str, int, int], str]
"""Source of one test with a number, an input and an expected value."""
PIECES: list[Piece] = [
    lambda n, given, wanted: f"def test_{n}():\n    assert f({given}) == {wanted}  # {wanted}\n",
    lambda n, given, wanted: (
        f"def test_{n}():\n    '''{wanted}'''\n    wanted = [{wanted}]\n    assert f({given}) == wanted[0]\n"
    ),
    lambda n, given, wanted: (
        f"WANTED_{n} = ({wanted},)\ndef test_{n}():\n    assert f({given}) == WANTED_{n}, {wanted}\n"
    ),
    lambda n, given, wanted: (
        f"@pytest.mark.parametrize('x, y', [({given}, {wanted}), ({given}, -{wanted})])\n"
        f"def test_{n}(x, y):\n    assert f(x) == y\n"
    ),
    lambda n, given, wanted: (
        f"@pytest.mark.parametrize('x, y', [pytest.param({given}, {wanted}, id='{wanted}')])\n"
        f"class Test{n}:\n    def test_it(self, x, y):\n        assert f(x) == y\n"
    ),
    lambda n, given, wanted: (
        f"ROWS_{n} = [({given}, {wanted})]\ndef test_{n}():\n    for x, y in ROWS_{n}:\n"
        f"        assert f(x) == y, f'{{x}} is {wanted}'\n"
    ),
    lambda n, given, wanted: (
        f"def test_{n}():\n    for x, y in {{{given}: {wanted}}}.items():\n        assert f(x) == y\n"
    ),
    lambda n, given, wanted: (
        f"def check_{n}(x, y):\n    assert f(x) == y\n\ndef test_{n}():\n    check_{n}({given}, {wanted})\n"
    ),
    lambda n, given, wanted: (
        f"def model_{n}(x):\n    return x + {wanted}\n\ndef test_{n}():\n    assert f({given}) == model_{n}(1)\n"
    ),
    lambda n, given, wanted: (
        f"class It{n}(unittest.TestCase):\n    def test_it(self):\n        x, y = {given}, {wanted}\n"
        f"        with self.subTest(y=y):\n            self.assertEqual(f(x), y)\n"
    ),
    lambda n, given, wanted: (
        f"def test_{n}():\n    with pytest.raises(ValueError, match='{wanted}'):\n        f({given})\n"
    ),
]


@given(st.lists(st.sampled_from(range(len(PIECES))), min_size=1, max_size=6))
def test_no_expected_value_survives(chosen: list[int]) -> None:
    """The blind file has all inputs, but no expected value, for any combination of pieces."""
    values = list(zip(itertools.count(710_001, 2), itertools.count(910_001, 2), range(len(chosen)), strict=False))
    source = "\n".join(PIECES[piece](str(n), *values[n][:2]) for n, piece in enumerate(chosen))
    found = blinded(source)
    assert len(found.sites) == len(chosen)
    assert found.unblinded == {}
    for given_value, wanted, _ in values:
        assert str(given_value) in found.blind
        assert str(wanted) not in found.blind
        assert str(wanted) in found.both
    tests = [node.name for node in ast.walk(ast.parse(HEAD + source)) if isinstance(node, ast.FunctionDef)]
    kept = [node.name for node in ast.walk(ast.parse(found.blind)) if isinstance(node, ast.FunctionDef)]
    assert [name for name in kept if name.startswith("test")] == [name for name in tests if name.startswith("test")]


# --- invalid Python ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["def test_it(:\n", "x = 1\n\tassert x\n", "a\0b", f"x = {'(' * 9999}1{')' * 9999}"])
def test_invalid_python_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        blind(source, set())


def test_future_imports_and_docstrings_stay_first() -> None:
    found = blind(
        "'''40501'''\nfrom __future__ import annotations\nfrom app import f\ndef test_a():\n    assert f() == 1\n",
        {"app"},
    )
    compile(found.both, "both", "exec")
    compile(found.blind, "blind", "exec")
    assert SECRET not in found.blind


# --- outcomes as they are, with both sides, and blind -----------------------------------------------------------------

ODD = {
    "mangled": """
        class TestMangled:
            __wanted = 3
            def __helper(self):
                return self.__wanted
            def test_it(self):
                assert f(1) == 3
                assert self.__helper() == 3
                assert f(self.__wanted) == 3
    """,
    "inherited": """
        class Base:
            wanted = 3
            def test_it(self):
                assert f(1) == self.wanted
        class TestA(Base):
            pass
        class TestB(Base):
            wanted = 3
            def test_more(self):
                assert f(2) == 3
    """,
    "text": """
        def test_it():
            wanted = 3
            assert f(1) == 3, f"{wanted!r:>{wanted}} {'a' if wanted else 'b'}"
            got = f'{f(1)}-{"x" * wanted}'
            assert got == "3-xxx"
    """,
    "walrus": """
        def test_it():
            assert (got := f(1)) == 3
            assert got + 1 == 4
            if (more := f(2)) == 3:
                assert more == 3
    """,
    "match": """
        def test_it():
            match f(1):
                case 3 as got:
                    wanted = 3
                    assert got == wanted
                case _:
                    assert False
            for kind in [1, "a"]:
                match kind:
                    case int():
                        assert f(kind) == 3
                    case str(x):
                        assert x == "a"
    """,
    "stars": """
        def test_it():
            first, *rest = 3, 4, 5
            a, (b, *c) = 1, (2, 3)
            assert f(*rest[:1]) == first
            assert [*c, f(1)] == [3, 3]
            for x, *y in [(1, 2, 3)]:
                assert f(x) == y[1]
            for x, (y, z) in [(1, (2, 3))]:
                assert f(x) == z
    """,
    "nested": """
        def deco(function):
            return function
        def outer():
            count = 0
            def inner():
                nonlocal count
                count += 1
                return count
            return inner
        @deco
        def helper(n=3):
            return n
        def test_it():
            go = outer()
            wanted = 3
            def local(x):
                return wanted if x else helper()
            assert [go(), go(), f(0)] == [1, 2, 3]
            assert f(1) == local(1)
            assert (lambda x, y=wanted: f(x) + y)(1) == 6
    """,
    "globals": """
        COUNT = 0
        WANTED = 3
        def count():
            global COUNT
            COUNT += 1
            return COUNT
        def test_it():
            assert count() == 1
            assert f(1) == WANTED
            assert COUNT == 1
            assert globals()["COUNT"] == 1
    """,
    "reflection": """
        WANTED = 3
        def test_locals():
            wanted = 3
            assert f(1) == wanted
            assert "wanted" in locals()
        def test_eval():
            wanted = 3
            assert f(1) == wanted
            assert eval("wanted") == 3
        def test_getattr():
            import sys
            assert getattr(sys.modules[__name__], "WANTED") == f(1)
        def test_name():
            assert test_name.__name__ == "test_name"
            assert f(1) == 3
    """,
    "modules": """
        ready = []
        def setUpModule():
            ready.append(1)
        class Ready(unittest.TestCase):
            def setUp(self):
                self.assertEqual(f(1), 3)
            def test_it(self):
                self.assertEqual(ready, [1])
                self.assertEqual(f(1), 3)
        def setup_module():
            ready.append(1)
        def pytest_generate_tests(metafunc):
            if "made" in metafunc.fixturenames:
                metafunc.parametrize("made", [3, 3])
        def test_made(made):
            assert f(1) == made
    """,
    "shared": """
        WAYS = pytest.mark.parametrize("x, y", [(1, 3), (2, 3)])
        EMPTY = []
        @WAYS
        def test_a(x, y):
            assert f(x) == y
        @pytest.mark.parametrize("x", EMPTY)
        def test_none(x):
            assert f(x) == 3
        @pytest.mark.parametrize("x, y", [(1, 3), (2, 3)])
        class TestBoth:
            def test_a(self, x, y):
                assert f(x) == y
            def test_b(self, x, y):
                assert f(y) == y
        @pytest.mark.parametrize("n", range(2), ids=lambda n: f"n{n}")
        @pytest.mark.parametrize(("made", "y"), [("a", 3)], indirect=["made"])
        def test_indirect(made, y, n):
            assert f(made) == y
        @pytest.fixture(params=[1, 2], ids=["one", "two"])
        def made(request):
            return getattr(request, "param", 0)
    """,
    "mocks": """
        from unittest import mock
        def test_it():
            called = mock.Mock()
            called(1, msg="a", id=2)
            called.assert_called_once_with(1, msg="a", id=2)
            called.param(id=3)
            called.param.assert_called_with(id=3)
            assert f(called.call_count) == 3
    """,
    "consumed": """
        def test_it():
            rows = iter([1, 2, 3])
            first = next(rows)
            second = next(rows)
            assert f(second) == 3
            assert next(rows) == 3
            assert first == 1
    """,
    "yielding": """
        import contextlib
        @contextlib.contextmanager
        def around(n):
            assert f(n) == 3
            yield n
            assert f(n) == 3
        def each():
            for n in [1, 2]:
                assert f(n) == 3
                yield n
        def test_it():
            with around(3) as n:
                assert f(n) == 3
            assert [f(n) for n in each()] == [3, 3]
    """,
    "skipped": """
        @pytest.mark.xfail(reason="3", strict=True)
        def test_xfail():
            assert f(1) == 4
            assert 0
        @pytest.mark.skipif(f(1) == 3, reason="3")
        def test_skip():
            assert f(1) == 3
        async def test_async():
            assert await f(1) == 3
    """,
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, list[str]]]:
    """Outcomes of the tests of each ``ODD`` file, as they are, with both sides, and blind."""
    root = tmp_path_factory.mktemp("odd")
    (root / "app.py").write_text("class Span: pass\ndef f(*given): return 3\n")
    (root / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(recording.__file__).parent)!r})\n"
        "import recorder\nsys.modules['_agentbench'] = recorder.Recorder()\n"
    )
    for name, source in ODD.items():
        found = blinded(source)
        (root / name).mkdir()
        (root / name / "test_plain.py").write_text(HEAD + dedent(source))
        (root / name / "test_both.py").write_text(found.both)
        (root / name / "test_blind.py").write_text(found.blind)
    command = [sys.executable, "-m", "pytest", "-qq", "-rA", "-p", "no:cacheprovider", "-p", "no:anyio"]
    command += ["--import-mode=importlib", "--tb=short", "-W", "ignore", "--rootdir=.", "-c", "/dev/null", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    ended: dict[str, dict[str, list[str]]] = {name: {} for name in ODD}
    for line in done.stdout.partition("short test summary info")[2].splitlines():
        outcome, _, test = line.partition(" ")
        name, _, rest = test.partition("/")
        if name in ended:
            form, _, function = rest.partition(".py::")
            ended[name].setdefault(form, []).append(f"{outcome} {function.partition('[')[0].partition(' ')[0]}")
    return ended


@pytest.mark.parametrize("name", ODD)
def test_unusual_files_have_the_same_outcomes(name: str, outcomes: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Outcomes are the same with both sides and blind."""
    plain = sorted(outcomes[name]["test_plain"])
    assert len(plain) >= 1
    assert sorted(outcomes[name]["test_both"]) == plain
    assert sorted(outcomes[name]["test_blind"]) == plain


def test_identifiers_of_parameters_are_numbers() -> None:
    ids = recording.Recorder().ids()
    assert [next(ids) for _ in range(3)] == ["p0", "p1", "p2"]


def test_sites_are_plain_data() -> None:
    """A site has the function, the assertion and its position, all readable."""
    (site,) = in_test("assert f('a') == {'b': 40501}").sites
    assert (site.function, site.assertion, site.expected) == ("test_it", "f('a') == {'b': 40501}", "{'b': 40501}")
    assert json.dumps(site.position) == "[11, 11]"


# --- secret values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "secret"),
    [
        ("assert f(1) == 40501", True),
        ("wanted = 40501\nassert f(1) == wanted", True),
        ("text = 'long enough'\nassert f(text) == text", False),
        ("text = 'long enough' * 9\nassert f(text) == sorted(text)", False),
        ("text = 'long enough'\nwanted = text.upper()\nassert f(text) == wanted", False),
        ("wanted = 40501\nassert f(1) == wanted\nf(wanted)", False),
        ("text, wanted = 'a', 'b'\nassert f(text) == wanted", True),
        ("text, wanted = 'a', 'b'\nassert f(text, wanted) == wanted", False),
        ("for text, wanted in [('a', 'b')]:\n    assert f(text) == wanted", True),
        ("for text, wanted in [('a', 'b')]:\n    assert f(text, wanted) == wanted", False),
        ("for text, wanted in {'a': 'b'}.items():\n    assert f(text) == wanted", True),
        ("for text, wanted in {'a': 'b'}.items():\n    assert f(text, wanted) == [text]", False),
        ("for n in range(9):\n    assert f(n) == n + 1", False),
        ("def wanted():\n    return 3\nassert f(1) == wanted()", True),
        ("def wanted():\n    return 3\nassert f(1, wanted) == wanted()", False),
        ("assert f(1) == Span(0, 60)", True),
        ("assert f(1) == True", False),
        ("assert f(1) == None", False),
        ("assert f(1) == b'abc'", True),
        ("assert f(1) == 2.5", True),
        ("assert f(1) == 1e999", False),
        ("assert f(1) == [each * 2 for each in (1, 2)]", True),
        ("assert f(1) == 3", False),
    ],
)
def test_values_absent_from_the_blind_file_are_secret(body: str, secret: bool) -> None:
    """A value that the blind file still contains is not secret, however long it is."""
    found = in_test(*body.splitlines())
    assert (found.sites[0].secret >= 8) == secret
    assert found.sites[0].secret <= 1000


def test_arguments_of_helpers_are_secret_if_they_are_cut() -> None:
    source = "def check(n, wanted):\n    assert f(n) == wanted\n\ndef test_it():\n    check(1, 40501)\n"
    assert blinded(source).sites[0].secret >= 8
    assert blinded(source, imported_elsewhere={"check"}).sites[0].secret < 8


@pytest.mark.release
def test_the_bundled_tasks() -> None:
    """At least two of three assertions are blinded, and every blinded file compiles."""
    blinded_ones = left = 0
    for task in sorted((Path(agentbench_core.__file__).parents[1] / "tasks").glob("*/*/task.yaml")):
        repository = task.parent / "repo"
        program = frozenset(top_modules(str(path.relative_to(repository)) for path in repository.rglob("*.py")))
        for path in sorted((task.parent / "checks").rglob("test_*.py")):
            found = blind(path.read_text(), program)
            compile(found.both, "both", "exec")
            compile(found.blind, "blind", "exec")
            blinded_ones += len(found.sites)
            left += sum(found.unblinded.values())
    assert blinded_ones >= 2 * left


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("""f"{d['a']} {', '.join('xy')}{{}}\\n" """, """'{} {}{{}}\\n'.format(d['a'], ', '.join('xy'))"""),
        ("""f"{d['a']!r:>{d['w']}}|{n:03}|{n}" """, """'{!r:>{}}|{:03}|{}'.format(d['a'], d['w'], n, n)"""),
        ("""f"{f'''{d['a']}'''} {n}" """, """'{} {}'.format('{}'.format(d['a']), n)"""),
        ("""f"{n:>{n}} it's" """, '''f"{n:>{n}} it's"'''),
    ],
)
def test_formats_are_written_for_older_pythons(written: str, expected: str) -> None:
    """A task may use an older Python than AgentBench, which does not allow reusing quotes in f-strings."""
    values = {"d": {"a": "A", "w": 9}, "n": 7}
    text = unparse(ast.parse(written.strip(), mode="eval"))
    assert text == expected
    assert eval(text, values) == eval(written.strip(), values)
