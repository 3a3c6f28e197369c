"""The files of a workspace that a file imports, according to its syntax tree. Pure functions."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

import attrs

from agentbench_subagents.failures import is_external
from agentbench_subagents.sources import Source, Span

_MAX_LEVELS = 5
"""Maximum levels of definitions to follow in a file, from the names that a line uses."""
_MAX_PARTS = 20  # maximum parts of a dotted name
_OWN = re.compile(r"(?:self|cls)\.")


@attrs.frozen(kw_only=True)
class Import:
    """A name that an import statement binds.

    ``import a.b`` has the module ``a.b`` and no name; ``from ..a import b as c`` has the module ``a``, level 2 and the
    name ``b``, which is bound as ``c``. A star is a name.
    """

    module: str
    level: int
    name: str
    bound: str


@attrs.frozen(kw_only=True)
class Imported:
    """An imported file, with the top-level names imported from it or used as attributes of the module."""

    path: str
    symbols: tuple[str, ...]
    used: bool
    """Whether the imported names occur in the relevant lines."""


def imports_of(source: Source) -> tuple[Import, ...]:
    """Every import in a file, including those inside functions, in the order of lines; empty without a syntax tree."""
    nodes = ast.walk(source.tree) if source.tree else ()
    statements = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return tuple(each for node in sorted(statements, key=lambda node: node.lineno) for each in _bindings(node))


def uses(source: Source, spans: Iterable[Span]) -> frozenset[str]:
    """Dotted names in some lines, and in the functions and classes of the file that they name, recursively.

    Thus a test also uses the names that its fixtures and helpers use.
    """
    return frozenset(name for _, names in _reached(source, spans) for name in names)


def callees(source: Source, spans: Iterable[Span]) -> tuple[tuple[Span, ...], ...]:
    """Some lines with the functions and classes that they name; each further item adds the next level."""
    return tuple(reached for reached, _ in _reached(source, spans))[1:]


def _reached(source: Source, spans: Iterable[Span]) -> Iterator[tuple[tuple[Span, ...], set[str]]]:
    """Some lines and the names in them, then the same with the definitions that these name, level by level."""
    if source.tree is None:
        return
    names = [each for node in ast.walk(source.tree) for each in _names(node)]
    seen: set[Span] = set()
    pending = set(spans)
    for _ in range(_MAX_LEVELS):
        new = pending - seen
        if not new:
            return
        seen |= new
        lines = {line for first, last in new for line in range(first, last + 1)}
        occurring = {name for line, name in names if line in lines}
        yield tuple(sorted(seen)), occurring
        classes = {it.name for first, _ in new for it in source.enclosing(first) if it.is_class}
        referenced = {name.partition(".")[0] for name in occurring}
        referenced |= {f"{owner}.{name.split('.')[1]}" for owner in classes for name in occurring if _OWN.match(name)}
        pending |= {it.span for it in source.definitions if it.name in referenced}


class Modules:
    """Maps modules to files of a workspace, wherever their packages are."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._files = {path for path in paths if path.endswith(".py") and not is_external(path)}
        self._by_last_part: dict[str, list[str]] = {}
        for path in sorted(self._files):
            self._by_last_part.setdefault(_last_part(path), []).append(path)

    def imported(self, source: Source, spans: Iterable[Span] = ()) -> tuple[Imported, ...]:
        """The files that ``source`` imports, each once; ``spans`` are its relevant lines."""
        used = uses(source, spans)
        result: dict[str, Imported] = {}
        for each in imports_of(source):
            path, name = self.resolve(each, source.path)
            if path is None or path == source.path:
                continue
            symbols = _symbols(each, name, used)
            before = result.get(path, Imported(path=path, symbols=(), used=False))
            result[path] = Imported(
                path=path,
                symbols=tuple(dict.fromkeys((*before.symbols, *symbols))),
                used=before.used or _is_used(each, used),
            )
        return tuple(result.values())

    def resolve(self, import_: Import, importer: str) -> tuple[str | None, str]:
        """The file that an import loads (``None`` if not in the workspace), and the name that it takes from it.

        ``from a import b`` loads ``a/b.py`` if that is a module, and ``a/__init__.py`` if ``b`` is a name.
        """
        parts = [part for part in import_.module.split(".") if part]
        if import_.name not in ("", "*"):
            path = self._file([*parts, import_.name], import_.level, importer)
            if path is not None:
                return path, ""
        return self._file(parts, import_.level, importer), import_.name

    def _file(self, parts: list[str], level: int, importer: str) -> str | None:
        if level:
            return self._relative(parts, level, importer)
        if not parts:
            return None
        candidates = self._by_last_part.get(parts[-1], [])
        tails = ("/".join(parts) + ".py", "/".join(parts) + "/__init__.py")
        matches = [(path, path.removesuffix(tail)) for tail in tails for path in candidates if path.endswith(tail)]
        # Likely entries of sys.path, in this order; then any other directory, except for standard library modules.
        likely = [self._root_of(importer), "".join(importer.rpartition("/")[:2]), "", "src/"]
        possible = [
            (likely.index(root) if root in likely else len(likely), root.count("/"), path.endswith(tails[0]), path)
            for path, root in matches
            if root in likely or (self._may_be_root(root) and parts[0] not in sys.stdlib_module_names)
        ]
        return min(possible)[-1] if possible else None

    def _may_be_root(self, root: str) -> bool:
        return root.endswith("/") and f"{root}__init__.py" not in self._files

    def _relative(self, parts: list[str], level: int, importer: str) -> str | None:
        directories = importer.split("/")[:-1]
        if level - 1 > len(directories):
            return None
        base = "/".join([*directories[: len(directories) - level + 1], *parts])
        package = f"{base}/__init__.py" if base else "__init__.py"
        candidates = [package, f"{base}.py"] if parts else [package]
        return next((path for path in candidates if path in self._files), None)

    def _root_of(self, importer: str) -> str:
        """The directory above the outermost package of a file, with a trailing slash."""
        directories = importer.split("/")[:-1]
        while directories and f"{'/'.join(directories)}/__init__.py" in self._files:
            directories.pop()
        return "".join(f"{directory}/" for directory in directories)


def _last_part(path: str) -> str:
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
    """Names and dotted names, with their lines, including parameters, which can be fixtures."""
    if isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, (ast.Name, ast.Attribute)):
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute) and len(parts) < _MAX_PARTS:
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield node.lineno, ".".join([inner.id, *reversed(parts)])


def _is_used(import_: Import, used: frozenset[str]) -> bool:
    return import_.bound == "*" or any(f"{name}.".startswith(f"{import_.bound}.") for name in used)


def _symbols(import_: Import, name: str, used: frozenset[str]) -> Iterator[str]:
    """The names used from a file: the imported name, or the attributes of the module that occur."""
    if name == "*":
        yield from sorted(name for name in used if "." not in name)
    elif name:
        yield name
    else:
        after = (use.removeprefix(f"{import_.bound}.") for use in used if use.startswith(f"{import_.bound}."))
        yield from sorted({rest.partition(".")[0] for rest in after})
