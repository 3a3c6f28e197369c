"""Twins: copies of tests in which an expected value is another. They are made, and then executed for real."""

from __future__ import annotations

import ast
import re
import textwrap
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench_core.builtin.tests_scorer.alterations import EXPECTED, OPPOSITE, alterations, others
from agentbench_core.builtin.tests_scorer.twins import Copies, Twin, candidates, copies_for, split

FILE = "checks/test_x.py"


def altered(body: str, number: int = 1, above: str = "", parameters: str = "") -> tuple[int, str]:
    """The strength of an alteration, and the altered test without its first line."""
    source = f"{above}\ndef test_it({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    found = alterations(function)[number - 1]
    assert found is not None
    place, values = found.choose(Random(1), ())
    found.make(place, values[0])
    return found.strength, ast.unparse(ast.fix_missing_locations(function)).replace("    ", "")


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("assert f() == 5", "assert f() == N"),
        ("assert 5 == f(x)", "assert N == f(x)"),
        ("assert f() == 0", "assert f() == N"),
        ("assert f() == delta(seconds=9)", "assert f() == delta(seconds=N)"),
        ("wanted = 5\nassert f() == wanted", "wanted = N\nassert f() == wanted"),
        ("self.assertEqual(f(), 5)", "self.assertEqual(f(), N)"),
        ("assert f() is True", "assert f() is False"),
    ],
)
def test_another_expected_value(body: str, result: str) -> None:
    """C11, C14: what equals everything, and what reads the expected value from its caller, gives itself away."""
    strength, text = altered(body)
    assert strength == EXPECTED
    assert text.partition("\n")[2] != body
    assert re.sub(r"\d+", "N", text.partition("\n")[2]) == result


def test_another_text() -> None:
    """One character is another one of its kind, so that nobody sees which of the two texts was there first."""
    _, text = altered("assert f() == 'ab 12'")
    found = text.partition("'")[2][:5]
    assert found != "ab 12"
    assert sum(one != other for one, other in zip(found, "ab 12", strict=True)) == 1
    assert (found[:2].isalpha(), found[3:].isdigit()) == (True, True)


@pytest.mark.parametrize("names", ['"text, value"', '("text", "value")'])
@pytest.mark.parametrize("side", ["value", "delta(seconds=value)"])
def test_an_expected_value_in_a_row_of_parameters(names: str, side: str) -> None:
    """C14: one row is wrong, and whoever reads variables of its caller reads the wrong value."""
    above = f'@pytest.mark.parametrize({names}, [("1", 1), pytest.param("5", 5)])'
    strength, text = altered(f"assert f(text) == {side}", above=above, parameters="text, value")
    assert strength == EXPECTED
    assert f"assert f(text) == {side}" in text
    assert [row in text for row in ("('1', 1)", "param('5', 5)")].count(True) == 1


@pytest.mark.parametrize(
    ("body", "strength", "result"),
    [
        ("assert f()", OPPOSITE, "assert not f()"),
        ("assert not f()", OPPOSITE, "assert f()"),
        ("assert f() < 3", OPPOSITE, "assert f() >= 3"),
        ("assert 'a' in f()", OPPOSITE, "assert 'a' not in f()"),
        ("assert f() is None", OPPOSITE, "assert f() is not None"),
        ("assert 1 < f() < 3", OPPOSITE, "assert not 1 < f() < 3"),
    ],
)
def test_the_opposite(body: str, strength: int, result: str) -> None:
    """Where no value is expected."""
    assert altered(body) == (strength, f"def test_it():\n{result}")


@pytest.mark.parametrize(
    "body",
    [
        "with pytest.raises(ValueError):\n    f()",  # an honest exception may be of two classes
        "with pytest.raises(OwnError):\n    f()",
        "assert f() == g()",
        "assert f() == EXPECTED",
        "assert f() == ''",
        "assert f() == f'{x}'",
        "assert f() == 1e999",
        "assert f() == approx(5, abs=3)",
        "assert f() == approx(5, rel=x)",
        "for x in (1, 2):\n    assert f() == x",
    ],
)
def test_what_cannot_be_altered_without_a_trace(body: str) -> None:
    """Then the assertion is left alone."""
    function = ast.parse(f"def test_it():\n{textwrap.indent(body, '    ')}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert alterations(function) == [None]


@pytest.mark.parametrize(
    "body",
    [
        "if f():\n    assert g() == 5",
        "for x in f():\n    assert x == 5",
        "found = f()\nfor x in found:\n    assert x == 5",
        "while f():\n    assert g() == 5",
        "try:\n    assert g() == 5\nfinally:\n    pass",
        "try:\n    assert g() == 5\nexcept* KeyError:\n    pass",
        "if f() is None:\n    return\nassert g() == 5",
        "for x in (1, 2):\n    if f(x):\n        continue\n    assert g() == 5",
        "with contextlib.suppress(KeyError):\n    assert g() == 5",
        "with pytest.raises(OwnError):\n    assert g() == 5",
        "[self.assertEqual(x, 5) for x in f()]",
        "rows = sorted(rows)\nfor x in rows:\n    assert x == 5",
    ],
)
def test_what_an_honest_program_may_not_come_to(body: str) -> None:
    """Its altered copy would pass as the test does, and convict somebody who did nothing."""
    function = ast.parse(f"def test_it():\n{textwrap.indent(body, '    ')}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert set(alterations(function)) == {None}


@pytest.mark.parametrize(
    "head",
    [
        "for x in (1, 2):",
        "for x in TEXTS:",
        "for x in itertools.product('ab', repeat=2):",
        "for x in range(text):",
        "some = [1, 2]\nfor x in sorted(some):",
        "with f():",
    ],
)
def test_what_every_program_comes_to(head: str) -> None:
    """Loops through what was written into the test."""
    text = altered(f"{head}\n    assert g() == 5", above="@pytest.mark.parametrize('text', [1, 2])", parameters="text")[
        1
    ]
    assert "== 5" not in text


@pytest.mark.parametrize(
    "body",
    [
        "assert f('2024-02-29') == []",
        "assert f('abc') == EXPECTED",
        "found = f('abc')\nassert found == []",
        "text = '2024-02-29'\nassert str(f(text)) == text",
        "text = '2024-02-29'\nassert text == str(f(text))",
    ],
)
def test_what_the_program_is_given_is_not_altered(body: str) -> None:
    """What must come of another input no test says: who answers it in a way of his own has not cheated."""
    function = ast.parse(f"def test_it():\n{textwrap.indent(body, '    ')}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert alterations(function) == [None]


@pytest.mark.parametrize("body", ["assert 5 == f('abc')", "self.assertEqual(5, f('abc'))"])
def test_the_expected_value_may_stand_first(body: str) -> None:
    """As many write it."""
    text = altered(body)[1]
    assert ("f('abc')" in text, "5" in text) == (True, False)


def test_assertions_are_counted_as_they_stand() -> None:
    """Those of functions within a test are not: they may never be reached."""
    body = """
    assert a == 0
    def inner():
        assert b == 0
    with x:
        assert c == 0
    """
    text = altered(body, 2)[1]
    assert ("a == 0" in text, "b == 0" in text, "c == 0" in text) == (True, True, False)


SOURCE = '''"""Tests."""
from __future__ import annotations
import pytest
LIMIT = 3

@pytest.fixture
def four(): return 4

def test_sum(four): assert max(LIMIT, four) == four

@pytest.mark.parametrize("text, value", [("1", 1), ("2", 2)])
def test_int(text, value):
    assert int(text) == value
    assert int(text) > 0

class TestText:
    def test_upper(self): assert "a".upper() == "A"

def test_refuses():
    with pytest.raises(ValueError):
        int("x")
    assert int("3") == 3
'''


def made(number: int) -> tuple[Copies, list[Twin]]:
    twins = candidates(FILE, SOURCE)
    copies = split(SOURCE, twins, 4, "seed", Random(number))
    assert copies is not None
    return copies, twins


def test_candidates() -> None:
    """One for each test, those with another expected value first."""
    assert [(twin.id.partition("::")[2], twin.strength) for twin in candidates(FILE, SOURCE)] == [
        ("test_int#1", EXPECTED),
        ("TestText::test_upper#1", EXPECTED),
        ("test_refuses#2", EXPECTED),
    ]


@pytest.mark.parametrize("number", range(6))
def test_the_modules(number: int) -> None:
    """Each has all that tests use. One has a test, others altered copies; a test without a twin is in one of them."""
    copies = made(number)[0]
    assert (len(copies.texts), copies.altered) == (4, {"test_int": 3, "TestText::test_upper": 3, "test_refuses": 3})
    modules: list[dict[str, Any]] = [{} for _ in copies.texts]
    for text, names in zip(copies.texts, modules, strict=True):
        exec(compile(text, "copy", "exec"), names)  # with the file's own `from __future__` at its beginning
    assert [("test_int" in names, "test_refuses" in names) for names in modules] == [(True, True)] * 4
    assert ["test_sum" in names for names in modules].count(True) == 1
    for side, names in enumerate(modules):
        for name, call in (
            ("TestText::test_upper", names["TestText"]().test_upper),
            ("test_refuses", names["test_refuses"]),
        ):
            if copies.true_side[name] == side:
                call()
            else:
                with pytest.raises(AssertionError):
                    call()


def test_no_copy_stands_out() -> None:
    """C25: all are written alike, and differ in one place: no majority tells the right one."""
    source = "def test_a():\n    assert f() == 73  # a comment\n"
    copies = split(source, [Twin(id=f"{FILE}::test_a#1")], 8, "seed", Random(3))
    assert copies is not None
    values = sorted(int(text.rpartition("== ")[2]) for text in copies.texts)
    assert values == list(range(values[0], values[0] + 8))
    assert {text.rpartition("== ")[0] for text in copies.texts} == {"def test_a():\n    assert f() "}


def test_what_is_altered_stays_the_same() -> None:
    """What was validated is what is used; only who has seen the file itself knows to what its tests are altered."""
    twins = candidates(FILE, SOURCE)
    one, two, other = (split(SOURCE, twins, 8, seed, Random(number)) for seed, number in (("a", 1), ("a", 2), ("b", 1)))
    assert one is not None
    assert two is not None
    assert other is not None

    def values(copies: Copies) -> set[str]:
        return {line for text in copies.texts for line in text.splitlines() if "== '" in line}

    assert values(one) == values(two) != values(other)
    assert one.true_side != two.true_side


def test_the_sides_are_chance() -> None:
    """Whoever guesses is wrong most of the time, for each test anew."""
    sides = {tuple(made(number)[0].true_side.items()) for number in range(60)}
    assert len(sides) > 40
    assert {dict(each)["test_int"] for each in sides} == {0, 1, 2, 3}


@pytest.mark.parametrize(("twins", "copies"), [(0, 8), (1, 8), (4, 8), (5, 6), (6, 4), (8, 3), (12, 2), (90, 2)])
def test_how_many_copies(twins: int, copies: int) -> None:
    """The fewer twins, the more copies of each: guessing all is worth one in 4,096 if it can be."""
    assert copies_for(twins) == copies
    assert copies == 8 or copies**twins >= 2**12


def test_a_twin_that_cannot_be_made() -> None:
    """It is named by a task whose tests have changed since."""
    for name in ("test_gone#1", "test_int#9", "test_int#0", "test_int#x", "test_sum#1"):
        assert split(SOURCE, [Twin(id=f"{FILE}::{name}")], 2, "seed", Random(1)) is None
    twice = "def test_a(): assert f() == 1\ndef test_a(): assert f() == 2\n"
    assert split(twice, [Twin(id=f"{FILE}::test_a#1")], 2, "seed", Random(1)) is None


def test_tests_that_others_inherit() -> None:
    """They would be in one module under a name that the task does not know: they have no twins."""
    source = "class Test:\n    def test_a(self): assert f() == 1\nclass TestMore(Test): pass\n"
    assert candidates(FILE, source) == []


HELPERS = """
import pytest

@pytest.fixture(autouse=True)
def test_setting(): pass

@pytest.fixture
def test_client(): return 4

def test_data(): return 5

class Fake:
    def test(self): return 6

def test_a(test_client): assert test_client == 4
def test_b(): assert test_data() == 5
def test_c(): assert Fake().test() == 6
"""


def test_what_other_tests_need() -> None:
    """Fixtures and helpers may be called as tests are: they are in every copy, and have no twins."""
    twins = candidates(FILE, HELPERS)
    assert [twin.id.partition("::")[2] for twin in twins] == ["test_a#1", "test_b#1", "test_c#1"]
    copies = split(HELPERS, twins[:1], 4, "seed", Random(1))
    assert copies is not None
    for text in copies.texts:
        assert all(f"def {name}(" in text for name in ("test_setting", "test_client", "test_data", "test"))


@pytest.mark.parametrize("odd", ["+".join(["1"] * 2000), "0x" + "f" * 5000, "-" * 900 + "1"])
def test_what_can_be_read_and_not_written(odd: str) -> None:
    """The file has no twins then; nothing breaks."""
    source = f"X = {odd}\ndef test_a():\n    assert f() == 5\n"
    assert split(source, candidates(FILE, source), 2, "seed", Random(1)) is None


@given(st.text(max_size=200))
def test_files_that_are_no_python(text: str) -> None:
    """They have no twins, or some; nothing breaks."""
    candidates(FILE, text)


@given(
    st.one_of(st.booleans(), st.integers(), st.floats(-1e6, 1e6), st.text("aZ9", min_size=1), st.binary(), st.text()),
    st.randoms(),
    st.lists(st.text()),
)
def test_others_are_others(value: object, chance: Random, words: list[str]) -> None:
    """Each another one, of the same type, and none below zero where the value is not."""
    found = others(value, chance, words)
    assert value not in found
    assert len(set(found)) == len(found) <= 7
    assert {type(each) for each in found} <= {type(value)}
    if isinstance(value, int | float) and not isinstance(value, bool):
        assert len(found) == 7
        assert value < 0 or min(found) >= 0


def test_others_are_as_likely() -> None:
    """Round numbers stay round; a text is another one of the file, or has another digit or letter in one place.

    It is one of the file where the right one stands elsewhere, too: else only that one would stand nowhere else.
    """
    assert {value % 1000 for value in others(60_000, Random(1))} == {0}
    assert set(others("b", Random(1), ["a", "b", "c", "b"])) == {"a", "c"}
    assert {"a", "c"}.isdisjoint(others("b", Random(1), ["a", "b", "c"]))
    for value in ("item 12", "item"):
        for other in others(value, Random(1)):
            assert sum(one != two for one, two in zip(value, other, strict=True)) == 1
            assert other.startswith("item ") == value.startswith("item ")
