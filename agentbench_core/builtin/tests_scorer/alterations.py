"""How the assertions of a test can be made wrong, so that the result looks as much like a test as the original.

Whoever sees a test among altered copies must not be able to tell which it is without knowing what is right. So only
what is written out is altered, in one place, and to values that might as well be the right one.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import attrs

from agentbench_core.builtin.tests_scorer.reading import (
    EQUALITY,
    Function,
    assertions,
    assignments,
    calls,
    column,
    method,
    name_of,
)

EXPECTED, OPPOSITE = range(2)
"""What is altered, the strongest first: only another expected value tells on what equals everything.

An expected exception is not: an honest one may be of the other class, too, as many in libraries are of two.
"""
_EXACT = 2.0**50
"""A float from here on has no neighbours that differ by one, or none at all."""
_NEARLY = 1e-6
"""A tolerance in which a value and a neighbour cannot both be right; it is what approx has when none is said."""
MOST_OTHERS = 7
"""Other values for one place."""

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


@attrs.frozen
class Alteration:
    """A way to make one assertion wrong, bound to the function that it was found in.

    ``choose`` gives a place and other values for it, :data:`MOST_OTHERS` if there are so many; it is also given texts
    that the file has elsewhere. ``make`` puts one there.
    """

    strength: int
    choose: Callable[[Random, Sequence[str]], tuple[int, list[Any]]]
    make: Callable[[int, Any], None]


def alterations(function: Function) -> list[Alteration | None]:
    """One for each assertion of a test, in the order of the source; ``None`` where nothing looks natural.

    ``None`` also where an honest program may not come to: an altered copy that never gets there would pass.
    """
    return [
        None if not sure else _of_assert(node, function) if isinstance(node, ast.Assert) else _of_call(node, function)
        for node, sure in assertions(function)
    ]


def others(value: object, chance: Random, words: Sequence[str] = ()) -> list[Any]:
    """Other values of the same kind among which this one would not be told; none if there is no such thing.

    Args:
        value: the right one.
        chance: where it lies among them.
        words: all texts of the same file, each as often as it stands there. One that stands elsewhere, too, is as
            likely here as the others that do; a text that stands here only would be told by that.
    """
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return _near(value, chance)
    if isinstance(value, bytes):
        return [each.encode("latin-1") for each in others(value.decode("latin-1"), chance)]
    if not isinstance(value, str):
        return []
    if words.count(value) > 1:
        known = sorted({word for word in words if word != value and word.isprintable()})
        return chance.sample(known, min(MOST_OTHERS, len(known)))
    return [word for word in _similar(value, chance) if word not in words]


def _near(value: float, chance: Random) -> list[Any]:
    """Numbers around one, as round as that, and none below zero if that is not; none for a float that has no near."""
    if not isinstance(value, int) and abs(value) >= _EXACT:
        return []
    step = 1
    while isinstance(value, int) and value and value % (step * 10) == 0:
        step *= 10
    below = chance.randrange(MOST_OTHERS + 1)
    below = min(below, int(value) // step) if value >= 0 else below
    found = [value + place * step for place in range(-below, MOST_OTHERS + 1 - below) if place]
    return chance.sample(found, len(found))


def _similar(value: str, chance: Random) -> list[str]:
    """Texts with another character in one place; a digit first, since a word with another letter is no word."""
    for kind in _KINDS:
        if places := [place for place, character in enumerate(value) if character in kind]:
            place = chance.choice(places)
            found = chance.sample(kind.replace(value[place], ""), MOST_OTHERS)
            return [value[:place] + character + value[place + 1 :] for character in found]
    return []


# --- what there is ----------------------------------------------------------------------------------------------------


def _of_call(call: ast.Call, function: Function) -> Alteration | None:
    if method(call) in EQUALITY and len(call.args) > 1:
        return _of_equality(call.args[0], call.args[1], function)
    return None


def _of_assert(node: ast.Assert, function: Function) -> Alteration | None:
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator, right = test.ops[0], test.comparators[0]
        if isinstance(operator, ast.Eq):
            return _of_equality(test.left, right, function)
        if isinstance(operator, ast.Is) and isinstance(right, ast.Constant) and isinstance(right.value, bool):
            return _expected(right, function)
        return Alteration(OPPOSITE, _one, partial(_turn_round, test)) if type(operator) in _OPPOSITES else None
    return Alteration(OPPOSITE, _one, partial(_negate, node))


def _of_equality(left: ast.expr, right: ast.expr, function: Function) -> Alteration | None:
    """Alter what is expected, and never what the program is given: of that nobody knows what must come of it."""
    if _is_written(left, function) and not _is_written(right, function):
        left, right = right, left
    return _expected(right, function)


def _is_written(side: ast.expr, function: Function) -> bool:
    """Whether a side of a comparison stands in the test, with nothing in it that is called."""
    names = [part.id for part in ast.walk(side) if isinstance(part, ast.Name)]
    known = [column(name, function) or [node.value for node in assignments(name, function)] for name in names]
    return all(known) and not any(calls(place) for place in (side, *chain.from_iterable(known)))


def _given(side: ast.expr, function: Function) -> set[str]:
    """Names that the program is given, too: used elsewhere than on this side, or where another value is expected."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    harmless = {id(part) for part in ast.walk(side)}
    for node in nodes:
        if isinstance(node, ast.Compare):
            harmless |= {id(part) for part in (node.left, *node.comparators)}
            if side not in (node.left, *node.comparators):
                harmless |= {id(part) for each in node.comparators for part in ast.walk(each)}
        elif isinstance(node, ast.Call) and method(node) in EQUALITY:
            harmless |= {id(part) for part in node.args}
    loaded = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return {node.id for node in loaded if id(node) not in harmless}


def _is_vague(side: ast.expr) -> bool:
    """Whether two values that are not near may both be equal to it."""
    given = [
        tolerance
        for call in calls(side)
        if name_of(call) == "approx"
        for tolerance in (*call.args[1:], *(keyword.value for keyword in call.keywords))
    ]
    known = [part.value for part in given if isinstance(part, ast.Constant)]
    return len(known) < len(given) or any(not isinstance(each, float) or each > _NEARLY for each in known)


def _expected(side: ast.expr, function: Function) -> Alteration | None:
    """Alter what is expected where it is written out: in a row of parameters, in a local variable, or on the spot."""
    if _is_vague(side):
        return None
    given = _given(side, function)
    names = [part.id for part in ast.walk(side) if isinstance(part, ast.Name) and part.id not in given]
    columns = [cell for name in names for cell in column(name, function)]
    values = [node.value for name in names if name == getattr(side, "id", "") for node in assignments(name, function)]
    for places in (columns, values, [side]):
        if constants := [part for place in places for part in _constants(place)]:
            return Alteration(EXPECTED, partial(_other_values, constants), partial(_put, constants))
    return None


def _constants(value: ast.expr) -> list[ast.Constant]:
    """What can be altered in an expression; parts of formatted text are not in a place of their own."""
    inside = {id(part) for node in ast.walk(value) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = [part for part in ast.walk(value) if isinstance(part, ast.Constant) and id(part) not in inside]
    return [part for part in found if others(part.value, Random(0))]  # noqa: S311 - only whether there are any


# --- what is done -----------------------------------------------------------------------------------------------------


def _other_values(constants: Sequence[ast.Constant], chance: Random, words: Sequence[str]) -> tuple[int, list[Any]]:
    place = chance.randrange(len(constants))
    return place, others(constants[place].value, chance, words)


def _put(constants: Sequence[ast.Constant], place: int, value: Any) -> None:
    constants[place].value = value


def _one(_: Random, __: Sequence[str]) -> tuple[int, list[Any]]:
    """There is one opposite."""
    return 0, [None]


def _turn_round(test: ast.Compare, _: int, __: None) -> None:
    test.ops = [_OPPOSITES[type(test.ops[0])]()]


def _negate(node: ast.Assert, _: int, __: None) -> None:
    test = node.test
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    node.test = test.operand if isinstance(test, ast.UnaryOp) and negated else ast.UnaryOp(op=ast.Not(), operand=test)
