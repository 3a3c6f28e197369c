"""Name bindings and scopes of a test file."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@attrs.frozen
class Assigned:
    """``name = value`` with a single target."""

    node: ast.Assign | ast.AnnAssign

    @property
    def value(self) -> ast.expr:
        """The assigned value."""
        assert self.node.value is not None, "an annotation without a value must not count as a binding"
        return self.node.value


@attrs.frozen
class Column:
    """A column of a table whose rows are iterated by ``for`` or ``parametrize``.

    ``index`` is ``None`` if each row is a single value. Otherwise a row has ``width`` cells.
    """

    node: ast.For | ast.Call
    index: int | None
    width: int

    @property
    def table(self) -> ast.expr:
        """The expression of the rows."""
        if isinstance(self.node, ast.For):
            return self.node.iter
        rows = rows_of(self.node)
        assert rows is not None, "a column requires a parametrize call with rows"
        return rows


@attrs.frozen
class Other:
    """Any other binding: an import, a definition, a fixture, an augmented assignment, ..."""

    node: ast.AST


Binding = Assigned | Column | Other


class Names:
    """The scopes of a module. Syntax nodes are compared by identity."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes = list(ast.walk(tree))
        self.parent: dict[ast.AST, ast.AST] = {
            child: node for node in self.nodes for child in ast.iter_child_nodes(node)
        }
        self._bindings: dict[Scope, Mapping[str, Sequence[Binding]]] = {}
        self._uses: dict[tuple[Scope, str], list[ast.Name]] | None = None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The enclosing nodes, innermost first."""
        while node in self.parent:
            node = self.parent[node]
            yield node

    def scope(self, node: ast.AST) -> Scope:
        """The innermost enclosing function, or the module."""
        return next((above for above in self.ancestors(node) if isinstance(above, Scope)), self.tree)

    def find(self, name: str, at: ast.AST) -> tuple[Scope | None, Sequence[Binding]]:
        """The scope that binds a name read at a node, with its bindings; ``None`` if it is not bound in the file."""
        scope: Scope | None = self.scope(at)
        while scope is not None:
            bound = self.bindings(scope).get(name)
            if bound:
                return scope, bound
            scope = None if scope is self.tree else self.scope(scope)
        return None, ()

    def in_comprehension(self, name: ast.Name) -> bool:
        """Whether an enclosing comprehension or lambda binds the name."""
        for above in self.ancestors(name):
            if isinstance(above, Scope) and not isinstance(above, ast.Lambda):
                return False
            if isinstance(above, Comprehension):
                bound = {bound_name for made in above.generators for bound_name in stored_names(made.target)}
                if name.id in bound:
                    return True
            if isinstance(above, ast.Lambda) and name.id in _arguments(above):
                return True
        return False

    def uses(self, name: str, scope: Scope) -> Sequence[ast.Name]:
        """All reads of a name that a scope binds, including reads in inner scopes."""
        if self._uses is None:
            self._uses = defaultdict(list)
            for node in self.nodes:
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not self.in_comprehension(node):
                    owner, _ = self.find(node.id, node)
                    if owner is not None:
                        self._uses[owner, node.id].append(node)
        return self._uses.get((scope, name), ())

    def bindings(self, scope: Scope) -> Mapping[str, Sequence[Binding]]:
        """All bindings of a scope, by name."""
        if scope not in self._bindings:
            bindings: defaultdict[str, list[Binding]] = defaultdict(list)
            for name, binding in self._bindings_in_scope(scope):
                bindings[name].append(binding)
            self._bindings[scope] = bindings
        return self._bindings[scope]

    def _bindings_in_scope(self, scope: Scope) -> Iterator[tuple[str, Binding]]:
        if isinstance(scope, Function | ast.Lambda):
            columns = dict(self._parametrized_arguments(scope)) if isinstance(scope, Function) else {}
            for name in _arguments(scope):
                yield name, columns.get(name, Other(scope))
        body = scope.body if isinstance(scope.body, list) else [scope.body]
        pending: list[ast.AST] = list(reversed(body))
        while pending:
            node = pending.pop()
            yield from self._bindings_of_node(node)
            if isinstance(node, Function):
                pending.extend(node.decorator_list)
            elif not isinstance(node, ast.Lambda):
                pending.extend(reversed(list(ast.iter_child_nodes(node))))
        for inner in ast.walk(scope):  # a name rebound by an inner function has more than one assignment
            if isinstance(inner, ast.Global | ast.Nonlocal):
                for name in inner.names:
                    yield name, Other(inner)

    def _bindings_of_node(self, node: ast.AST) -> Iterator[tuple[str, Binding]]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, Assigned(node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name, Assigned(node)
            case ast.For(target=target):
                yield from ((name, Column(node, index, width)) for name, index, width in _targets(target))
                yield from ((name, Other(node)) for name in _nested_targets(target))
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if not self._is_handled_target(node):
                yield name, Other(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, Other(node)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, Other(node)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    yield alias.asname or alias.name.partition(".")[0], Other(node)

    def _is_handled_target(self, name: ast.Name) -> bool:
        """Whether another node already reports a stored name, or a comprehension binds it."""
        node: ast.AST = name
        above = self.parent[node]
        while isinstance(above, ast.Tuple | ast.List | ast.Starred):
            node, above = above, self.parent[above]
        if isinstance(above, ast.Assign):
            return above.targets == [name]
        if isinstance(above, ast.AnnAssign):
            return above.value is not None
        return isinstance(above, ast.For | ast.comprehension) and node is above.target

    def _parametrized_arguments(self, function: Function) -> Iterator[tuple[str, Column]]:
        """Arguments of a test that come from a literal ``parametrize`` on the test or its class."""
        above = self.parent.get(function)
        decorators = [*function.decorator_list, *(above.decorator_list if isinstance(above, ast.ClassDef) else [])]
        for call in filter(is_parametrize, decorators):
            assert isinstance(call, ast.Call)
            names = parameter_names(call)
            if rows_of(call) is None or is_indirect(call):
                continue
            for index, name in enumerate(names):
                yield name, Column(call, index if len(names) > 1 else None, len(names))


def name_of(call: ast.expr) -> str:
    """The last part of a called name, such as ``b`` for ``a.b(...)``; empty if there is no name."""
    function = call.func if isinstance(call, ast.Call) else call
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def is_parametrize(node: ast.AST) -> bool:
    """Whether a node is a call to ``pytest.mark.parametrize``, judging by the last part of the name."""
    return isinstance(node, ast.Call) and name_of(node) == "parametrize"


def parameter_names(call: ast.Call) -> Sequence[str]:
    """The argument names of a ``parametrize`` call; empty if they are not literal."""
    named = _argument(call, 0, "argnames")
    if isinstance(named, ast.Constant) and isinstance(named.value, str):
        return [part.strip() for part in named.value.split(",") if part.strip()]
    if isinstance(named, ast.List | ast.Tuple):
        names = [part.value for part in named.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        return names if len(names) == len(named.elts) else []
    return []


def rows_of(call: ast.Call) -> ast.expr | None:
    """The rows of a ``parametrize`` call; ``None`` if it has none, or unpacks its arguments."""
    return _argument(call, 1, "argvalues")


def stored_names(target: ast.expr) -> Iterator[str]:
    """All names in the target of an assignment."""
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def is_test(function: Function) -> bool:
    """Whether pytest or unittest may collect a function as a test."""
    return function.name.startswith("test")


def _argument(call: ast.Call, index: int, keyword: str) -> ast.expr | None:
    if any(isinstance(each, ast.Starred) for each in call.args[: index + 1]):
        return None
    if len(call.args) > index:
        return call.args[index]
    return next((each.value for each in call.keywords if each.arg == keyword), None)


def is_indirect(call: ast.Call) -> bool:
    """Whether a ``parametrize`` call passes its values to fixtures, or may do so."""
    is_positional = len(call.args) > 2 and getattr(call.args[2], "value", None) is not False
    return is_positional or any(keyword.arg in ("indirect", None) for keyword in call.keywords)


def _arguments(function: Function | ast.Lambda) -> list[str]:
    arguments = function.args
    all_arguments = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in all_arguments if argument is not None]


def _targets(target: ast.expr) -> Iterator[tuple[str, int | None, int]]:
    """Names that hold an item of a loop or one of its elements, with index and width."""
    if isinstance(target, ast.Name):
        yield target.id, None, 1
    elif isinstance(target, ast.Tuple | ast.List) and not any(isinstance(e, ast.Starred) for e in target.elts):
        for index, each in enumerate(target.elts):
            if isinstance(each, ast.Name):
                yield each.id, index, len(target.elts)


def _nested_targets(target: ast.expr) -> Iterator[str]:
    """Names that are nested deeper in the target of a loop."""
    simple = {name for name, _, _ in _targets(target)}
    return (name for name in stored_names(target) if name not in simple)
