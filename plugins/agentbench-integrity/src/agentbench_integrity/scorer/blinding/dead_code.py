"""Remove code from a blinded test file that only the expected values needed.

This removes table cells, arguments of helpers, local variables and helpers. A name is removed only if the file used to
mention it: a name that was never mentioned may be used from outside, such as ``setUpModule``.
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
from agentbench_integrity.scorer.blinding.pure import MUTATING_METHODS
from agentbench_integrity.scorer.blinding.statements import (
    READS_ALL_NAMES,
    Definition,
    arguments_of,
    assigned_name,
    is_plain_call,
    is_read,
    is_removable,
    mentioned_names,
    names_read,
    statement_lists,
)

Columns = Sequence[bool]
"""Whether each column of a table is read."""


class DeadCode:
    """Removes unused code from the tree of ``names`` after its assertions were replaced.

    Args:
        names: the scopes of the original file.
        origin: classifies the expressions of the same file.
        imported_elsewhere: names that other files may import from this file.
    """

    def __init__(self, names: Names, origin: Origin, imported_elsewhere: Collection[str]) -> None:
        self._tree = names.tree
        self._names = names
        self._origin = origin
        self._imported_elsewhere = frozenset(imported_elsewhere)
        self._test_assignments: set[ast.AST] = {
            node
            for node in names.nodes
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and node.value is not None
            and origin.is_from_test(node.value)
        }
        self._mentioned = {word for node in names.nodes for word in mentioned_names(node)}

    def remove(self) -> None:
        """Remove unused code until nothing changes."""
        while any([self._remove_locals(), self._remove_cells(), self._remove_arguments(), self._remove_definitions()]):
            pass

    def _functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self._tree) if isinstance(node, Function))

    # --- variables and helpers of a function ---

    def _remove_locals(self) -> bool:
        """Remove local variables with values of the test, and local helpers, that are no longer read."""
        changed = False
        for function in self._functions():
            unread_containers = self._unread_containers(function)
            read = names_read(function)
            for statements in statement_lists(function):
                retained = []
                for statement in statements:
                    if (
                        statement in unread_containers
                        or self._is_unread(statement, read)
                        or self._is_unused_helper(statement, function)
                    ):
                        changed = True
                        continue
                    if self._is_empty_block(statement):
                        changed = True
                        continue
                    changed |= self._remove_targets(statement, read)
                    retained.append(statement)
                if len(retained) < len(statements):
                    statements[:] = retained or [ast.copy_location(ast.Pass(), statements[0])]
        return changed

    def _is_unread(self, statement: ast.AST, read: Collection[str]) -> bool:
        name = assigned_name(statement)
        return statement in self._test_assignments and name is not None and name not in read

    def _unread_containers(self, function: Function) -> Collection[ast.AST]:
        """Statements that only build a value of the test that is never read, such as a list."""
        writes: dict[ast.AST, tuple[ast.AST, str]] = {}
        for statements in statement_lists(function):
            for each in statements:
                target = self._modified_name(each)
                if isinstance(target, ast.Name):
                    writes[target] = each, target.id
        all_names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        if any(node.id in READS_ALL_NAMES for node in all_names):
            return ()
        read = names_read(ast.Module(function.body, []), excluding_nodes=writes)
        read |= {node.id for node in all_names if node not in writes}
        retained = {name for _, name in writes.values()} & (read | {each.arg for each in arguments_of(function)})
        bound = {name for statement, name in writes.values() if assigned_name(statement) == name}
        return {statement for statement, name in writes.values() if name in bound - retained}

    def _modified_name(self, statement: ast.AST) -> ast.expr | None:
        """The name that a statement assigns, or modifies, with a value of the test."""
        match statement:
            case ast.Assign(targets=[ast.Name() as name]) if statement in self._test_assignments:
                return name
            case ast.Assign(targets=[ast.Subscript(value=name, slice=index)]) if statement in self._test_assignments:
                return name if self._origin.is_from_test(index) else None
            case ast.AnnAssign(target=name) if statement in self._test_assignments:
                return name
            case ast.AugAssign(target=name, value=value) if self._origin.is_from_test(value):
                return name
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=name, attr=word), args=values, keywords=[])):
                return name if word in MUTATING_METHODS and all(map(self._origin.is_from_test, values)) else None
        return None

    def _is_empty_block(self, statement: ast.AST) -> bool:
        """Whether a loop or branch that depends on the test alone has become empty."""
        if not isinstance(statement, ast.For | ast.If) or statement.orelse:
            return False
        head = statement.iter if isinstance(statement, ast.For) else statement.test
        return all(isinstance(each, ast.Pass) for each in statement.body) and self._origin.is_from_test(head)

    def _is_unused_helper(self, statement: ast.AST, function: Function) -> bool:
        if not isinstance(statement, Definition) or not is_removable(statement):
            return False
        return statement.name in self._mentioned and statement.name not in names_read(function, excluding=statement)

    def _remove_targets(self, statement: ast.AST, read: Collection[str]) -> bool:
        """Clear the parts of ``a, b = 1, 2`` that are not read."""
        if not (
            isinstance(statement, ast.Assign) and statement in self._test_assignments and len(statement.targets) == 1
        ):
            return False
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Tuple | ast.List) or not isinstance(value, ast.Tuple | ast.List):
            return False
        if not all(isinstance(element, ast.Name) for element in target.elts):
            return False
        return _clear_row(value.elts, [getattr(element, "id", "") in read for element in target.elts])

    # --- cells of tables ---

    def _remove_cells(self) -> bool:
        """Clear table cells in columns that no function or loop reads."""
        readers = dict(self._readers())
        changed = False
        for rows, columns in readers.values():
            table, pairs = _without_items(rows)
            if isinstance(table, ast.Name):
                changed |= self._remove_shared_cells(table.id, readers)
            elif pairs:
                changed |= isinstance(table, ast.Dict) and len(columns) == 2 and _clear_values(table, columns)
            else:
                changed |= _clear_columns(table, columns)
        return changed

    def _readers(self) -> Iterator[tuple[ast.AST, tuple[ast.expr, Columns]]]:
        """Loops and ``parametrize`` calls, with their rows, and whether each column is read."""
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

    def _remove_shared_cells(self, name: str, readers: Mapping[ast.AST, tuple[ast.expr, Columns]]) -> bool:
        """Clear cells of a named table if every use of the name iterates over its columns."""
        tables = [
            node.value
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Assign | ast.AnnAssign) and assigned_name(node) == name and node.value is not None
        ]
        uses = [node for node in ast.walk(self._tree) if is_read(node, name)]
        matching = [
            (columns, pairs)
            for rows, columns in readers.values()
            for each, pairs in [_without_items(rows)]
            if each in uses
        ]
        if len(tables) != 1 or len(matching) != len(uses) or name in self._imported_elsewhere:
            return False
        if len({(len(columns), pairs) for columns, pairs in matching}) != 1:
            return False
        width, pairs = len(matching[0][0]), matching[0][1]
        combined = [any(columns[index] for columns, _ in matching) for index in range(width)]
        if pairs:
            return isinstance(tables[0], ast.Dict) and width == 2 and _clear_values(tables[0], combined)
        return _clear_columns(tables[0], combined)

    def _function_of(self, node: ast.AST) -> Function | None:
        return next((above for above in self._names.ancestors(node) if isinstance(above, Function)), None)

    # --- arguments of helpers ---

    def _remove_arguments(self) -> bool:
        """Clear the values that calls pass to helpers of the module for arguments that are no longer read."""
        changed = False
        for function in self._tree.body:
            if not isinstance(function, Function) or function.decorator_list or is_test(function):
                continue
            uses = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == function.name]
            calls = [self._names.parent.get(use) for use in uses]
            if function.name in self._imported_elsewhere or not all(map(is_plain_call, calls, uses)):
                continue
            parameters, read = function.args, names_read(ast.Module(function.body, []))
            positional = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
            for call in calls:
                assert isinstance(call, ast.Call)
                for index, name in enumerate(positional[: len(call.args)]):
                    if name not in read and self._is_removable_value(call.args[index]):
                        call.args[index], changed = _placeholder(call.args[index]), True
                for keyword in call.keywords:
                    is_parameter = keyword.arg in positional or keyword.arg in [
                        each.arg for each in parameters.kwonlyargs
                    ]
                    if is_parameter and keyword.arg not in read and self._is_removable_value(keyword.value):
                        keyword.value, changed = _placeholder(keyword.value), True
        return changed

    def _is_removable_value(self, value: ast.expr) -> bool:
        return not _is_placeholder(value) and self._origin.is_from_test(value)

    # --- definitions of the module ---

    def _remove_definitions(self) -> bool:
        """Remove constants, helpers and classes of the module that are no longer mentioned."""
        changed = False
        for statement in list(self._tree.body):
            name = assigned_name(statement)
            if isinstance(statement, Definition):
                name = statement.name if is_removable(statement) else None
            elif statement not in self._test_assignments:
                continue
            if (
                name is None
                or name not in self._mentioned
                or name in self._imported_elsewhere
                or name.startswith(("__", "pytest"))
            ):
                continue
            if not any(
                name in mentioned_names(node)
                for each in self._tree.body
                if each is not statement
                for node in ast.walk(each)
            ):
                self._tree.body.remove(statement)
                changed = True
        return changed


def _without_items(rows: ast.expr) -> tuple[ast.expr, bool]:
    """The mapping of ``rows.items()``, or ``rows`` itself, and whether ``.items()`` was called."""
    if isinstance(rows, ast.Call) and isinstance(rows.func, ast.Attribute) and rows.func.attr == "items":
        return rows.func.value, True
    return rows, False


def _clear_columns(table: ast.expr, read: Columns) -> bool:
    """Replace the cells of unread columns with ``None``."""
    if not isinstance(table, ast.List | ast.Tuple):
        return False
    changed = False
    for row in table.elts:
        is_param = isinstance(row, ast.Call) and name_of(row) == "param"
        if len(read) == 1 and not is_param:
            continue  # single values must stay: pytest requires one per row
        cells = row.args if isinstance(row, ast.Call) and is_param else getattr(row, "elts", None)
        if isinstance(cells, list):
            changed |= _clear_row(cells, read)
    return changed


def _clear_row(cells: list[ast.expr], read: Columns) -> bool:
    if len(cells) != len(read) or any(isinstance(cell, ast.Starred) for cell in cells):
        return False
    unread = [index for index, is_read in enumerate(read) if not is_read and not _is_placeholder(cells[index])]
    for index in unread:
        cells[index] = _placeholder(cells[index])
    return bool(unread)


def _clear_values(table: ast.Dict, read: Columns) -> bool:
    """Replace the unread values of a dictionary with ``None``. Keys stay because they must be distinct."""
    if read[1] or None in table.keys:
        return False
    return _clear_row(table.values, [False] * len(table.values))


def _placeholder(cell: ast.expr) -> ast.Constant:
    return ast.copy_location(ast.Constant(None), cell)


def _is_placeholder(cell: ast.expr) -> bool:
    return isinstance(cell, ast.Constant) and cell.value is None
