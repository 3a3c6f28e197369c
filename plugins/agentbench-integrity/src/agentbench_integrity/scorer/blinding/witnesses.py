"""Rate witnesses: how hard is it to guess an expected value that the unfixed program does not produce?

A witness is an assertion that the unfixed program fails and the reference solution passes. It is *safe* if it
compares with ``==``, its expected value has at least 8 bits given the unfixed program's value and the blinded file, no
variation of these values equals it, no text that an agent can read contains it, and neither the blinded test nor the
unfixed program produces it.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import CalibrationContext, ToolError, Tree, parse_python
from agentbench_integrity.scorer.blinding.expectations import BlindedAssertion
from agentbench_integrity.scorer.blinding.formatting import format_value
from agentbench_integrity.scorer.blinding.guesser import is_guessed, number_of

SAFE_BITS = 8.0
MISSING: Any = object()
"""Marks an assertion that the unfixed program does not reach."""
_ONE_BIT = frozenset({"!=", "<", "<=", ">", ">=", "not in", "has not", "is", "is not", "truth"})
_INEXACT = frozenset({"has", "match", "in", "startswith", "endswith"})
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|.", re.DOTALL)
_MAX_TOKENS = 2000
_MAX_UNFIXED_VALUES = 200
"""Maximum number of values of the unfixed program that are varied, per test function."""
_MAX_RATED_VALUES = 40
"""Maximum number of expected values that are rated, per assertion."""
_MAX_FILES, _MAX_FILE_BYTES, _MAX_TOTAL_BYTES = 20_000, 1 << 20, 64 << 20
_MIN_SEARCHED_CHARS = 3  # characters


class Witnesses:
    """The rated witnesses of one task.

    Args:
        context: provides the text that an agent can read.
        blinded: texts of the blinded files, by path.
        unfixed_values: values of the unfixed program, by test function.
        recoverable: sites with expected values that the blinded test can still compute.
    """

    def __init__(
        self,
        context: CalibrationContext,
        blinded: Mapping[str, str],
        unfixed_values: Mapping[str, Sequence[Any]],
        recoverable: Collection[int] = (),
    ) -> None:
        self._recoverable = recoverable
        self._literals = {path: _literals(text) for path, text in blinded.items()}
        self._readable_texts = _collect_readable_texts(context, blinded)
        self._unfixed_values = {
            function: _distinct(values)[:_MAX_UNFIXED_VALUES] for function, values in unfixed_values.items()
        }
        texts = {json.dumps(value) for values in self._unfixed_values.values() for value in values}
        self._unfixed_texts = texts if len(texts) <= 2**SAFE_BITS else set()
        self._ratings: defaultdict[int, dict[str, tuple[float, bool]]] = defaultdict(dict)
        self.keys: set[tuple[str, int, int]] = set()
        """Record keys of all witnesses."""

    def add(self, key: tuple[str, int, int], site: BlindedAssertion, expected: Any, unfixed: Any) -> None:
        """Add a witness.

        Args:
            key: identifies the record.
            site: the assertion.
            expected: the expected value in canonical form.
            unfixed: the value of the unfixed program, or :data:`MISSING`.
        """
        self.keys.add(key)
        ratings, text = self._ratings[key[1]], json.dumps(expected)
        if text not in ratings and len(ratings) < _MAX_RATED_VALUES:
            bits, safe = self._rate(site, expected, unfixed)
            ratings[text] = bits, safe and key[1] not in self._recoverable and text not in self._unfixed_texts

    def annotate(self, number: int, site: BlindedAssertion) -> BlindedAssertion:
        """The assertion with the ratings of its witnesses."""
        ratings = self._ratings.get(number)
        if not ratings:
            return site
        bits = round(max(bits for bits, _ in ratings.values()), 1)
        return attrs.evolve(site, witness=True, bits=bits, safe=sum(safe for _, safe in ratings.values()))

    def _rate(self, site: BlindedAssertion, expected: Any, unfixed: Any) -> tuple[float, bool]:
        """The bits of an expected value, and whether it is safe."""
        if site.operator in _ONE_BIT or site.operator.startswith("not ") or expected in (None, True, False):
            return 1.0, False
        if isinstance(expected, list) and expected[:1] == ["approx"]:
            expected = expected[1]
        module, functions = self._literals[site.file]
        literals = functions.get(site.function.rpartition("::")[2], [])
        bits = min(_bits(expected, unfixed, module, literals), site.secret)
        bits = max(0.0, bits - (SAFE_BITS if site.operator in _INEXACT else 0))
        if site.operator != "==" or bits < SAFE_BITS or self._is_readable(expected):
            return bits, False
        unfixed_values = [*self._unfixed_values.get(site.function, ()), *([] if unfixed is MISSING else [unfixed])]
        return bits, not is_guessed(expected, unfixed_values, literals)

    def _is_readable(self, expected: Any) -> bool:
        """Whether a text that an agent can read contains the value."""
        spellings = {format_value(expected), *([expected] if isinstance(expected, str) else [])}
        spellings |= {text.replace("'", '"') for text in spellings}
        spellings |= {
            text.replace("datetime.", "") for text in spellings
        }  # the spelling after ``from datetime import``
        searched = [text for text in spellings if len(text) >= _MIN_SEARCHED_CHARS]
        return not searched or any(text in readable for text in searched for readable in self._readable_texts)


def _bits(expected: Any, unfixed: Any, module: Collection[str], literals: Sequence[Any]) -> float:
    """Bits of a value given the unfixed program's value and the literals of the blinded file."""
    number = number_of(expected)
    if number is not None:
        unfixed_number = None if unfixed is MISSING else number_of(unfixed)
        distance = (
            abs(number - unfixed_number)
            if unfixed_number is not None and math.isfinite(unfixed_number)
            else abs(number)
        )
        if not math.isfinite(distance):
            return 1.0
        bits = 2 * math.log2(distance + 1) + 1 + (0 if float(number).is_integer() else 6)
    else:
        bits = _text_bits(_tokens(expected), [] if unfixed is MISSING else _tokens(unfixed), module)
    if any(expected == literal for literal in literals):
        bits = min(bits, math.log2(len(literals) + 1))
    elif format_value(expected) in module:
        bits = min(bits, math.log2(len(module) + 1))
    return bits


def _text_bits(expected: Sequence[str], unfixed: Sequence[str], known_tokens: Collection[str]) -> float:
    bits = 0.0
    for kind, _, _, start, end in difflib.SequenceMatcher(None, unfixed, expected, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        bits += math.log2(len(unfixed) + 1) + 1
        for token in expected[start:end]:
            if not token.isalnum():
                bits += 1
            elif token in known_tokens:
                bits += math.log2(len(known_tokens) + 1)
            elif token.isdigit():
                bits += 2 * math.log2(int(token[:300]) + 1) + 1
            else:
                bits += 4 * len(token)
    return bits


def _tokens(form: Any) -> list[str]:
    """The tokens of a value, without the names of types and fields."""
    return _TOKEN.findall(" ".join(_leaves(form)))[:_MAX_TOKENS]


def _leaves(form: Any) -> Iterator[str]:
    if isinstance(form, list):
        if form[:1] == ["object"]:
            for field in form[2:]:
                yield from _leaves(field[-1])
        elif form[:1] == ["dict"]:
            for pair in form[1:]:
                for each in pair:
                    yield from _leaves(each)
        elif form and form[0] in ("list", "tuple", "set"):
            for each in form[1:]:
                yield from _leaves(each)
        else:
            yield format_value(form)
    else:
        yield str(form)


def _literals(text: str) -> tuple[frozenset[str], Mapping[str, Sequence[Any]]]:
    """Literals of a blinded file: all formatted values and tokens, and canonical forms by function."""
    module: set[str] = set()
    functions: dict[str, list[Any]] = {}
    tree = parse_python(text)
    for node in ast.walk(tree):
        for value in _literal_forms(node):
            module.add(format_value(value))
            if isinstance(value, str):
                module.update(_TOKEN.findall(value))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[node.name] = [value for inner in ast.walk(node) for value in _literal_forms(inner)]
    return frozenset(module), functions


def _literal_forms(node: ast.AST) -> Iterator[Any]:
    if not isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp):
        return
    try:
        form = _canonical(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return
    yield form


def _canonical(value: Any) -> Any:
    """The canonical form of a literal."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < 1 << 53 else ["int", hex(value)]
        case float():
            return ["float", value.hex()]
        case bytes():
            return ["bytes", value.hex()]
        case list() | tuple():
            return [type(value).__name__, *map(_canonical, value)]
        case dict():
            return ["dict", *[[_canonical(key), _canonical(each)] for key, each in value.items()]]
        case set():
            return ["set", *sorted(map(_canonical, value), key=json.dumps)]
    raise ValueError("no canonical form")


def _distinct(values: Sequence[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())


def _collect_readable_texts(context: CalibrationContext, blinded: Mapping[str, str]) -> Sequence[str]:
    """All text that an agent or a forger in the sandbox can read."""
    texts = [context.description, *blinded.values()]
    texts += [data.decode("utf-8", "replace") for path, data in context.hidden_files.items() if path not in blinded]
    remaining = _MAX_TOTAL_BYTES
    with Tree(context.environment.workspace) as tree:
        for number, path in enumerate(tree.files()):
            if number >= _MAX_FILES or remaining <= 0:
                break
            try:
                data = tree.read(path, limit=_MAX_FILE_BYTES)
            except (ToolError, OSError):
                continue
            remaining -= len(data)
            if b"\0" not in data[:1000]:
                texts.append(data.decode("utf-8", "replace"))
    return texts
