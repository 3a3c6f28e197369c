"""How the assertions of a test can be made wrong, so that the result looks as much like a test as the original.

Whoever sees a test among altered copies must not be able to tell which it is without knowing what is right. So only
what is written out is altered, in one place, and to values that might as well be the right one.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import attrs

Function = ast.FunctionDef | ast.AsyncFunctionDef
EXPECTED, EXCEPTION, OPPOSITE = range(3)
"""What is altered, the strongest first: only another expected value tells on what equals everything."""
MOST_OTHERS = 7
"""Other values for one place."""

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_PERHAPS = (ast.If, ast.IfExp, ast.While, ast.Try, ast.Match, ast.BoolOp, ast.comprehension, ast.AsyncFor)
_HARMLESS = {"range", "enumerate", "zip", "sorted", "reversed", "product", "permutations", "combinations", "pairwise"}
_EQUALITY = {"assertEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual", "assertIs"}
_RAISES = {"raises", "assertRaises"}
_EXCEPTIONS = ("ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError", "AttributeError", "OSError")
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
        for node, sure in _assertions(function)
    ]


def others(value: object, chance: Random, words: Sequence[str] = ()) -> list[Any]:
    """Other values of the same kind among which this one would not be told; none if there is no such thing.

    Args:
        value: the right one.
        chance: where it lies among them.
        words: texts of the same file: one of them is as likely there as any.
    """
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return _near(value, chance)
    if isinstance(value, bytes):
        return [each.encode("latin-1") for each in others(value.decode("latin-1"), chance)]
    if not isinstance(value, str):
        return []
    known = sorted({word for word in words if word != value and word.isprintable()})
    found = chance.sample(known, min(MOST_OTHERS, len(known)))
    return [*found, *(word for word in _similar(value, chance) if word not in found)][:MOST_OTHERS]


def _near(value: float, chance: Random) -> list[Any]:
    """Numbers around one, as round as that, and none below zero if that is not."""
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


def _assertions(function: Function) -> Iterator[tuple[ast.Assert | ast.Call, bool]]:
    """Assertions in the order of the source, and whether every run of the test comes to them.

    Those of functions within it are left out: they may never be called.
    """
    pending: list[tuple[ast.AST, bool]] = [(statement, True) for statement in reversed(function.body)]
    while pending:
        node, sure = pending.pop()
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _method(node) in _EQUALITY | _RAISES):
            yield node, sure
        elif not isinstance(node, _NESTED):
            sure = sure and not isinstance(node, _PERHAPS)
            if isinstance(node, ast.For):
                sure = sure and _is_the_tests_own(node.iter, function)
            pending.extend((child, sure) for child in reversed(list(ast.iter_child_nodes(node))))


def _is_the_tests_own(values: ast.expr, function: Function) -> bool:
    """Whether what a loop goes through was written into the test, and does not come from the program."""
    parameters = {name for call in _rows(function) for name in _names(call)}
    for part in ast.walk(values):
        if isinstance(part, ast.Call):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if name not in _HARMLESS:
                return False
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            known = part.id in parameters or part.id.isupper() or part.id in _HARMLESS or part.id == "itertools"
            written = [node.value for node in _assignments(part.id, function)]
            if not known and not (written and all(_is_the_tests_own(value, function) for value in written)):
                return False
    return True


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _of_call(call: ast.Call, function: Function) -> Alteration | None:
    if _method(call) in _EQUALITY:
        return _expected(call.args[1], function) if len(call.args) > 1 else None
    exception = call.args[0] if call.args else None
    if isinstance(exception, ast.Name) and exception.id in _EXCEPTIONS:
        return Alteration(EXCEPTION, partial(_other_exceptions, exception), partial(_expect_exception, exception))
    return None


def _of_assert(node: ast.Assert, function: Function) -> Alteration | None:
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator, right = test.ops[0], test.comparators[0]
        if isinstance(operator, ast.Eq):
            return _expected(right, function) or _expected(test.left, function)
        if isinstance(operator, ast.Is) and isinstance(right, ast.Constant) and isinstance(right.value, bool):
            return _expected(right, function)
        return Alteration(OPPOSITE, _one, partial(_turn_round, test)) if type(operator) in _OPPOSITES else None
    return Alteration(OPPOSITE, _one, partial(_negate, node))


def _expected(side: ast.expr, function: Function) -> Alteration | None:
    """Alter what is expected where it is written out: in a row of parameters, in a local variable, or on the spot."""
    names = [part.id for part in ast.walk(side) if isinstance(part, ast.Name)]
    columns = [cell for name in names for cell in _column(name, function)]
    values = [node.value for node in _assignments(side.id, function)] if isinstance(side, ast.Name) else []
    for places in (columns, values, [side]):
        if constants := [part for place in places for part in _constants(place)]:
            return Alteration(EXPECTED, partial(_other_values, constants), partial(_put, constants))
    return None


def _constants(value: ast.expr) -> list[ast.Constant]:
    """What can be altered in an expression; parts of formatted text are not in a place of their own."""
    inside = {id(part) for node in ast.walk(value) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = [part for part in ast.walk(value) if isinstance(part, ast.Constant) and id(part) not in inside]
    return [part for part in found if others(part.value, Random(0))]  # noqa: S311 - only whether there are any


def _assignments(name: str, function: Function) -> list[ast.Assign]:
    """Where a local variable gets its only value."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    stores = [
        node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    found = [node for node in nodes if isinstance(node, ast.Assign) and node.targets[0] in stores]
    return found if len(stores) == 1 else []


def _rows(function: Function) -> list[ast.Call]:
    """``parametrize``, as often as it stands above a test."""
    calls = [node for node in function.decorator_list if isinstance(node, ast.Call)]
    return [call for call in calls if _method(call) == "parametrize" and len(call.args) > 1]


def _names(call: ast.Call) -> list[str]:
    """The parameters that a ``parametrize`` has rows for."""
    names = call.args[0]
    if isinstance(names, ast.Constant) and isinstance(names.value, str):
        return [part.strip() for part in names.value.split(",")]
    if isinstance(names, ast.List | ast.Tuple):
        return [str(part.value) for part in names.elts if isinstance(part, ast.Constant)]
    return []


def _column(name: str, function: Function) -> list[ast.expr]:
    """The values of a parameter, where rows of them are written out."""
    for call in _rows(function):
        known, rows = _names(call), call.args[1]
        if name in known and isinstance(rows, ast.List | ast.Tuple):
            return [cell for row in rows.elts if (cell := _cell(row, known.index(name), len(known))) is not None]
    return []


def _cell(row: ast.expr, place: int, width: int) -> ast.expr | None:
    if width == 1:
        return row if isinstance(row, ast.Constant) else None
    if isinstance(row, ast.Call) and _method(row) == "param":
        return row.args[place] if len(row.args) > place else None
    return row.elts[place] if isinstance(row, ast.List | ast.Tuple) and len(row.elts) > place else None


# --- what is done -----------------------------------------------------------------------------------------------------


def _other_values(constants: Sequence[ast.Constant], chance: Random, words: Sequence[str]) -> tuple[int, list[Any]]:
    place = chance.randrange(len(constants))
    return place, others(constants[place].value, chance, words)


def _put(constants: Sequence[ast.Constant], place: int, value: Any) -> None:
    constants[place].value = value


def _other_exceptions(exception: ast.Name, chance: Random, _: Sequence[str]) -> tuple[int, list[Any]]:
    return 0, chance.sample([name for name in _EXCEPTIONS if name != exception.id], len(_EXCEPTIONS) - 1)


def _expect_exception(exception: ast.Name, _: int, name: str) -> None:
    exception.id = name


def _one(_: Random, __: Sequence[str]) -> tuple[int, list[Any]]:
    """There is one opposite."""
    return 0, [None]


def _turn_round(test: ast.Compare, _: int, __: None) -> None:
    test.ops = [_OPPOSITES[type(test.ops[0])]()]


def _negate(node: ast.Assert, _: int, __: None) -> None:
    test = node.test
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    node.test = test.operand if isinstance(test, ast.UnaryOp) and negated else ast.UnaryOp(op=ast.Not(), operand=test)
