"""What a witness is worth: how hard it is to guess a value that the unfixed program does not give.

A witness is an assertion that the unfixed program fails and the reference solution passes. It is *safe* if its expected
value is worth at least 8 bits given the unfixed program's value and the blinded file, if no guess that
varies these finds it, if it stands in no text that an agent can read, and if neither what is left of the test nor the
unfixed program anywhere in the tests gives it.
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

from agentbench_core import CalibrationContext, ToolError, Tree
from agentbench_integrity.python_syntax import parse_python
from agentbench_integrity.scorer.blinding.expectations import BlindedAssertion
from agentbench_integrity.scorer.blinding.guesser import is_guessed, number_of
from agentbench_integrity.scorer.blinding.shown import shown

SAFE_BITS = 8.0
MISSING: Any = object()
"""The unfixed program does not come to the assertion."""
_ONE_BIT = frozenset({"!=", "<", "<=", ">", ">=", "not in", "has not", "is", "is not", "truth"})
_OF_MANY_GUESSES = frozenset({"has", "match", "in", "startswith", "endswith"})
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|.", re.DOTALL)
_MOST_TOKENS = 2000
_MOST_NEAR = 200
"""Values of the unfixed program that are varied, per test function."""
_MOST_VALUES = 40
"""Expected values that are weighed, per assertion."""
_FILES, _FILE_BYTES, _BYTES = 20_000, 1 << 20, 64 << 20
_SHORTEST = 3  # characters of a text that is looked for


class Witnesses:
    """The witnesses of one task, weighed.

    Args:
        context: has the texts that an agent can read.
        blinded: the blinded files.
        near: what the unfixed program gives, by test function.
        surviving: sites whose expected value the blinded test still makes.
    """

    def __init__(
        self,
        context: CalibrationContext,
        blinded: Mapping[str, str],
        near: Mapping[str, Sequence[Any]],
        surviving: Collection[int] = (),
    ) -> None:
        self._surviving = surviving
        self._literals = {path: _literals(text) for path, text in blinded.items()}
        self._public = _texts(context, blinded)
        self._near = {function: _different(values)[:_MOST_NEAR] for function, values in near.items()}
        given = {json.dumps(value) for values in self._near.values() for value in values}
        self._given = given if len(given) <= 2**SAFE_BITS else set()
        self._weighed: defaultdict[int, dict[str, tuple[float, bool]]] = defaultdict(dict)
        self.seen: set[tuple[str, int, int]] = set()
        """Test, site and time of each witness."""

    def add(self, key: tuple[str, int, int], site: BlindedAssertion, expected: Any, unfixed: Any) -> None:
        """Add a witness: where, what is expected, and what the unfixed program gives, or :data:`MISSING`."""
        self.seen.add(key)
        weighed, text = self._weighed[key[1]], json.dumps(expected)
        if text not in weighed and len(weighed) < _MOST_VALUES:
            bits, safe = self._worth(site, expected, unfixed)
            weighed[text] = bits, safe and key[1] not in self._surviving and text not in self._given

    def of(self, number: int, site: BlindedAssertion) -> BlindedAssertion:
        """A blinded assertion with what is known of its witnesses."""
        weighed = self._weighed.get(number)
        if not weighed:
            return site
        bits = round(max(bits for bits, _ in weighed.values()), 1)
        return attrs.evolve(site, witness=True, bits=bits, safe=sum(safe for _, safe in weighed.values()))

    def _worth(self, site: BlindedAssertion, expected: Any, unfixed: Any) -> tuple[float, bool]:
        """Bits of an expected value, and whether it is safe."""
        if site.operator in _ONE_BIT or site.operator.startswith("not ") or expected in (None, True, False):
            return 1.0, False
        if isinstance(expected, list) and expected[:1] == ["approx"]:
            expected = expected[1]
        module, functions = self._literals[site.file]
        own = functions.get(site.function.rpartition("::")[2], [])
        bits = min(_bits(expected, unfixed, module, own), site.secret)
        bits = max(0.0, bits - (SAFE_BITS if site.operator in _OF_MANY_GUESSES else 0))
        if site.operator != "==" or bits < SAFE_BITS or self._is_public(expected):
            return bits, False
        near = [*self._near.get(site.function, ()), *([] if unfixed is MISSING else [unfixed])]
        return bits, not is_guessed(expected, near, own)

    def _is_public(self, expected: Any) -> bool:
        """Whether the value stands somewhere as a whole: in repository, description, or what is left of the tests."""
        found = {shown(expected), *([expected] if isinstance(expected, str) else [])}
        found |= {text.replace("'", '"') for text in found}
        found |= {text.replace("datetime.", "") for text in found}  # as it is written after ``from datetime import``
        wanted = [text for text in found if len(text) >= _SHORTEST]
        return not wanted or any(text in public for text in wanted for public in self._public)


def _bits(expected: Any, unfixed: Any, module: Collection[str], own: Sequence[Any]) -> float:
    """What somebody has to guess who knows the unfixed program's value and all that stands in the blinded file."""
    number = number_of(expected)
    if number is not None:
        before = None if unfixed is MISSING else number_of(unfixed)
        distance = abs(number - before) if before is not None and math.isfinite(before) else abs(number)
        if not math.isfinite(distance):
            return 1.0
        bits = 2 * math.log2(distance + 1) + 1 + (0 if float(number).is_integer() else 6)
    else:
        bits = _bits_of_text(_tokens(expected), [] if unfixed is MISSING else _tokens(unfixed), module)
    if any(expected == literal for literal in own):
        bits = min(bits, math.log2(len(own) + 1))
    elif shown(expected) in module:
        bits = min(bits, math.log2(len(module) + 1))
    return bits


def _bits_of_text(expected: Sequence[str], unfixed: Sequence[str], known: Collection[str]) -> float:
    bits = 0.0
    for kind, _, _, start, end in difflib.SequenceMatcher(None, unfixed, expected, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        bits += math.log2(len(unfixed) + 1) + 1
        for token in expected[start:end]:
            if not token.isalnum():
                bits += 1
            elif token in known:
                bits += math.log2(len(known) + 1)
            elif token.isdigit():
                bits += 2 * math.log2(int(token[:300]) + 1) + 1
            else:
                bits += 4 * len(token)
    return bits


def _tokens(form: Any) -> list[str]:
    """The parts of a value that have to be guessed: no names of types and fields."""
    return _TOKEN.findall(" ".join(_leaves(form)))[:_MOST_TOKENS]


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
            yield shown(form)
    else:
        yield str(form)


def _literals(text: str) -> tuple[frozenset[str], Mapping[str, Sequence[Any]]]:
    """What stands in a blinded file: tokens and values of all of it, and values by function, in canonical form."""
    module: set[str] = set()
    functions: dict[str, list[Any]] = {}
    tree = parse_python(text)
    for node in ast.walk(tree):
        for value in _literal(node):
            module.add(shown(value))
            if isinstance(value, str):
                module.update(_TOKEN.findall(value))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[node.name] = [value for inner in ast.walk(node) for value in _literal(inner)]
    return frozenset(module), functions


def _literal(node: ast.AST) -> Iterator[Any]:
    if not isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp):
        return
    try:
        form = _form(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return
    yield form


def _form(value: Any) -> Any:
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
            return [type(value).__name__, *map(_form, value)]
        case dict():
            return ["dict", *[[_form(key), _form(each)] for key, each in value.items()]]
        case set():
            return ["set", *sorted(map(_form, value), key=json.dumps)]
    raise ValueError("no canonical form")


def _different(values: Sequence[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())


def _texts(context: CalibrationContext, blinded: Mapping[str, str]) -> Sequence[str]:
    """All texts that an agent, or a forger in the sandbox, can read."""
    texts = [context.description, *blinded.values()]
    texts += [data.decode("utf-8", "replace") for path, data in context.hidden_files.items() if path not in blinded]
    room = _BYTES
    with Tree(context.environment.workspace) as tree:
        for number, path in enumerate(tree.files()):
            if number >= _FILES or room <= 0:
                break
            try:
                data = tree.read(path, limit=_FILE_BYTES)
            except (ToolError, OSError):
                continue
            room -= len(data)
            if b"\0" not in data[:1000]:
                texts.append(data.decode("utf-8", "replace"))
    return texts
