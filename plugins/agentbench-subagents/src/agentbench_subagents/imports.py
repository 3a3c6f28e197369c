"""Which files a file imports: by its syntax tree, among the files of a workspace. Pure."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

import attrs

from agentbench_subagents.failures import is_foreign
from agentbench_subagents.sources import Source, Span

_FAR = 5
"""How many definitions of its own file a line may be away from the names that it uses."""
_LONGEST_NAME = 20  # parts
_OWN = re.compile(r"(?:self|cls)\.")


@attrs.frozen(kw_only=True)
class Import:
    """One name that an import statement binds.

    ``import a.b`` has the module ``a.b`` and no name; ``from ..a import b as c`` the module ``a``, level 2, and the
    name ``b``, which is bound as ``c``. A star is a name.
    """

    module: str
    level: int
    name: str
    bound: str


@attrs.frozen(kw_only=True)
class Imported:
    """A file that is imported, and what of it: names of its top level; none means the module as such."""

    path: str
    symbols: tuple[str, ...]
    used: bool
    """Whether what it binds occurs in the lines that were asked about."""


def imports_of(source: Source) -> tuple[Import, ...]:
    """Every import of a file, inside functions too, in the order of the lines; nothing without a syntax tree."""
    nodes = ast.walk(source.tree) if source.tree else ()
    statements = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return tuple(found for node in sorted(statements, key=lambda node: node.lineno) for found in _bindings(node))


def uses(source: Source, spans: Iterable[Span]) -> frozenset[str]:
    """Dotted names that occur in some lines, and in the functions and classes of the file that those name, and so on.

    So a test that gets a fixture, or calls a helper beside it, uses what these use.
    """
    return frozenset(name for _, names in _reached(source, spans) for name in names)


def callees(source: Source, spans: Iterable[Span]) -> tuple[tuple[Span, ...], ...]:
    """The functions and classes of the file that some lines name; with those that these name; and so on."""
    return tuple(reached for reached, _ in _reached(source, spans))[1:]


def _reached(source: Source, spans: Iterable[Span]) -> Iterator[tuple[tuple[Span, ...], set[str]]]:
    """Some lines with the names in them; then the same for the definitions that those name; and so on."""
    if source.tree is None:
        return
    names = [found for node in ast.walk(source.tree) for found in _names(node)]
    seen: set[Span] = set()
    waiting = set(spans)
    for _ in range(_FAR):
        new = waiting - seen
        if not new:
            return
        seen |= new
        lines = {line for first, last in new for line in range(first, last + 1)}
        occurring = {name for line, name in names if line in lines}
        yield tuple(sorted(seen)), occurring
        classes = {it.name for first, _ in new for it in source.around(first) if it.is_class}
        meant = {name.partition(".")[0] for name in occurring}
        meant |= {f"{owner}.{name.split('.')[1]}" for owner in classes for name in occurring if _OWN.match(name)}
        waiting |= {it.span for it in source.definitions if it.name in meant}


class Modules:
    """Which file of a workspace a module is, wherever below it the packages lie."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._files = {path for path in paths if path.endswith(".py") and not is_foreign(path)}
        self._by_end: dict[str, list[str]] = {}
        for path in sorted(self._files):
            self._by_end.setdefault(_ending(path), []).append(path)

    def imported(self, source: Source, spans: Iterable[Span] = ()) -> tuple[Imported, ...]:
        """The files that ``source`` imports, each once; ``spans`` are the lines that matter there."""
        used = uses(source, spans)
        found: dict[str, Imported] = {}
        for each in imports_of(source):
            path, name = self.resolve(each, source.path)
            if path is None or path == source.path:
                continue
            symbols = _symbols(each, name, used)
            before = found.get(path, Imported(path=path, symbols=(), used=False))
            found[path] = Imported(
                path=path,
                symbols=tuple(dict.fromkeys((*before.symbols, *symbols))),
                used=before.used or _is_used(each, used),
            )
        return tuple(found.values())

    def resolve(self, what: Import, importer: str) -> tuple[str | None, str]:
        """The file that an import reads, and the name that it takes from there.

        ``from a import b`` reads ``a/b.py`` where that is a module, and ``a/__init__.py`` where ``b`` is a name.
        """
        parts = [part for part in what.module.split(".") if part]
        if what.name not in ("", "*"):
            path = self._file([*parts, what.name], what.level, importer)
            if path is not None:
                return path, ""
        return self._file(parts, what.level, importer), what.name

    def _file(self, parts: list[str], level: int, importer: str) -> str | None:
        if level:
            return self._relative(parts, level, importer)
        if not parts:
            return None
        candidates = self._by_end.get(parts[-1], [])
        tails = ("/".join(parts) + ".py", "/".join(parts) + "/__init__.py")
        found = [(path, path.removesuffix(tail)) for tail in tails for path in candidates if path.endswith(tail)]
        # Likely places for sys.path, in this order; then any other directory, for what is not Python's own.
        likely = [self._root_of(importer), "".join(importer.rpartition("/")[:2]), "", "src/"]
        possible = [
            (likely.index(root) if root in likely else len(likely), root.count("/"), path.endswith(tails[0]), path)
            for path, root in found
            if root in likely or (self._may_be_root(root) and parts[0] not in sys.stdlib_module_names)
        ]
        return min(possible)[-1] if possible else None

    def _may_be_root(self, root: str) -> bool:
        return root.endswith("/") and f"{root}__init__.py" not in self._files

    def _relative(self, parts: list[str], level: int, importer: str) -> str | None:
        directories = importer.split("/")[:-1]
        if level - 1 > len(directories):
            return None
        place = "/".join([*directories[: len(directories) - level + 1], *parts])
        package = f"{place}/__init__.py" if place else "__init__.py"
        candidates = [package, f"{place}.py"] if parts else [package]
        return next((path for path in candidates if path in self._files), None)

    def _root_of(self, importer: str) -> str:
        """The directory above the outermost package of a file, with a slash at its end."""
        directories = importer.split("/")[:-1]
        while directories and f"{'/'.join(directories)}/__init__.py" in self._files:
            directories.pop()
        return "".join(f"{directory}/" for directory in directories)


def _ending(path: str) -> str:
    """The last part of the module's name."""
    parts = path.removesuffix(".py").split("/")
    return parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]


def _bindings(node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield Import(module=alias.name, level=0, name="", bound=alias.asname or alias.name)
        else:
            bound = alias.asname or alias.name
            yield Import(module=node.module or "", level=node.level, name=alias.name, bound=bound)


def _names(node: ast.AST) -> Iterator[tuple[int, str]]:
    """``a``, and ``a.b.c`` as far as it is nothing but names, with the line; arguments too, which may be fixtures."""
    if isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, (ast.Name, ast.Attribute)):
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute) and len(parts) < _LONGEST_NAME:
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield node.lineno, ".".join([inner.id, *reversed(parts)])


def _is_used(what: Import, used: frozenset[str]) -> bool:
    return what.bound == "*" or any(f"{name}.".startswith(f"{what.bound}.") for name in used)


def _symbols(what: Import, name: str, used: frozenset[str]) -> Iterator[str]:
    """What is taken from a file: the name that is imported, or the attributes of the module that occur."""
    if name == "*":
        yield from sorted(name for name in used if "." not in name)
    elif name:
        yield name
    else:
        after = (use.removeprefix(f"{what.bound}.") for use in used if use.startswith(f"{what.bound}."))
        yield from sorted({rest.partition(".")[0] for rest in after})
