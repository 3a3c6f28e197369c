"""Code smells: patterns that are suspicious by themselves, and their repairs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source import FUNCTIONS, Edit, Function, Repair, Source

_SURE = 3.0
_LIKELY = 2.0
_UNDONE_BY = {"append": "{0}.pop()", "add": "{0}.discard({1})", "push": "{0}.pop()", "insert": ""}


def smells(source: Source) -> Iterator[Repair]:
    """The code smells in a file, as repairs."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield from _strip_of_word(source, node)
            yield from _shared_default(source, node)
            yield from _first_alternative(source, node)
            yield from _escaped_escape(source, node)
            yield from _mixed_measures(source, node)
        elif isinstance(node, FUNCTIONS):
            yield from _mutable_defaults(source, node)
            yield from _chained_unescape(source, node)
            yield from _never_undone(source, node)


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _receiver(source: Source, node: ast.Call) -> str:
    assert isinstance(node.func, ast.Attribute)
    return source.code(node.func.value)


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _strip_of_word(source: Source, node: ast.Call) -> Iterator[Repair]:
    """``lstrip`` and ``rstrip`` take a set of characters. Several different ones were probably meant as a word."""
    word = _text(node.args[0]) if len(node.args) == 1 else None
    if _method(node) not in ("lstrip", "rstrip") or not word or len(set(word)) < 2 or word.isspace():
        return
    if not any(char.isalnum() for char in word):
        return
    left = _method(node) == "lstrip"
    pattern = "".join("\\" + char if char in r".^$*+?{}[]\|()" else char for char in word)
    pattern = rf"\A(?:{pattern})+" if left else rf"(?:{pattern})+\Z"
    again = source.replace(node, f're.sub(r"{pattern}", "", {_receiver(source, node)})')
    if '"' not in word and "\n" not in word:
        yield Repair("strip_word", node.lineno, (again, *source.importing("re")), _SURE)
    once = "removeprefix" if left else "removesuffix"
    assert isinstance(node.func, ast.Attribute)
    end = source.span(node.func)[1]
    yield Repair("strip_word_once", node.lineno, (Edit(end - len(_method(node)), end, once),), _LIKELY)


def _shared_default(source: Source, node: ast.Call) -> Iterator[Repair]:
    """``x = d.setdefault(k, [])``: later changes to ``x`` may affect other objects that share the list."""
    statement = source.parents.get(node)
    if _method(node) != "setdefault" or len(node.args) != 2 or not isinstance(statement, ast.Assign):
        return
    if len(statement.targets) != 1 or not isinstance(node.args[1], (ast.List, ast.Dict, ast.Call)):
        return
    key, default = (source.code(argument) for argument in node.args)
    holder = _receiver(source, node)
    fresh = f"{source.code(statement.targets[0])} = {holder}[{key}] = copy.copy({holder}.get({key}, {default}))"
    yield Repair("own_copy", node.lineno, (source.replace(statement, fresh), *source.importing("copy")), _LIKELY)


def _first_alternative(source: Source, node: ast.Call) -> Iterator[Repair]:
    """``"|".join(words)``: a regular expression takes the first alternative that matches, not the longest."""
    if _method(node) != "join" or len(node.args) != 1:
        return
    assert isinstance(node.func, ast.Attribute)
    if _text(node.func.value) != "|":
        return
    words = node.args[0]
    if isinstance(words, ast.Call) and isinstance(words.func, ast.Name) and words.func.id == "map":
        words = words.args[-1]
    elif isinstance(words, (ast.GeneratorExp, ast.ListComp)):
        words = words.generators[0].iter
    if isinstance(words, ast.Call) and isinstance(words.func, ast.Name) and words.func.id in ("sorted", "reversed"):
        return
    longest = f"sorted({source.code(words)}, key=len, reverse=True)"
    yield Repair("long_before_short", node.lineno, (source.replace(words, longest),), _SURE)


def _escaped_escape(source: Source, node: ast.Call) -> Iterator[Repair]:
    """Text ends with an escape only if it ends with an odd number of backslashes."""
    if _method(node) != "endswith" or len(node.args) != 1 or _text(node.args[0]) != "\\":
        return
    text, mark = _receiver(source, node), source.code(node.args[0])
    odd = f"(len({text}) - len({text}.rstrip({mark}))) % 2 == 1"
    plain = isinstance(source.parents.get(node), (ast.If, ast.While, ast.Return, ast.Assign))
    yield Repair("odd_escapes", node.lineno, (source.replace(node, odd if plain else f"({odd})"),), _SURE)


def _chained_unescape(source: Source, function: Function) -> Iterator[Repair]:
    """Chained ``replace`` calls treat the second half of an escaped backslash as the start of an escape."""
    parameters = [argument.arg for argument in function.args.args]
    if len(parameters) != 1 or not any(map(_removes_an_escape, ast.walk(function))):
        return
    text = parameters[0]
    first = function.body[1] if ast.get_docstring(function) and len(function.body) > 1 else function.body[0]
    indent, start = source.indent(first), source.line_start(first.lineno)
    guard = f'{indent}if "\\\\\\\\" in {text}:\n'
    guard += f'{indent}    return "\\\\".join(map({function.name}, {text}.split("\\\\\\\\")))\n'
    yield Repair("unescape_in_pairs", first.lineno, (Edit(start, start, guard),), _SURE)


def _removes_an_escape(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _method(node) != "replace" or len(node.args) != 2:
        return False
    sought = node.args[0].left if isinstance(node.args[0], ast.BinOp) else node.args[0]
    return (_text(sought) or "").startswith("\\")


def _mixed_measures(source: Source, node: ast.Call) -> Iterator[Repair]:
    """A variable is combined with both the result of ``len`` and that of another function of the same file."""
    if not isinstance(node.func, ast.Name) or node.func.id != "len" or len(node.args) != 1:
        return
    function, measured = source.function_of(node), _compared_to(source, node)
    if function is None or not measured:
        return
    known = source.names()
    for other in ast.walk(function):
        if not isinstance(other, ast.Call) or not isinstance(other.func, ast.Name) or len(other.args) != 1:
            continue
        name = other.func.id
        if name in known and name not in ("len", function.name) and measured & _compared_to(source, other):
            yield Repair("one_measure", node.lineno, (source.replace(node.func, name),), _LIKELY)
            return


def _compared_to(source: Source, node: ast.Call) -> set[str]:
    """Names that are direct operands of the comparisons and calculations around a call."""
    names: set[str] = set()
    for outer in source.within(node):
        if not isinstance(outer, (ast.BinOp, ast.Compare)):
            break
        names |= {one.id for one in ast.iter_child_nodes(outer) if isinstance(one, ast.Name)}
    return names


def _mutable_defaults(source: Source, function: Function) -> Iterator[Repair]:
    """A mutable default value is shared by all calls."""
    named = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    pairs = [
        *zip(named, function.args.defaults, strict=True),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        if not isinstance(default, (ast.List, ast.Dict, ast.Set)):
            continue
        first = function.body[1] if ast.get_docstring(function) and len(function.body) > 1 else function.body[0]
        indent, start = source.indent(first), source.line_start(first.lineno)
        name = argument.arg
        own = f"{indent}{name} = {source.code(default)} if {name} is None else {name}\n"
        edits = (source.replace(default, "None"), Edit(start, start, own))
        yield Repair("own_default", default.lineno, edits, _SURE)


def _never_undone(source: Source, function: Function) -> Iterator[Repair]:
    """A method checks a collection of ``self``, then adds an item to it, and never removes the item."""
    for index, statement in enumerate(function.body):
        call = statement.value if isinstance(statement, ast.Expr) else None
        rest = function.body[index + 1 :]
        if not isinstance(call, ast.Call) or _method(call) not in ("append", "add") or len(call.args) != 1 or not rest:
            continue
        holder, item = _receiver(source, call), source.code(call.args[0])
        checked = any(source.code(node) == holder for early in function.body[:index] for node in _references(early))
        undone = any(f"{holder}.{word}" in source.code(function) for word in ("pop", "remove", "discard", "clear"))
        if not holder.startswith("self.") or undone or not checked:
            continue
        indent = source.indent(statement)
        start, end = source.line_start(rest[0].lineno), source.span(rest[-1])[1]
        inner = "".join(f"    {line}" if line.strip() else line for line in source.text[start:end].splitlines(True))
        undo = _UNDONE_BY[_method(call)].format(holder, item)
        wrapped = f"{indent}try:\n{inner}\n{indent}finally:\n{indent}    {undo}"
        yield Repair("undo_at_the_end", statement.lineno, (Edit(start, end, wrapped),), _SURE)


def _references(statement: ast.stmt) -> Iterator[ast.AST]:
    return (node for node in ast.walk(statement) if isinstance(node, (ast.Attribute, ast.Name)))
