"""Evaluate expressions of literals without running code, to find text that code hides from readers.

Time is bounded by a budget from the caller. Exceeding it raises :class:`TooMuch`.
"""

from __future__ import annotations

import ast
import base64
import binascii
import bz2
import codecs
import itertools
import lzma
import re
import textwrap
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import attrs

from agentbench_integrity.audit import code_patterns as names

UNKNOWN = "\ue000"
"""Placeholder for unknown parts of a text."""
_DEEPEST = 50
"""Maximum nesting of expressions. A sum counts as one level, however long it is."""
_NODES = 2000
_FEW = 8
"""Minimum number of integers that are regarded as the characters of a text."""
_PERCENT = re.compile(r"%(?:\([^()%]*\))?[-+ #0-9.*]*[A-Za-z]")
_FIELD = re.compile(r"\{[^{}]*\}")
_SAME = frozenset({"decode", "encode", "expandtabs", "lstrip", "rstrip", "strip"})
"""Methods whose result contains the text of their object."""
_OF_ARGUMENT = frozenset({"str", "bytes", "bytearray", "memoryview", "dedent", "cleandoc", "indent"})
_DISGUISES = frozenset({"translate", "swapcase"})
_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    **dict.fromkeys(("b64decode", "standard_b64decode", "decodebytes", "a2b_base64", "base64"), base64.b64decode),
    "urlsafe_b64decode": base64.urlsafe_b64decode,
    "b32decode": base64.b32decode,
    "b16decode": base64.b16decode,
    "a85decode": base64.a85decode,
    "b85decode": base64.b85decode,
    **dict.fromkeys(("unhexlify", "a2b_hex", "hex"), binascii.unhexlify),
    "fromhex": lambda data: bytes.fromhex(data.decode()),
    **dict.fromkeys(("rot13", "rot_13"), lambda data: codecs.encode(data.decode(), "rot13").encode()),
}


class TooMuch(Exception):  # noqa: N818 - a result, not an error
    """The code is too expensive to evaluate."""


@attrs.define
class EvaluationBudget:
    """Number of characters and expressions that can still be evaluated."""

    left: int

    def take(self, size: int) -> None:
        """Raise TooMuch if the budget is used up."""
        self.left -= size
        if self.left < 0:
            raise TooMuch


@attrs.frozen
class Literal:
    """A string, and whether it was encoded. If it was encoded and could not be decoded, ``text`` is empty."""

    text: str
    encoded: bool = False


class Literals:
    """Evaluates the literals of one module. ``name_of`` resolves a name."""

    def __init__(self, tree: ast.AST, budget: EvaluationBudget, name_of: Callable[[ast.expr], str]) -> None:
        self._tree = tree
        self._budget = budget
        self._name_of = name_of
        self._known: dict[str, Literal | None] = {}
        self._assigned: defaultdict[str, list[tuple[ast.expr, str]]] | None = None

    def of(self, node: ast.expr, deep: int = 0) -> Literal | None:
        """The value of an expression; ``None`` if it contains no literal. Raises TooMuch."""
        self._budget.take(1)
        if deep > _DEEPEST:
            raise TooMuch
        deep += 1
        match node:
            case ast.Constant(value=str() | bytes() as data):
                return self._made(data if isinstance(data, str) else data.decode("latin-1"))
            case ast.Name(id=name):
                return self._named(name, deep)
            case ast.NamedExpr(value=value) | ast.FormattedValue(value=value):
                return self.of(value, deep)
            case ast.BinOp(op=ast.Mod(), left=value):
                return self._filled(self.of(value, deep), _PERCENT)
            case ast.JoinedStr(values=parts):
                return self._joined("", parts, deep)
            case ast.BinOp(op=ast.Add()):
                return self._joined("", _summands(node), deep)
            case ast.IfExp(body=one, orelse=other):
                return self._joined("\n", [one, other], deep)
            case ast.BoolOp(values=parts):
                return self._joined("\n", parts, deep)
            case ast.Subscript(value=value, slice=ast.Slice(step=ast.UnaryOp(op=ast.USub()))):
                result = self.of(value, deep)
                return result and self._made(result.text[::-1], encoded=True)
            case ast.Call():
                return self._called(node, deep)
        return None

    def _made(self, text: str, *, encoded: bool = False) -> Literal:
        self._budget.take(len(text))
        return Literal(text, encoded)

    def _joined(self, between: str, parts: Sequence[ast.expr], deep: int) -> Literal | None:
        results = [self.of(part, deep) for part in parts]
        if not any(results):
            return None
        text = between.join(UNKNOWN if result is None else result.text for result in results)
        return self._made(text, encoded=any(result is not None and result.encoded for result in results))

    def _named(self, name: str, deep: int) -> Literal | None:
        """All values assigned to a name, one after another, since it is unknown which of them is current."""
        if name not in self._known:
            parts = self._assignments().get(name, [])
            self._known[name] = Literal("") if parts else None  # it may be defined in terms of itself
            results = [(each, between) for value, between in parts if (each := self.of(value, deep)) is not None]
            text = "".join(f"{between}{each.text}" for each, between in results).lstrip("\n")
            encoded = any(each.encoded for each, _ in results)
            self._known[name] = self._made(text, encoded=encoded) if text or encoded else None
        return self._known[name]

    def _assignments(self) -> defaultdict[str, list[tuple[ast.expr, str]]]:
        if self._assigned is None:
            self._assigned = defaultdict(list)
            for node in ast.walk(self._tree):
                match node:
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            self._assign(target, value)
                    case (
                        ast.AnnAssign(target=target, value=ast.expr() as value)
                        | ast.NamedExpr(target=target, value=value)
                    ):
                        self._assign(target, value)
                    case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                        self._assigned[name].append((value, ""))
        return self._assigned

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name) and self._assigned is not None:
            first = _summands(value)[0]
            more = isinstance(first, ast.Name) and first.id == target.id
            self._assigned[target.id].append((value, "" if more else "\n"))

    def _called(self, node: ast.Call, deep: int) -> Literal | None:
        called = self._name_of(node.func)
        last = getattr(node.func, "attr", called.rpartition(".")[2])
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        first = node.args[0] if node.args else None
        if last in names.UNPACKING or called in names.DECODING:
            return self._decoded(last, node.args, deep)
        if owner is not None and last == "join" and first is not None:
            return self._of_join(owner, first, deep)
        if owner is not None and last == "format":
            return self._filled(self.of(owner, deep), _FIELD)
        if owner is not None and last in _SAME | _DISGUISES:
            result = self.of(owner, deep)
            return result and attrs.evolve(result, encoded=result.encoded or last in _DISGUISES)
        if owner is not None and last == "replace" and len(node.args) > 1:
            return self._replaced(owner, node.args[0], node.args[1], deep)
        if last in _OF_ARGUMENT and first is not None:
            result = self.of(first, deep)
            if result is not None and last in ("dedent", "cleandoc"):
                return self._made(textwrap.dedent(result.text), encoded=result.encoded)
            return result or self._of_numbers(first)
        return None

    def _filled(self, literal: Literal | None, field: re.Pattern[str]) -> Literal | None:
        return literal and self._made(field.sub(UNKNOWN, literal.text), encoded=literal.encoded)

    def _of_join(self, between: ast.expr, parts: ast.expr, deep: int) -> Literal | None:
        put = self.of(between, deep)
        if put is not None and isinstance(parts, (ast.List, ast.Tuple)):
            return self._joined(put.text, parts.elts, deep)
        return self._of_numbers(parts, by="chr") or self.of(parts, deep)

    def _of_numbers(self, node: ast.expr, by: str = "") -> Literal | None:
        """Characters from their code points, literal or computed; both count as encoded.

        ``by`` is the function that converts a number to a character, if it takes one.
        """
        nodes = list(itertools.islice(ast.walk(node), _NODES * 10))
        self._budget.take(len(nodes))
        values = [each.value for each in nodes if isinstance(each, ast.Constant) and type(each.value) is int]
        if len(values) < _FEW or (by and not any(isinstance(each, ast.Name) and each.id == by for each in nodes)):
            return None
        return self._made("".join(chr(value) for value in values if 0 <= value < 0x110000), encoded=True)

    def _replaced(self, owner: ast.expr, old: ast.expr, new: ast.expr, deep: int) -> Literal | None:
        text, before, after = self.of(owner, deep), self.of(old, deep), self.of(new, deep)
        if text is None or before is None or after is None or not before.text:
            return text
        self._budget.take(text.text.count(before.text) * len(after.text))
        return self._made(text.text.replace(before.text, after.text), encoded=text.encoded)

    def _decoded(self, how: str, arguments: Sequence[ast.expr], deep: int) -> Literal | None:
        result = self.of(arguments[0], deep) if arguments else None
        if result is None:
            return None
        if how == "decode" and len(arguments) > 1:  # codecs: the second argument is the encoding
            message = self.of(arguments[1], deep)
            how = (message.text if message else "").lower().replace("-", "").replace("_codec", "")
        try:
            data = result.text.encode("latin-1", "replace")
            decoded = _DECODERS[how](data) if how in _DECODERS else b"".join(_unpacked(data, self._budget.left))
        except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError):
            decoded = b""  # cannot be decoded here
        return self._made(decoded.decode("latin-1"), encoded=True)


def _summands(node: ast.expr) -> Sequence[ast.expr]:
    """The operands of a sum from left to right, without recursion: long sums are deeply nested."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _unpacked(data: bytes, most: int) -> Iterator[bytes]:
    """The beginning of the decompressed data, whose format is recognized by its magic number."""
    if data.startswith(b"BZh"):
        yield bz2.BZ2Decompressor().decompress(data, max(1, most))
    elif data.startswith((b"\xfd7zXZ", b"]\0\0")):
        yield lzma.LZMADecompressor(memlimit=64 << 20).decompress(data, max(1, most))
    else:
        yield zlib.decompressobj(wbits=47).decompress(data, max(1, most))  # zlib or gzip
