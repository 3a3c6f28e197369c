"""The API reference shows every public name exactly once, and describes everything that it shows."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import pytest
import yaml

ROOT = Path(__file__).parents[2]
INTERFACES = {
    "agentbench_core": ROOT / "agentbench_core/__init__.pyi",
    "agentbench_core.harness": ROOT / "agentbench_core/harness.pyi",
    "agentbench_testing": ROOT / "plugins/agentbench-testing/src/agentbench_testing/__init__.pyi",
}
OPAQUE = {
    *("CommitWriter", "DiskGuard", "OpenModel", "PreparedTasks", "Snapshot"),  # opaque values of a session
    *("MeteredToolbox", "Plugins", "RunDirectory"),  # used through `Toolbox`, `Registry` and `RunView`
    *("ScorerStage", "Hooks", "RemoteStage", "Serving", "Stage"),  # internals of the conformance checks
}
"""Classes of fields and results that the reference does not show."""
_DIRECTIVE = re.compile(r"^::: (\S+)\n((?: {4}.*\n)*)", re.MULTILINE)


def public_names() -> Iterator[str]:
    """Import paths of all public names."""
    for module, stub in INTERFACES.items():
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                yield from (f"{module}.{name.asname}" for name in node.names)


def shown_names() -> Iterator[str]:
    """Paths of all names on the pages."""
    for page in sorted(ROOT.glob("docs/api/*.md")):
        for path, settings in _DIRECTIVE.findall(f"{page.read_text(encoding='utf-8')}\n"):
            members = (yaml.safe_load(settings) or {}).get("options", {}).get("members")
            yield from [path] if members is None else [f"{path}.{name}" for name in members]


def load(*packages: str, paths: list[Path]) -> griffe.ModulesCollection:
    """Load packages as mkdocstrings does."""
    extensions = griffe.load_extensions(str(ROOT / "docs/griffe_reference.py"))
    loader = griffe.GriffeLoader(extensions=extensions, search_paths=paths, docstring_parser=griffe.Parser.google)
    for package in packages:
        loader.load(package)
    return loader.modules_collection


@pytest.fixture(scope="module")
def modules() -> griffe.ModulesCollection:
    return load("agentbench_core", "agentbench_testing", paths=[ROOT, ROOT / "plugins/agentbench-testing/src"])


def undescribed(item: Any) -> Iterator[str]:
    """Yield what a page shows of a name without a description: the name, table rows, members."""
    sections = item.docstring.parsed if item.docstring else []
    tables = [section.value for section in sections if section.kind.value in ("parameters", "attributes", "functions")]
    rows = {row.name: row.description for table in tables for row in table}
    yield from (f"{item.path}.{name}" for name, description in rows.items() if not description)
    if not item.docstring:
        yield item.path
    for name, member in item.members.items() if item.is_class else ():
        if name not in rows and (name == "__call__" or not name.startswith("_")):
            yield from undescribed(member)


def classes_of(item: Any, modules: griffe.ModulesCollection) -> Iterator[str]:
    """Classes of this project in the types of a name's fields and results."""
    for member in item.members.values() if item.is_class else [item]:
        hint = member.annotation if member.is_attribute else member.returns if member.is_function else None
        if isinstance(hint, griffe.Expr) and not member.is_private:
            paths = {each.canonical_path for each in hint.iterate() if isinstance(each, griffe.ExprName)}
            found = [modules[path] for path in paths if path.startswith("agentbench_")]
            yield from (each.canonical_path for each in found if each.is_class)


def test_every_public_name_is_on_one_page() -> None:
    """No other name is shown with a public import path."""
    shown = Counter(shown_names())
    assert [name for name, number in shown.items() if number > 1] == []
    assert {name for name in shown if name.rpartition(".")[0] in INTERFACES} == set(public_names())


def test_everything_is_described(modules: griffe.ModulesCollection) -> None:
    assert sorted({missing for name in shown_names() for missing in undescribed(modules[name])}) == []


def test_the_classes_of_fields_are_shown(modules: griffe.ModulesCollection) -> None:
    """Readers can look up the types of all fields and results."""
    items = [modules[name] for name in shown_names()]
    shown = {item.canonical_path for item in items}
    used = {path for item in items for path in classes_of(item, modules)}
    assert {path.rpartition(".")[2] for path in used - shown} == OPAQUE


def test_a_missing_description_is_found(tmp_path: Path) -> None:
    """Of a class, fields with and without a default, a method, an attribute, an enum member and a function."""
    (tmp_path / "sample.py").write_text(
        '''
import enum
import attrs
from agentbench_core import option

@attrs.frozen
class Value:
    """A value."""
    bare: int
    default: int = attrs.field(default=1)
    commented: int  #: in seconds
    literal: int
    """In seconds."""
    optional: int = option(1, help="in seconds")
    def bare_method(self): ...
    def method(self):
        """A method."""

class Plain:
    def __init__(self):
        self.bare = 1
        self.commented = 2  #: a number

class Word(enum.StrEnum):
    """A word."""
    BARE = "bare"
    COMMENTED = "commented"  #: a word

def function(): ...
'''
    )
    members = load("sample", paths=[tmp_path])["sample"].members
    missing = {name for member in members.values() if not member.is_alias for name in undescribed(member)}
    assert missing == {
        "sample.Value.bare",
        "sample.Value.default",
        "sample.Value.bare_method",
        "sample.Plain",
        "sample.Plain.bare",
        "sample.Word.BARE",
        "sample.function",
    }
