"""The assertions of a test file, each as a comparison of what the program gives with what is expected."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from agentbench_integrity.scorer.blinding.names import Names, name_of
from agentbench_integrity.scorer.blinding.origin import Origin
from agentbench_integrity.scorer.blinding.values import REPETITION

_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "in": "has", "not in": "has not"}
"""The operator when the program's side stands on the right; others are the same both ways."""
_EQUAL = ("", "List", "Dict", "Tuple", "Set", "Sequence", "MultiLine")
_UNITTEST = {
    **{f"assert{kind}Equal": "==" for kind in _EQUAL},
    "assertNotEqual": "!=",
    "assertIn": "in",
    "assertNotIn": "not in",
    "assertLess": "<",
    "assertLessEqual": "<=",
    "assertGreater": ">",
    "assertGreaterEqual": ">=",
    "assertIs": "is",
    "assertIsNot": "is not",
    "assertCountEqual": "same items",
    "assertAlmostEqual": "almost",
}
_UNITTEST_OF_ONE = {
    "assertTrue": ("truth", True),
    "assertFalse": ("truth", False),
    "assertIsNone": ("is", None),
    "assertIsNotNone": ("is not", None),
}
_OTHER_FORMS = frozenset({"assertRaises", "assertRegex", "assertWarns", "warns", "fail", "assertLogs"})
_SINGLETONS = (None, True, False, ...)
_OF_TYPES = frozenset({"isinstance", "issubclass", "hasattr", "callable"})
_SIMPLE = (ast.Name, ast.Constant)


@attrs.frozen(eq=False)
class Comparison:
    """An assertion that can be blinded: ``program operator expected``.

    ``node`` is replaced: a statement, or the ``withitem`` of an expected exception, whose text is compared.
    """

    node: ast.stmt | ast.withitem
    program: ast.expr
    expected: ast.expr
    operator: str

    @property
    def place(self) -> tuple[int, int]:
        """Line and column of the program's side."""
        return self.program.lineno, self.program.col_offset


@attrs.frozen(eq=False)
class Left:
    """An assertion that stays as it is, and why."""

    line: int
    why: str


def split(tree: ast.Module) -> None:
    """Make one assertion of each part of ``a and b``, and of ``a < b < c`` where ``b`` is a name or a constant."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                statements[:] = [part for each in statements for part in _parts(each)]


def _parts(statement: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(statement, ast.Assert):
        yield statement
    elif isinstance(statement.test, ast.BoolOp) and isinstance(statement.test.op, ast.And):
        for value in statement.test.values:
            yield from _parts(ast.copy_location(ast.Assert(value, None), statement))
    elif isinstance(statement.test, ast.Compare) and len(statement.test.ops) > 1:
        test = statement.test
        if all(isinstance(each, _SIMPLE) for each in test.comparators[:-1]):
            left = test.left
            for operator, right in zip(test.ops, test.comparators, strict=True):
                pair = ast.copy_location(ast.Compare(left, [operator], [right]), statement)
                yield ast.copy_location(ast.Assert(pair, None), statement)
                again = (
                    ast.Name(right.id, ast.Load()) if isinstance(right, ast.Name) else ast.Constant(_value_of(right))
                )
                left = ast.copy_location(again, right)
        else:
            yield statement
    else:
        yield statement


def _value_of(constant: ast.expr) -> Any:
    assert isinstance(constant, ast.Constant)
    return constant.value


class Assertions:
    """Finds the assertions of a file: ``comparisons`` that can be blinded, and what is ``left``."""

    def __init__(self, names: Names, origin: Origin) -> None:
        self._names = names
        self._origin = origin
        self.comparisons: list[Comparison] = []
        self.left: list[Left] = []
        for node in names.nodes:
            self._look(node)
        self.comparisons.sort(key=lambda each: each.place)

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assert):
            self._of_truth(node, node.test, True)
        elif isinstance(node, ast.withitem):
            self._of_exception(node)
        elif isinstance(node, ast.Call):
            self._of_call(node)

    def _of_call(self, call: ast.Call) -> None:
        name, statement = name_of(call), self._names.parent[call]
        if isinstance(statement, ast.withitem):
            return
        if isinstance(call.func, ast.Attribute) and isinstance(statement, ast.Expr):
            known = {each.arg for each in call.keywords} <= {"msg"} and not any(
                isinstance(each, ast.Starred) for each in call.args
            )
            if name in _UNITTEST_OF_ONE and call.args and known:
                operator, value = _UNITTEST_OF_ONE[name]
                if operator == "truth":
                    self._of_truth(statement, call.args[0], bool(value))
                else:
                    self._take(statement, call.args[0], _constant(value, call), operator)
                return
            if name in _UNITTEST and len(call.args) >= 2 and known:
                if _UNITTEST[name] == "almost" and len(call.args) > 2:
                    self._leave(call, "assertAlmostEqual with places")
                else:
                    self._of_two(statement, _UNITTEST[name], call.args[0], call.args[1])
                return
            if name in _UNITTEST or name in _UNITTEST_OF_ONE:
                self._leave(call, "another form")
                return
        if name in _OTHER_FORMS or name == "raises":
            self._leave(call, "expects an exception, by its class alone" if "aises" in name else "another form")

    def _of_truth(self, statement: ast.stmt, test: ast.expr, wanted: bool) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._of_truth(statement, test.operand, not wanted)
        elif isinstance(test, ast.Compare) and wanted:
            if len(test.ops) > 1:
                self._leave(statement, "compares more than two values")
            else:
                self._of_two(statement, _OPERATORS[type(test.ops[0])], test.left, test.comparators[0])
        elif isinstance(test, ast.BoolOp):
            self._leave(statement, "and/or")
        elif isinstance(test, ast.Call) and name_of(test) in _OF_TYPES:
            self._leave(statement, "asks for a type")
        elif isinstance(test, ast.Call) and _is_ending(test) and self._origin.is_own(test.args[0]):
            assert isinstance(test.func, ast.Attribute)
            operator = name_of(test) if wanted else f"not {name_of(test)}"
            self._take(statement, test.func.value, test.args[0], operator)
        elif self._origin.is_own(test) and self._origin.weight(test) < self._origin.OF_PROGRAM:
            self._leave(statement, "nothing in it is the program's")
        else:
            self._take(statement, test, _constant(wanted, test), "truth")

    def _of_two(self, statement: ast.stmt, operator: str, left: ast.expr, right: ast.expr) -> None:
        """Find out which side is the program's."""
        own = self._origin.is_own(left), self._origin.is_own(right)
        if own == (False, False):
            return self._leave(statement, "both sides are computed by the program")
        if own == (True, True):
            weights = self._origin.weight(left), self._origin.weight(right)
            if weights[0] == weights[1]:
                return self._leave(statement, "both sides are the test's own")
            own = weights[0] < weights[1], weights[1] < weights[0]
        program, expected = (left, right) if own[1] else (right, left)
        if own[0]:
            operator = _TURNED.get(operator, operator)
        if operator in ("is", "is not") and not (
            isinstance(expected, ast.Constant) and any(expected.value is each for each in _SINGLETONS)
        ):
            return self._leave(statement, "asks for the same object")
        return self._take(statement, program, expected, operator)

    def _of_exception(self, item: ast.withitem) -> None:
        call = item.context_expr
        if not isinstance(call, ast.Call) or name_of(call) not in ("raises", "assertRaises", "assertRaisesRegex"):
            return
        pattern = next((each.value for each in call.keywords if each.arg == "match"), None)
        if name_of(call) == "assertRaisesRegex" and len(call.args) == 2:
            pattern = call.args[1]
        if pattern is None:
            self._leave(call, "expects an exception, by its class alone")
        elif not self._origin.is_own(pattern):
            self._leave(call, "match is computed by the program")
        else:
            self._take(item, call, pattern, "match")

    def _take(self, node: ast.stmt | ast.withitem, program: ast.expr, expected: ast.expr, operator: str) -> None:
        self.comparisons.append(Comparison(node, program, expected, operator))

    def _leave(self, node: ast.stmt | ast.expr, why: str) -> None:
        self.left.append(Left(node.lineno, why))


def is_simple_pattern(pattern: str) -> bool:
    """Whether a regular expression can be searched for in a hostile text: two repetitions at the most, none nested."""
    return len(REPETITION.findall(pattern)) <= 2 and not re.search(r"[*+}]\)?[*+{]|\)[*+{]|\\\d|\(\?P=", pattern)


def _constant(value: object, at: ast.expr) -> ast.Constant:
    return ast.copy_location(ast.Constant(value), at)  # type: ignore[arg-type]


def _is_ending(call: ast.Call) -> bool:
    return (
        name_of(call) in ("startswith", "endswith")
        and isinstance(call.func, ast.Attribute)
        and len(call.args) == 1
        and not call.keywords
    )


def functions_around(names: Names, node: ast.AST) -> Sequence[str]:
    """The names of the classes and functions around a node, from the outside."""
    found = [
        above.name
        for above in names.above(node)
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    return found[::-1]
