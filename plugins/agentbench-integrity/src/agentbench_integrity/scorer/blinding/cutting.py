"""From a test file to the two that take its place: one that records both sides, and one without what is expected.

The second is the only one that is ever run with an agent's change. What is expected is cut out of it, and then all that
nothing else needs: cells of tables, local variables, helpers. Comments, docstrings and messages go, too, and parameters
are numbered, since pytest would name them by their values.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from agentbench_integrity.python_syntax import parse_python
from agentbench_integrity.scorer.blinding.assertions import (
    Assertions,
    Comparison,
    functions_around,
    is_simple_pattern,
    split,
)
from agentbench_integrity.scorer.blinding.names import (
    Names,
    is_parametrize,
    name_of,
    rows_of,
)
from agentbench_integrity.scorer.blinding.origin import Origin
from agentbench_integrity.scorer.blinding.secrecy import Secrecy
from agentbench_integrity.scorer.blinding.source import unparse
from agentbench_integrity.scorer.blinding.steady import Steadiness
from agentbench_integrity.scorer.blinding.unneeded import Unneeded

MODULE = "_agentbench"
"""The recorder, as blinded files import it; the runner puts it there."""
_LONGEST = 160  # characters of source that a site keeps

Place = tuple[int, int]


@attrs.frozen(kw_only=True)
class Site:
    """An assertion that is blinded. ``expected`` and ``assertion`` are its source, for people.

    ``secret`` is how many bits of what is expected are not in the blind file; see ``secrecy``.
    """

    number: int
    place: Place
    function: str
    operator: str
    assertion: str
    expected: str
    secret: float


@attrs.frozen(kw_only=True)
class Blinded:
    """A test file, blinded.

    ``both`` records both sides of each assertion, and ``blind`` the program's alone.
    """

    both: str
    blind: str
    sites: tuple[Site, ...]
    left: Mapping[str, int]
    """How many assertions stay as they are, by reason."""


def blind(
    source: str,
    program: Collection[str],
    *,
    first: int = 0,
    without: Collection[Place] = (),
    also_used: Collection[str] = (),
) -> Blinded:
    """Blind a test file.

    Args:
        source: the file; it is the task's own, so that it is read without fear, and never run here.
        program: top-level modules of the repository.
        first: the number of the file's first site.
        without: places of assertions that calibration wants to stay as they are.
        also_used: names that other files may import from this one.

    Raises:
        ValueError: the file cannot be read as Python, or not be written again.
    """
    try:
        both = _Cutter(source, program, first, without, also_used)
        cut = _Cutter(source, program, first, without, also_used)  # each uses its tree up
        blinded = cut.written(both_sides=False)
        sites = tuple(both.sites(cut.secrets()))
        return Blinded(both=both.written(both_sides=True), blind=blinded, sites=sites, left=both.left)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


class _Cutter:
    def __init__(
        self, source: str, program: Collection[str], first: int, without: Collection[Place], also_used: Collection[str]
    ) -> None:
        self._tree = parse_python(source)
        split(self._tree)
        self._names = Names(self._tree)
        self._origin = Origin(self._names, program)
        steady = Steadiness(self._names, self._origin)
        found = Assertions(self._names, self._origin)
        self.left: dict[str, int] = {}
        for each in found.left:
            self._leave(each.why)
        self._comparisons: list[tuple[int, Comparison]] = []
        for number, comparison in enumerate(found.comparisons, start=first):
            if comparison.place in without:
                self._leave("calibration: not the same each time, not plain data, or dependent on the program")
            elif comparison.operator == "match" and not _is_simple(comparison.expected):
                self._leave("match with a pattern that could take long")
            elif not steady.is_steady(comparison.node):
                self._leave("the program decides how often it is reached")
            else:
                self._comparisons.append((number, comparison))
        self._unneeded = Unneeded(self._names, self._origin, also_used)

    def _leave(self, why: str) -> None:
        self.left[why] = self.left.get(why, 0) + 1

    def secrets(self) -> Mapping[int, float]:
        """How much of each expected value is not in the file as it was written."""
        secrecy = Secrecy(self._names, frozenset(ast.walk(self._tree)))
        return {number: secrecy.bits(comparison.expected) for number, comparison in self._comparisons}

    def sites(self, secrets: Mapping[int, float]) -> Iterator[Site]:
        for number, comparison in self._comparisons:
            program = ast.unparse(comparison.program)
            expected = ast.unparse(comparison.expected)
            yield Site(
                number=number,
                place=comparison.place,
                function="::".join(functions_around(self._names, comparison.node)),
                operator=comparison.operator,
                assertion=_shortened(_in_words(program, comparison.operator, expected)),
                expected=_shortened(expected),
                secret=secrets[number],
            )

    def written(self, *, both_sides: bool) -> str:
        """The file; the tree is used up."""
        if not self._comparisons:
            if not both_sides:
                self._strip()
            return self._finished()
        for number, comparison in self._comparisons:
            self._replace(number, comparison, both_sides=both_sides)
        if both_sides:
            return self._finished()
        self._strip()  # first: messages and identifiers may read what is expected
        self._unneeded.cut()
        return self._finished()

    # --- recording ---

    def _replace(self, number: int, comparison: Comparison, *, both_sides: bool) -> None:
        node, program = comparison.node, comparison.program
        expected = [comparison.expected] if both_sides else []
        if isinstance(node, ast.withitem):
            assert isinstance(program, ast.Call)
            if name_of(program) == "assertRaisesRegex":
                assert isinstance(program.func, ast.Attribute)
                program.func.attr, program.args = "assertRaises", program.args[:1]
            program.keywords = [each for each in program.keywords if each.arg not in ("match", "msg")]
            node.context_expr = _recorded("raises", number, [program, *expected], program)
            return
        kind = {"truth": "truth", "is": "singleton", "is not": "singleton"}.get(comparison.operator, "value")
        call = ast.copy_location(ast.Expr(_recorded(kind, number, [program, *expected], program)), node)
        above = self._names.parent[node]
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(above, field, None)
            if isinstance(statements, list) and node in statements:
                statements[statements.index(node)] = call

    def _finished(self) -> str:
        body = self._tree.body
        first = next(
            (
                index
                for index, node in enumerate(body)
                if not (isinstance(node, ast.ImportFrom) and node.module == "__future__") and not _is_text(node)
            ),
            len(body),
        )
        if self._comparisons or any(is_parametrize(node) for node in ast.walk(self._tree)):
            body.insert(first, ast.Import([ast.alias(MODULE)]))
        return unparse(self._tree) + "\n"

    # --- what would tell of them ---

    def _strip(self) -> None:
        """Take out docstrings and other bare texts, messages, and names of parameters."""
        for node in ast.walk(self._tree):
            for field in ("body", "orelse", "finalbody"):
                statements = getattr(node, field, None)
                if isinstance(statements, list) and any(map(_is_text, statements)):
                    kept = [each for each in statements if not _is_text(each)]
                    statements[:] = kept or ([] if isinstance(node, ast.Module) else [ast.Pass()])
            if isinstance(node, ast.Assert):
                node.msg = None
            elif isinstance(node, ast.Call):
                self._strip_call(node)

    def _strip_call(self, call: ast.Call) -> None:
        name, on = name_of(call), name_of(getattr(call.func, "value", call.func))
        if name == "parametrize" and rows_of(call) is not None:
            ids = ast.Attribute(ast.Name(MODULE, ast.Load()), "ids", ast.Load())
            numbered = [ast.keyword("ids", ast.Call(ids, [], []))]
            numbered += [ast.keyword("scope", each) for each in call.args[4:]]
            call.args = call.args[:3]
            call.keywords = [each for each in call.keywords if each.arg != "ids"] + numbered
        elif name == "param" and on in ("pytest", "param"):
            call.keywords = [each for each in call.keywords if each.arg != "id"]
        elif name == "fixture" and on in ("pytest", "fixture"):
            call.keywords = [each for each in call.keywords if each.arg != "ids"]
        elif on == "self" and name.startswith("assert"):
            call.keywords = [each for each in call.keywords if each.arg != "msg"]
        elif (on, name) in (("self", "subTest"), ("subtests", "test")):
            call.args = [each for each in call.args if not self._origin.is_own(each)]
            call.keywords = [each for each in call.keywords if not self._origin.is_own(each.value)]


def _recorded(kind: str, number: int, parts: Sequence[ast.expr], at: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(MODULE, ast.Load()), kind, ast.Load())
    return ast.copy_location(ast.Call(function, [ast.Constant(number), *parts], []), at)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is nothing but a text, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_simple(pattern: ast.expr) -> bool:
    texts = [each.value for each in ast.walk(pattern) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return all(map(is_simple_pattern, texts))


def _in_words(program: str, operator: str, expected: str) -> str:
    match operator:
        case "truth":
            return program if expected == "True" else f"not {program}"
        case "has" | "has not":
            return f"{expected} {operator.replace('has', 'in') if operator == 'has' else 'not in'} {program}"
        case "match":
            return f"{program} matches {expected}"
        case "startswith" | "endswith" | "not startswith" | "not endswith":
            return f"{'not ' if ' ' in operator else ''}{program}.{operator.rpartition(' ')[2]}({expected})"
        case _:
            return f"{program} {operator} {expected}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
