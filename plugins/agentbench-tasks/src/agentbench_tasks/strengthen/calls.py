"""Find the calls whose results the failing tests compare, with the literals that can be varied."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs

from agentbench_tasks.strengthen.module import Module, loaded_names, parse, targets
from agentbench_tasks.strengthen.values import source_of

_MAX_ROWS = 12
"""Maximum number of rows of a parametrized test, or of rounds of a loop, whose inputs are used."""
_MAX_SOURCE = 500  # characters of an expression
_MAX_LITERAL = 300  # characters
_HOLE = "_agentbench_input_"
_EQUAL = frozenset({"assertEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual"})
_OF_TEST_TOOLS = frozenset({"pytest", "unittest", "mock", "self", "cls"})
_BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.AsyncFunctionDef
Names = Mapping[str, ast.expr | None]
"""The values of local names; ``None`` for an unknown value."""


@attrs.frozen(kw_only=True)
class Call:
    """An expression whose value a failing test compares. ``inputs`` are its literals, in different variants."""

    file: str  #: path of the hidden test in the workspace
    test: str  #: test function, with its class
    line: int  #: line of the assertion
    expression: ast.expr = attrs.field(repr=False)
    inputs: tuple[tuple[Any, ...], ...]  #: the literals of each variant that the tests contain
    imports: tuple[str, ...] = ()  #: imports within the test function

    @property
    def where(self) -> str:
        """The assertion, for messages."""
        return f"{self.file}:{self.line} {self.test}"

    @property
    def names(self) -> frozenset[str]:
        """Names of the module that it uses."""
        imported = {name for text in self.imports for name in targets(ast.parse(text))}
        return frozenset(n for n in _free(self.expression) if not n.startswith(_HOLE)) - imported - _BUILTINS

    def source(self, values: Sequence[Any]) -> str:
        """The expression with these literals."""
        filled = _Filled(values).visit(copy.deepcopy(self.expression))
        return ast.unparse(ast.fix_missing_locations(filled))


@attrs.frozen(kw_only=True)
class Skipped:
    """A comparison for which nothing is proposed."""

    where: str
    reason: str


def find_calls(text: str, file: str, tests: Collection[str]) -> tuple[Sequence[Call], Sequence[Skipped]]:
    """The calls that test functions of a file compare.

    Args:
        text: source of the test file.
        file: its path.
        tests: names of the functions, with their classes: ``TestIt::test_a``.
    """
    try:
        module = Module(parse(text))
    except (SyntaxError, ValueError):
        return (), (Skipped(where=file, reason="it is not valid Python"),)
    finder = _Finder(module, file)
    for name, function, above in module.tests():
        if name in tests:
            try:
                finder.search(name, function, above)
            except RecursionError:
                finder.skipped.append(Skipped(where=f"{file}:{function.lineno} {name}", reason="nested too deeply"))
    return list(finder.calls.values()), list(dict.fromkeys(finder.skipped))


class _UnknownError(Exception):
    """An expression uses an unknown value, such as a fixture."""


class _Finder:
    def __init__(self, module: Module, file: str) -> None:
        self.module = module
        self.file = file
        self.calls: dict[tuple[str, tuple[str, ...]], Call] = {}
        self.skipped: list[Skipped] = []
        self._test = ""
        self._fixtures: frozenset[str] = frozenset()
        self._imports: dict[str, str] = {}

    def search(self, name: str, function: Function, above: ast.ClassDef | None) -> None:
        """Search a test function, once per row of its parameters."""
        self._test = name
        if isinstance(function, ast.AsyncFunctionDef):
            self._skip(function, "the test is asynchronous")
            return
        decorators = [*(above.decorator_list if above else ()), *function.decorator_list]
        arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        for row in _rows(decorators, self.module):
            self._fixtures = frozenset(arguments) - row.keys()
            self._imports = {}
            self._statements(function.body, {**dict.fromkeys(self._fixtures), **row})

    def _statements(self, body: Iterable[ast.stmt], names: Names) -> None:
        known = dict(names)
        for statement in body:
            if isinstance(statement, ast.Assert):
                self._condition(statement, statement.test, known)
            elif isinstance(statement, ast.Expr) and _is_equality(statement.value):
                call = statement.value
                assert isinstance(call, ast.Call)
                self._compared(statement, call.args[:2], known)
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and (name := _assigned(statement)):
                value = statement.value
                assert value is not None
                try:
                    known[name] = self._substituted(value, known)
                except _UnknownError:
                    known[name] = None
                self._changed(value, known)
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                for name in targets(statement):
                    self._imports[name] = ast.unparse(statement)
                    known.pop(name, None)
            elif isinstance(statement, ast.For) and not statement.orelse:
                self._loop(statement, known)
            elif not (isinstance(statement, ast.Pass) or _is_docstring(statement)):
                self._other(statement, known)

    def _loop(self, loop: ast.For, known: dict[str, ast.expr | None]) -> None:
        """A loop over a table of the test is treated like parameters."""
        items = self.module.items(loop.iter)
        rows = [_unpacked(loop.target, item, self.module) for item in items[:_MAX_ROWS]] if items else []
        if not rows or any(row is None for row in rows):
            self._other(loop, known)
            return
        for row in rows:
            self._statements(loop.body, {**known, **(row or {})})
        known |= dict.fromkeys(targets(loop))

    def _other(self, statement: ast.stmt, known: dict[str, ast.expr | None]) -> None:
        """Any other statement may change all objects that it mentions."""
        if any(isinstance(node, ast.Assert) or _is_equality(node) for node in ast.walk(statement)):
            self._skip(statement, f"assertions within a {type(statement).__name__.lower()} statement are not varied")
        for name in (*loaded_names(statement), *targets(statement)):
            if name in known:
                known[name] = None
        known |= dict.fromkeys(targets(statement))

    @staticmethod
    def _changed(value: ast.expr, known: dict[str, ast.expr | None]) -> None:
        """A method that is called on a local object may change it, as in ``last = stack.pop()``."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.value
                if isinstance(name, ast.Name) and name.id in known and not _is_literal(known[name.id]):
                    known[name.id] = None

    def _condition(self, statement: ast.stmt, test: ast.expr, known: Names) -> None:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for value in test.values:
                self._condition(statement, value, known)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            if isinstance(test.ops[0], ast.Eq):
                self._compared(statement, [test.left, *test.comparators], known)
            elif isinstance(test.ops[0], ast.In):
                self._compared(statement, test.comparators, known)
            else:
                self._skip(statement, "it does not compare with ==")
        else:
            self._skip(statement, "it does not compare with ==")

    def _compared(self, statement: ast.stmt, sides: Sequence[ast.expr], known: Names) -> None:
        unknown: list[str] = []
        found = False
        for side in sides:
            try:
                expression = self._substituted(side, known)
            except _UnknownError as error:
                unknown.append(str(error))
                continue
            if not _calls_program(expression):
                continue
            found = True
            self._add(statement, expression)
        if not found:
            self._skip(statement, unknown[0] if unknown else "it does not compare the result of a call")

    def _add(self, statement: ast.stmt, expression: ast.expr) -> None:
        separated = _Separated(self.module)
        shape = separated.visit(copy.deepcopy(expression))
        text = ast.unparse(ast.fix_missing_locations(shape))
        if not separated.literals:
            self._skip(statement, "the call has no literal argument")
        elif len(text) > _MAX_SOURCE:
            self._skip(statement, "the expression is too long")
        else:
            used = tuple(dict.fromkeys(self._imports[name] for name in _free(shape) if name in self._imports))
            call = Call(
                file=self.file,
                test=self._test,
                line=statement.lineno,
                expression=shape,
                inputs=(tuple(separated.literals),),
                imports=used,
            )
            if missing := [name for name in sorted(call.names) if not self.module.defines(name)]:
                self._skip(statement, f"{missing[0]} is not defined at the top of the file")
                return
            earlier = self.calls.get((text, used))
            if earlier is None:
                self.calls[text, used] = call
            elif call.inputs[0] not in earlier.inputs:
                inputs = (*earlier.inputs, *call.inputs)[:_MAX_ROWS]
                self.calls[text, used] = attrs.evolve(earlier, inputs=inputs)

    def _substituted(self, expression: ast.expr, known: Names) -> ast.expr:
        """The expression with the values of local names. Raises _UnknownError if one of them is unknown."""
        if any(
            isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) for node in ast.walk(expression)
        ):
            raise _UnknownError("the expression is not supported")
        for name in _free(expression):
            if name in known and known[name] is None:
                if name in ("self", "cls"):
                    raise _UnknownError("it uses attributes of the test's class")
                fixture = f"{name} is a fixture or a computed parameter"
                other = f"{name} may be modified or is not assigned by a simple statement"
                raise _UnknownError(fixture if name in self._fixtures else other)
        free = _free(expression)
        values = {name: value for name, value in known.items() if value is not None and name in free}
        result: ast.expr = _Substituted(values).visit(copy.deepcopy(expression))
        if sum(1 for _ in ast.walk(result)) > _MAX_SOURCE:
            raise _UnknownError("the expression is too long")
        return result

    def _skip(self, node: ast.stmt, reason: str) -> None:
        self.skipped.append(Skipped(where=f"{self.file}:{node.lineno} {self._test}", reason=reason))


# --- rows of parametrized tests ----------------------------------------------------------------------------------


def _rows(decorators: Sequence[ast.expr], module: Module) -> Sequence[Mapping[str, ast.expr]]:
    """The arguments in each row of ``pytest.mark.parametrize``. Several tables are combined row by row."""
    rows: list[dict[str, ast.expr]] = [{}]
    for decorator in decorators:
        if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.parametrize")):
            continue
        names, table = (*decorator.args, None, None)[:2]
        columns = _columns(names)
        items = module.items(table) if table is not None and columns else None
        cells = [_cells(item, columns, module) for item in items or ()]
        table_rows = [row for row in cells if row]
        if table_rows:
            longest = min(_MAX_ROWS, max(len(rows), len(table_rows)))
            rows = [{**rows[n % len(rows)], **table_rows[n % len(table_rows)]} for n in range(longest)]
    return rows


def _columns(names: ast.expr | None) -> Sequence[str]:
    try:
        value = ast.literal_eval(names) if names is not None else ()
    except (ValueError, TypeError):
        return ()
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [str(name) for name in value] if isinstance(value, list | tuple) else ()


def _cells(item: ast.expr, columns: Sequence[str], module: Module) -> Mapping[str, ast.expr] | None:
    cells: Sequence[ast.expr] | None = [item]
    if isinstance(item, ast.Call) and ast.unparse(item.func) in ("pytest.param", "param"):
        cells = item.args
    elif len(columns) > 1:
        cells = module.items(item)
    return dict(zip(columns, cells, strict=True)) if cells and len(cells) == len(columns) else None


def _unpacked(target: ast.expr, item: ast.expr, module: Module) -> Mapping[str, ast.expr] | None:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple) and all(isinstance(each, ast.Name) for each in target.elts):
        return _cells(item, [each.id for each in target.elts if isinstance(each, ast.Name)], module)
    return None


# --- expressions -------------------------------------------------------------------------------------------------


class _Substituted(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self._values:
            return copy.deepcopy(self._values[node.id])
        return node


class _Filled(ast.NodeTransformer):
    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith(_HOLE):
            return ast.parse(source_of(self._values[int(node.id[len(_HOLE) :])]), mode="eval").body
        return node


class _Separated(ast.NodeTransformer):
    """Replaces the literal arguments of calls by numbered names, and collects them."""

    def __init__(self, module: Module) -> None:
        self.literals: list[Any] = []
        self._module = module

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.func = self.visit(node.func)
        node.args = [self._argument(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self._argument(keyword.value)
        return node

    def _argument(self, node: ast.expr) -> ast.expr:
        """An argument, or a part of one."""
        constant = self._module.constant(node.id) if isinstance(node, ast.Name) else None
        found = _literal(node if constant is None else constant)
        if found:
            self.literals.append(found[0])
            return ast.Name(f"{_HOLE}{len(self.literals) - 1}", ast.Load())
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            node.elts = [self._argument(item) for item in node.elts]
        elif isinstance(node, ast.Dict):
            node.values = [self._argument(item) for item in node.values]
        elif isinstance(node, ast.BinOp):
            node.left, node.right = self._argument(node.left), self._argument(node.right)
        elif isinstance(node, ast.Starred):
            node.value = self._argument(node.value)
        elif not isinstance(node, ast.JoinedStr):
            visited: ast.expr = self.visit(node)
            return visited
        return node


def _literal(node: ast.expr) -> tuple[Any] | None:
    """The value of a literal in a tuple; ``None`` if the expression is not a literal that can be varied."""
    try:
        value = ast.literal_eval(node)
        return (value,) if value is not ... and len(source_of(value)) <= _MAX_LITERAL else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_literal(node: ast.expr | None) -> bool:
    return node is not None and _literal(node) is not None


def _calls_program(expression: ast.expr) -> bool:
    """Whether an expression may call the program: a name that is neither built in nor a tool for tests."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            root: ast.expr = node.func
            while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
                root = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Name) and root.id not in _BUILTINS | _OF_TEST_TOOLS:
                return True
    return False


def _free(expression: ast.AST) -> Sequence[str]:
    """Names that an expression reads, except for names that it binds itself."""
    bound = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(expression) if isinstance(node, ast.arg)}
    return [name for name in loaded_names(expression) if name not in bound]


def _assigned(statement: ast.Assign | ast.AnnAssign) -> str:
    """The only name that a statement assigns; empty if there are others."""
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    single = isinstance(statement, ast.AnnAssign) or len(statement.targets) == 1
    return target.id if single and statement.value is not None and isinstance(target, ast.Name) else ""


def _is_equality(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _EQUAL
        and len(node.args) >= 2
    )


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
