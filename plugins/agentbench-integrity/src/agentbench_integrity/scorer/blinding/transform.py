"""Transform a test file into two versions: one that records both sides of its assertions, and a blinded one.

Only the blinded version ever runs with an agent's change. Its expected values are removed, along with code that only
they needed: table cells, local variables and helpers. Comments, docstrings and messages are removed as well, and
parameter ids are numbered because pytest would derive them from the values.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from agentbench_core import parse_python
from agentbench_integrity.scorer.blinding.assertions import (
    Assertions,
    Comparison,
    enclosing_names,
    is_simple_pattern,
    split,
)
from agentbench_integrity.scorer.blinding.dead_code import DeadCode
from agentbench_integrity.scorer.blinding.names import (
    Names,
    is_parametrize,
    name_of,
    rows_of,
)
from agentbench_integrity.scorer.blinding.origin import Origin
from agentbench_integrity.scorer.blinding.reachability import Reachability
from agentbench_integrity.scorer.blinding.secrecy import Secrecy
from agentbench_integrity.scorer.blinding.source import unparse

MODULE = "_agentbench"
"""Name under which blinded files import the recorder. The runner adds it to ``sys.modules``."""
_MAX_CHARS = 160  # characters of source per site

Position = tuple[int, int]


@attrs.frozen(kw_only=True)
class Site:
    """A blinded assertion. ``expected`` and ``assertion`` are source text, shortened.

    ``secret`` is the number of bits of the expected value that are not in the blinded file; see ``secrecy``.
    """

    number: int
    position: Position
    function: str
    operator: str
    assertion: str
    expected: str
    secret: float


@attrs.frozen(kw_only=True)
class BlindedFile:
    """A test file, blinded.

    ``both`` records both sides of each assertion, ``blind`` only the program side.
    """

    both: str
    blind: str
    sites: tuple[Site, ...]
    unblinded: Mapping[str, int]
    """Number of assertions that are not blinded, by reason."""


def blind(
    source: str,
    program: Collection[str],
    *,
    first: int = 0,
    excluded: Collection[Position] = (),
    imported_elsewhere: Collection[str] = (),
) -> BlindedFile:
    """Blind a test file.

    Args:
        source: the text of the file, which belongs to the task. It is parsed but not executed.
        program: top-level modules of the repository.
        first: the number of the file's first site.
        excluded: positions of assertions that calibration rejected.
        imported_elsewhere: names that other files may import from this file.

    Raises:
        ValueError: the file cannot be parsed or unparsed.
    """
    try:
        both = _Transformer(source, program, first, excluded, imported_elsewhere)
        removal = _Transformer(source, program, first, excluded, imported_elsewhere)  # each modifies its own tree
        blinded = removal.source(both_sides=False)
        sites = tuple(both.sites(removal.secret_bits()))
        return BlindedFile(both=both.source(both_sides=True), blind=blinded, sites=sites, unblinded=both.unblinded)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


class _Transformer:
    def __init__(
        self,
        source: str,
        program: Collection[str],
        first: int,
        excluded: Collection[Position],
        imported_elsewhere: Collection[str],
    ) -> None:
        self._tree = parse_python(source)
        split(self._tree)
        self._names = Names(self._tree)
        self._origin = Origin(self._names, program)
        reachability = Reachability(self._names, self._origin)
        assertions = Assertions(self._names, self._origin)
        self.unblinded: dict[str, int] = {}
        for each in assertions.unblinded:
            self._skip(each.reason)
        self._comparisons: list[tuple[int, Comparison]] = []
        for number, comparison in enumerate(assertions.comparisons, start=first):
            if comparison.position in excluded:
                self._skip("calibration: unstable, not plain data, or dependent on the program")
            elif comparison.operator == "match" and not _has_safe_pattern(comparison.expected):
                self._skip("the match pattern could be slow")
            elif not reachability.is_deterministic(comparison.node):
                self._skip("the program determines how often the assertion is reached")
            else:
                self._comparisons.append((number, comparison))
        self._dead_code = DeadCode(self._names, self._origin, imported_elsewhere)

    def _skip(self, reason: str) -> None:
        self.unblinded[reason] = self.unblinded.get(reason, 0) + 1

    def secret_bits(self) -> Mapping[int, float]:
        """Bits of each expected value that are not in the transformed file, by site number."""
        secrecy = Secrecy(self._names, frozenset(ast.walk(self._tree)))
        return {number: secrecy.bits(comparison.expected) for number, comparison in self._comparisons}

    def sites(self, secret_bits: Mapping[int, float]) -> Iterator[Site]:
        for number, comparison in self._comparisons:
            program = ast.unparse(comparison.program)
            expected = ast.unparse(comparison.expected)
            yield Site(
                number=number,
                position=comparison.position,
                function="::".join(enclosing_names(self._names, comparison.node)),
                operator=comparison.operator,
                assertion=_shorten(_describe(program, comparison.operator, expected)),
                expected=_shorten(expected),
                secret=secret_bits[number],
            )

    def source(self, *, both_sides: bool) -> str:
        """The source of the transformed file. Can be called once."""
        if not self._comparisons:
            if not both_sides:
                self._strip()
            return self._unparse()
        for number, comparison in self._comparisons:
            self._replace(number, comparison, both_sides=both_sides)
        if both_sides:
            return self._unparse()
        self._strip()  # first, because messages and ids may read expected values
        self._dead_code.remove()
        return self._unparse()

    # --- recording ---

    def _replace(self, number: int, comparison: Comparison, *, both_sides: bool) -> None:
        node, program = comparison.node, comparison.program
        expected = [comparison.expected] if both_sides else []
        if isinstance(node, ast.withitem):
            assert isinstance(program, ast.Call)
            if name_of(program) == "assertRaisesRegex":
                assert isinstance(program.func, ast.Attribute)
                program.func.attr, program.args = "assertRaises", program.args[:1]
            program.keywords = [keyword for keyword in program.keywords if keyword.arg not in ("match", "msg")]
            node.context_expr = _recording_call("raises", number, [program, *expected], program)
            return
        kind = {"truth": "truth", "is": "singleton", "is not": "singleton"}.get(comparison.operator, "value")
        call = ast.copy_location(ast.Expr(_recording_call(kind, number, [program, *expected], program)), node)
        above = self._names.parent[node]
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(above, field, None)
            if isinstance(statements, list) and node in statements:
                statements[statements.index(node)] = call

    def _unparse(self) -> str:
        body = self._tree.body
        first = next(
            (
                index
                for index, node in enumerate(body)
                if not (isinstance(node, ast.ImportFrom) and node.module == "__future__") and not _is_bare_string(node)
            ),
            len(body),
        )
        if self._comparisons or any(is_parametrize(node) for node in ast.walk(self._tree)):
            body.insert(first, ast.Import([ast.alias(MODULE)]))
        return unparse(self._tree) + "\n"

    # --- messages, ids and docstrings ---

    def _strip(self) -> None:
        """Remove docstrings and other bare strings, messages, and parameter ids."""
        for node in ast.walk(self._tree):
            for field in ("body", "orelse", "finalbody"):
                statements = getattr(node, field, None)
                if isinstance(statements, list) and any(map(_is_bare_string, statements)):
                    retained = [statement for statement in statements if not _is_bare_string(statement)]
                    statements[:] = retained or ([] if isinstance(node, ast.Module) else [ast.Pass()])
            if isinstance(node, ast.Assert):
                node.msg = None
            elif isinstance(node, ast.Call):
                self._strip_call(node)

    def _strip_call(self, call: ast.Call) -> None:
        name, owner = name_of(call), name_of(getattr(call.func, "value", call.func))
        if name == "parametrize" and rows_of(call) is not None:
            ids = ast.Attribute(ast.Name(MODULE, ast.Load()), "ids", ast.Load())
            keywords = [ast.keyword("ids", ast.Call(ids, [], []))]
            keywords += [ast.keyword("scope", each) for each in call.args[4:]]
            call.args = call.args[:3]
            call.keywords = [each for each in call.keywords if each.arg != "ids"] + keywords
        elif name == "param" and owner in ("pytest", "param"):
            call.keywords = [each for each in call.keywords if each.arg != "id"]
        elif name == "fixture" and owner in ("pytest", "fixture"):
            call.keywords = [each for each in call.keywords if each.arg != "ids"]
        elif owner == "self" and name.startswith("assert"):
            call.keywords = [each for each in call.keywords if each.arg != "msg"]
        elif (owner, name) in (("self", "subTest"), ("subtests", "test")):
            call.args = [each for each in call.args if not self._origin.is_from_test(each)]
            call.keywords = [each for each in call.keywords if not self._origin.is_from_test(each.value)]


def _recording_call(kind: str, number: int, parts: Sequence[ast.expr], location: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(MODULE, ast.Load()), kind, ast.Load())
    return ast.copy_location(ast.Call(function, [ast.Constant(number), *parts], []), location)


def _is_bare_string(node: ast.AST) -> bool:
    """Whether a statement is only a string, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _has_safe_pattern(pattern: ast.expr) -> bool:
    texts = [each.value for each in ast.walk(pattern) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return all(map(is_simple_pattern, texts))


def _describe(program: str, operator: str, expected: str) -> str:
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


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 3]}..."
