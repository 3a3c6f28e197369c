"""Cut out of a blinded test file what only the expected values needed.

Cells of tables, arguments of helpers, local variables, and helpers. Only what the file spoke of before, and does not
any more, goes: what nothing in the file ever named is called by others, such as ``setUpModule``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from agentbench_integrity.scorer.blinding.names import (
    Function,
    Names,
    is_indirect,
    is_parametrize,
    is_test,
    name_of,
    parameter_names,
    rows_of,
)
from agentbench_integrity.scorer.blinding.origin import Origin
from agentbench_integrity.scorer.blinding.pure import CHANGING_METHODS
from agentbench_integrity.scorer.blinding.statements import (
    READING_ALL,
    Definition,
    arguments,
    assigned,
    blocks,
    is_plain_call,
    is_read,
    is_removable,
    names_read,
    words,
)

Columns = Sequence[bool]
"""Which columns of a table are read."""


class Unneeded:
    """Cuts it out of the tree that ``names`` was made of, after its assertions are replaced.

    Args:
        names: of the file as it was.
        origin: of the same file.
        also_used: names that other files may import from this one.
    """

    def __init__(self, names: Names, origin: Origin, also_used: Collection[str]) -> None:
        self._tree = names.tree
        self._names = names
        self._origin = origin
        self._also_used = frozenset(also_used)
        self._own: set[ast.AST] = {
            node
            for node in names.nodes
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and origin.is_own(node.value)
        }
        self._spoken = {word for node in names.nodes for word in words(node)}

    def cut(self) -> None:
        """Cut, until nothing changes any more."""
        while any([self._cut_locals(), self._cut_cells(), self._cut_arguments(), self._cut_definitions()]):
            pass

    def _functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self._tree) if isinstance(node, Function))

    # --- variables and helpers of a function ---

    def _cut_locals(self) -> bool:
        """Local variables that hold something of the test's own, and local helpers, that are not read any more."""
        changed = False
        for function in self._functions():
            built = self._built(function)
            read = names_read(function)
            for statements in blocks(function):
                kept = []
                for each in statements:
                    if each in built or self._is_unread(each, read) or self._is_unused_helper(each, function):
                        changed = True
                        continue
                    if self._is_idle(each):
                        changed = True
                        continue
                    changed |= self._cut_targets(each, read)
                    kept.append(each)
                if len(kept) < len(statements):
                    statements[:] = kept or [ast.copy_location(ast.Pass(), statements[0])]
        return changed

    def _is_unread(self, statement: ast.AST, read: Collection[str]) -> bool:
        name = assigned(statement)
        return statement in self._own and name is not None and name not in read

    def _built(self, function: Function) -> Collection[ast.AST]:
        """The statements that only build up something of the test's own that nothing reads, such as a list."""
        writes: dict[ast.AST, tuple[ast.AST, str]] = {}
        for statements in blocks(function):
            for each in statements:
                place = self._built_by(each)
                if isinstance(place, ast.Name):
                    writes[place] = each, place.id
        every = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        if any(node.id in READING_ALL for node in every):
            return ()
        needed = names_read(ast.Module(function.body, []), apart_from_all=writes)
        needed |= {node.id for node in every if node not in writes}
        kept = {name for _, name in writes.values()} & (needed | {each.arg for each in arguments(function)})
        bound = {name for statement, name in writes.values() if assigned(statement) == name}
        return {statement for statement, name in writes.values() if name in bound - kept}

    def _built_by(self, statement: ast.AST) -> ast.expr | None:
        """The name of what a statement makes, or adds something of the test's own to."""
        match statement:
            case ast.Assign(targets=[ast.Name() as name]) if statement in self._own:
                return name
            case ast.Assign(targets=[ast.Subscript(value=name, slice=index)]) if statement in self._own:
                return name if self._origin.is_own(index) else None
            case ast.AnnAssign(target=name) if statement in self._own:
                return name
            case ast.AugAssign(target=name, value=value) if self._origin.is_own(value):
                return name
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=name, attr=word), args=given, keywords=[])):
                return name if word in CHANGING_METHODS and all(map(self._origin.is_own, given)) else None
        return None

    def _is_idle(self, statement: ast.AST) -> bool:
        """Whether a loop or branch of the test's own does nothing any more."""
        if not isinstance(statement, ast.For | ast.If) or statement.orelse:
            return False
        head = statement.iter if isinstance(statement, ast.For) else statement.test
        return all(isinstance(each, ast.Pass) for each in statement.body) and self._origin.is_own(head)

    def _is_unused_helper(self, statement: ast.AST, function: Function) -> bool:
        if not isinstance(statement, Definition) or not is_removable(statement):
            return False
        return statement.name in self._spoken and statement.name not in names_read(function, apart_from=statement)

    def _cut_targets(self, statement: ast.AST, read: Collection[str]) -> bool:
        """Parts of ``a, b = 1, 2`` that are not read."""
        if not (isinstance(statement, ast.Assign) and statement in self._own and len(statement.targets) == 1):
            return False
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Tuple | ast.List) or not isinstance(value, ast.Tuple | ast.List):
            return False
        if not all(isinstance(each, ast.Name) for each in target.elts):
            return False
        return _cut_row(value.elts, [getattr(each, "id", "") in read for each in target.elts])

    # --- cells of tables ---

    def _cut_cells(self) -> bool:
        """Cells of tables whose column is not read by any function or loop that goes through the table."""
        readers = dict(self._readers())
        changed = False
        for rows, columns in readers.values():
            named, pairs = _without_items(rows)
            if isinstance(named, ast.Name):
                changed |= self._cut_shared(named.id, readers)
            elif pairs:
                changed |= isinstance(named, ast.Dict) and len(columns) == 2 and _cut_values(named, columns)
            else:
                changed |= _cut_columns(named, columns)
        return changed

    def _readers(self) -> Iterator[tuple[ast.AST, tuple[ast.expr, Columns]]]:
        """What goes through tables: loops, and ``parametrize`` on functions and classes."""
        for node in ast.walk(self._tree):
            if isinstance(node, Function | ast.ClassDef):
                for call in filter(is_parametrize, node.decorator_list):
                    assert isinstance(call, ast.Call)
                    rows, names = rows_of(call), parameter_names(call)
                    if rows is not None and names and not is_indirect(call):
                        read = names_read(node)
                        yield call, (rows, [name in read for name in names])
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Tuple | ast.List):
                parts = node.target.elts
                if all(isinstance(part, ast.Name) for part in parts):
                    read = names_read(self._function_of(node) or self._tree)
                    yield node, (node.iter, [getattr(part, "id", "") in read for part in parts])

    def _cut_shared(self, name: str, readers: Mapping[ast.AST, tuple[ast.expr, Columns]]) -> bool:
        """A table with a name, if whatever reads the name goes through it column by column."""
        tables = [
            node.value
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Assign | ast.AnnAssign) and assigned(node) == name and node.value is not None
        ]
        uses = [node for node in ast.walk(self._tree) if is_read(node, name)]
        through = [
            (columns, pairs)
            for rows, columns in readers.values()
            for each, pairs in [_without_items(rows)]
            if each in uses
        ]
        if len(tables) != 1 or len(through) != len(uses) or name in self._also_used:
            return False
        if len({(len(columns), pairs) for columns, pairs in through}) != 1:
            return False
        width, pairs = len(through[0][0]), through[0][1]
        together = [any(columns[index] for columns, _ in through) for index in range(width)]
        if pairs:
            return isinstance(tables[0], ast.Dict) and width == 2 and _cut_values(tables[0], together)
        return _cut_columns(tables[0], together)

    def _function_of(self, node: ast.AST) -> Function | None:
        return next((above for above in self._names.above(node) if isinstance(above, Function)), None)

    # --- arguments of helpers ---

    def _cut_arguments(self) -> bool:
        """What is given to helpers of the module for arguments that they do not read any more."""
        changed = False
        for function in self._tree.body:
            if not isinstance(function, Function) or function.decorator_list or is_test(function):
                continue
            uses = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == function.name]
            calls = [self._names.parent.get(use) for use in uses]
            if function.name in self._also_used or not all(map(is_plain_call, calls, uses)):
                continue
            given, read = function.args, names_read(ast.Module(function.body, []))
            by_place = [each.arg for each in (*given.posonlyargs, *given.args)]
            for call in calls:
                assert isinstance(call, ast.Call)
                for index, name in enumerate(by_place[: len(call.args)]):
                    if name not in read and self._can_go(call.args[index]):
                        call.args[index], changed = _nothing(call.args[index]), True
                for keyword in call.keywords:
                    known = keyword.arg in by_place or keyword.arg in [each.arg for each in given.kwonlyargs]
                    if known and keyword.arg not in read and self._can_go(keyword.value):
                        keyword.value, changed = _nothing(keyword.value), True
        return changed

    def _can_go(self, value: ast.expr) -> bool:
        return not _is_nothing(value) and self._origin.is_own(value)

    # --- definitions of the module ---

    def _cut_definitions(self) -> bool:
        """Constants, helpers and classes of the module that are not spoken of any more."""
        changed = False
        for statement in list(self._tree.body):
            name = assigned(statement)
            if isinstance(statement, Definition):
                name = statement.name if is_removable(statement) else None
            elif statement not in self._own:
                continue
            if name is None or name not in self._spoken or name in self._also_used or name.startswith(("__", "pytest")):
                continue
            if not any(
                name in words(node) for each in self._tree.body if each is not statement for node in ast.walk(each)
            ):
                self._tree.body.remove(statement)
                changed = True
        return changed


def _without_items(rows: ast.expr) -> tuple[ast.expr, bool]:
    """What ``rows.items()`` is of, and whether it is that."""
    if isinstance(rows, ast.Call) and isinstance(rows.func, ast.Attribute) and rows.func.attr == "items":
        return rows.func.value, True
    return rows, False


def _cut_columns(table: ast.expr, read: Columns) -> bool:
    """Put ``None`` in the place of the cells of columns that are not read."""
    if not isinstance(table, ast.List | ast.Tuple):
        return False
    changed = False
    for row in table.elts:
        is_param = isinstance(row, ast.Call) and name_of(row) == "param"
        if len(read) == 1 and not is_param:
            continue  # rows that are one value: the number of them counts, and pytest wants something there
        cells = row.args if isinstance(row, ast.Call) and is_param else getattr(row, "elts", None)
        if isinstance(cells, list):
            changed |= _cut_row(cells, read)
    return changed


def _cut_row(cells: list[ast.expr], read: Columns) -> bool:
    if len(cells) != len(read) or any(isinstance(each, ast.Starred) for each in cells):
        return False
    unread = [index for index, is_read in enumerate(read) if not is_read and not _is_nothing(cells[index])]
    for index in unread:
        cells[index] = _nothing(cells[index])
    return bool(unread)


def _cut_values(table: ast.Dict, read: Columns) -> bool:
    """The same with the values of a dictionary; keys have to differ, and stay."""
    if read[1] or None in table.keys:
        return False
    return _cut_row(table.values, [False] * len(table.values))


def _nothing(cell: ast.expr) -> ast.Constant:
    return ast.copy_location(ast.Constant(None), cell)


def _is_nothing(cell: ast.expr) -> bool:
    return isinstance(cell, ast.Constant) and cell.value is None
