"""Find the assertions of a test file and express them as ``program operator expected``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

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
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "in": "has", "not in": "has not"}
"""Maps operators to their mirror images, for a program on the right side; other operators are symmetric."""
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
_TYPE_CHECKS = frozenset({"isinstance", "issubclass", "hasattr", "callable"})
_REPEATABLE = (ast.Name, ast.Constant)


@attrs.frozen(eq=False)
class Comparison:
    """An assertion that can be blinded: ``program operator expected``.

    ``node`` will be replaced. It is a statement, or the ``withitem`` of an expected exception whose text is compared.
    """

    node: ast.stmt | ast.withitem
    program: ast.expr
    expected: ast.expr
    operator: str

    @property
    def position(self) -> tuple[int, int]:
        """Line and column of the program side."""
        return self.program.lineno, self.program.col_offset


@attrs.frozen(eq=False)
class Unblinded:
    """An assertion that cannot be blinded, and the reason."""

    line: int
    reason: str


def split(tree: ast.Module) -> None:
    """Split ``a and b``, and ``a < b < c`` if ``b`` is a name or a constant, into one assertion per part."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                statements[:] = [part for statement in statements for part in _parts(statement)]


def _parts(statement: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(statement, ast.Assert):
        yield statement
    elif isinstance(statement.test, ast.BoolOp) and isinstance(statement.test.op, ast.And):
        for value in statement.test.values:
            yield from _parts(ast.copy_location(ast.Assert(value, None), statement))
    elif isinstance(statement.test, ast.Compare) and len(statement.test.ops) > 1:
        test = statement.test
        if all(isinstance(comparator, _REPEATABLE) for comparator in test.comparators[:-1]):
            left = test.left
            for operator, right in zip(test.ops, test.comparators, strict=True):
                pair = ast.copy_location(ast.Compare(left, [operator], [right]), statement)
                yield ast.copy_location(ast.Assert(pair, None), statement)
                left = _copy(right)
        else:
            yield statement
    else:
        yield statement


def _copy(expression: ast.expr) -> ast.expr:
    """A copy of a name or a constant; the last comparator of a chain, which is not repeated, may be anything else."""
    if isinstance(expression, ast.Name):
        return ast.copy_location(ast.Name(expression.id, ast.Load()), expression)
    if isinstance(expression, ast.Constant):
        return ast.copy_location(ast.Constant(expression.value), expression)
    return expression


class Assertions:
    """The assertions of a file: ``comparisons`` can be blinded, ``unblinded`` cannot."""

    def __init__(self, names: Names, origin: Origin) -> None:
        self._names = names
        self._origin = origin
        self.comparisons: list[Comparison] = []
        self.unblinded: list[Unblinded] = []
        for node in names.nodes:
            self._visit(node)
        self.comparisons.sort(key=lambda each: each.position)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assert):
            self._visit_condition(node, node.test, True)
        elif isinstance(node, ast.withitem):
            self._visit_exception(node)
        elif isinstance(node, ast.Call):
            self._visit_call(node)

    def _visit_call(self, call: ast.Call) -> None:
        name, statement = name_of(call), self._names.parent[call]
        if isinstance(statement, ast.withitem):
            return
        if isinstance(call.func, ast.Attribute) and isinstance(statement, ast.Expr):
            is_supported = {each.arg for each in call.keywords} <= {"msg"} and not any(
                isinstance(each, ast.Starred) for each in call.args
            )
            if name in _UNITTEST_OF_ONE and call.args and is_supported:
                operator, value = _UNITTEST_OF_ONE[name]
                if operator == "truth":
                    self._visit_condition(statement, call.args[0], bool(value))
                else:
                    self._add(statement, call.args[0], _constant(value, call), operator)
                return
            if name in _UNITTEST and len(call.args) >= 2 and is_supported:
                if _UNITTEST[name] == "almost" and len(call.args) > 2:
                    self._skip(call, "assertAlmostEqual with more than two arguments")
                else:
                    self._visit_comparison(statement, _UNITTEST[name], call.args[0], call.args[1])
                return
            if name in _UNITTEST or name in _UNITTEST_OF_ONE:
                self._skip(call, "unsupported form")
                return
        if name in _OTHER_FORMS or name == "raises":
            self._skip(call, "expects an exception without a message" if "aises" in name else "unsupported form")

    def _visit_condition(self, statement: ast.stmt, test: ast.expr, expected_truth: bool) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._visit_condition(statement, test.operand, not expected_truth)
        elif isinstance(test, ast.Compare) and expected_truth:
            if len(test.ops) > 1:
                self._skip(statement, "compares more than two values")
            else:
                self._visit_comparison(statement, _OPERATORS[type(test.ops[0])], test.left, test.comparators[0])
        elif isinstance(test, ast.BoolOp):
            self._skip(statement, "and/or")
        elif isinstance(test, ast.Call) and name_of(test) in _TYPE_CHECKS:
            self._skip(statement, "checks a type")
        elif (
            isinstance(test, ast.Call) and _is_prefix_or_suffix_check(test) and self._origin.is_from_test(test.args[0])
        ):
            assert isinstance(test.func, ast.Attribute)
            operator = name_of(test) if expected_truth else f"not {name_of(test)}"
            self._add(statement, test.func.value, test.args[0], operator)
        elif self._origin.is_from_test(test) and self._origin.weight(test) < self._origin.PROGRAM_WEIGHT:
            self._skip(statement, "does not involve the program")
        else:
            self._add(statement, test, _constant(expected_truth, test), "truth")

    def _visit_comparison(self, statement: ast.stmt, operator: str, left: ast.expr, right: ast.expr) -> None:
        """Decide which side is computed by the program."""
        from_test = self._origin.is_from_test(left), self._origin.is_from_test(right)
        if from_test == (False, False):
            return self._skip(statement, "both sides are computed by the program")
        if from_test == (True, True):
            weights = self._origin.weight(left), self._origin.weight(right)
            if weights[0] == weights[1]:
                return self._skip(statement, "both sides are computed by the test")
            from_test = weights[0] < weights[1], weights[1] < weights[0]
        program, expected = (left, right) if from_test[1] else (right, left)
        if from_test[0]:
            operator = _MIRRORED.get(operator, operator)
        if operator in ("is", "is not") and not (
            isinstance(expected, ast.Constant) and any(expected.value is each for each in _SINGLETONS)
        ):
            return self._skip(statement, "compares object identity")
        return self._add(statement, program, expected, operator)

    def _visit_exception(self, item: ast.withitem) -> None:
        call = item.context_expr
        if not isinstance(call, ast.Call) or name_of(call) not in ("raises", "assertRaises", "assertRaisesRegex"):
            return
        pattern = next((keyword.value for keyword in call.keywords if keyword.arg == "match"), None)
        if name_of(call) == "assertRaisesRegex" and len(call.args) == 2:
            pattern = call.args[1]
        if pattern is None:
            self._skip(call, "expects an exception without a message")
        elif not self._origin.is_from_test(pattern):
            self._skip(call, "the match pattern is computed by the program")
        else:
            self._add(item, call, pattern, "match")

    def _add(self, node: ast.stmt | ast.withitem, program: ast.expr, expected: ast.expr, operator: str) -> None:
        self.comparisons.append(Comparison(node, program, expected, operator))

    def _skip(self, node: ast.stmt | ast.expr, reason: str) -> None:
        self.unblinded.append(Unblinded(node.lineno, reason))


def is_simple_pattern(pattern: str) -> bool:
    """Whether a regular expression is safe to search for in hostile text.

    It has at most two repetitions, no repeated groups, and no backreferences.
    """
    return len(REPETITION.findall(pattern)) <= 2 and not re.search(r"[*+}]\)?[*+{]|\)[*+{]|\\\d|\(\?P=", pattern)


def _constant(value: object, at: ast.expr) -> ast.Constant:
    return ast.copy_location(ast.Constant(value), at)  # type: ignore[arg-type]


def _is_prefix_or_suffix_check(call: ast.Call) -> bool:
    return (
        name_of(call) in ("startswith", "endswith")
        and isinstance(call.func, ast.Attribute)
        and len(call.args) == 1
        and not call.keywords
    )


def enclosing_names(names: Names, node: ast.AST) -> Sequence[str]:
    """The names of the enclosing classes and functions, outermost first."""
    enclosing = [
        above.name
        for above in names.ancestors(node)
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    return enclosing[::-1]
