"""Imports by syntax tree, resolved against the files of a workspace."""

import keyword

import pytest
from hypothesis import given, strategies as st

from agentbench_subagents.imports import Import, Imported, Modules, callees, imports_of, uses
from agentbench_subagents.sources import Source

FILES = (
    "app/__init__.py",
    "app/core.py",
    "app/deep/__init__.py",
    "app/deep/leaf.py",
    "app/helpers.py",
    "other/json.py",
    "other/src/tool/__init__.py",
    "other/src/tool/cart.py",
    "scripts/helpers.py",
    "scripts/run.py",
    "space/inner/leaf.py",
    "src/shop/__init__.py",
    "src/shop/cart.py",
    "src/shop/cart/__init__.py",
    "src/shop/money.py",
    "tests/conftest.py",
    "tests/helpers.py",
    "tests/test_cart.py",
)


def resolved(statement: str, importer: str) -> list[tuple[str | None, str]]:
    modules = Modules(FILES)
    return [modules.resolve(each, importer) for each in imports_of(Source.of(importer, statement))]


@pytest.mark.parametrize(
    ("statement", "importer", "path", "name"),
    [
        ("import shop.money", "tests/test_cart.py", "src/shop/money.py", ""),
        ("import shop", "tests/test_cart.py", "src/shop/__init__.py", ""),
        ("from shop import money", "tests/test_cart.py", "src/shop/money.py", ""),
        ("from shop import Cart", "tests/test_cart.py", "src/shop/__init__.py", "Cart"),
        ("from shop.money import Money", "tests/test_cart.py", "src/shop/money.py", "Money"),
        ("from shop import *", "tests/test_cart.py", "src/shop/__init__.py", "*"),
        # a package is preferred to a module of its name, as Python does
        ("import shop.cart", "tests/test_cart.py", "src/shop/cart/__init__.py", ""),
        # relative ones, from modules and from packages
        ("from . import core", "app/helpers.py", "app/core.py", ""),
        ("from . import core", "app/__init__.py", "app/core.py", ""),
        ("from .core import f", "app/__init__.py", "app/core.py", "f"),
        ("from .. import core", "app/deep/leaf.py", "app/core.py", ""),
        ("from ..core import f", "app/deep/leaf.py", "app/core.py", "f"),
        ("from . import missing", "app/deep/leaf.py", "app/deep/__init__.py", "missing"),
        ("from .deep.leaf import f", "app/core.py", "app/deep/leaf.py", "f"),
        ("from .... import x", "app/deep/leaf.py", None, "x"),
        ("from .nowhere import x", "app/core.py", None, "x"),
        # a script's own directory comes first, and the one above a test's package
        ("import helpers", "scripts/run.py", "scripts/helpers.py", ""),
        ("import helpers", "tests/test_cart.py", "tests/helpers.py", ""),
        # but a module inside of a package is not importable by its bare name, unless from beside it
        ("import leaf", "tests/test_cart.py", "space/inner/leaf.py", ""),
        ("import core", "tests/test_cart.py", None, ""),
        ("import core", "app/helpers.py", "app/core.py", ""),
        # packages without __init__, and projects below the root
        ("from space.inner import leaf", "app/core.py", "space/inner/leaf.py", ""),
        ("from space import inner", "app/core.py", None, "inner"),
        ("from tool.cart import Cart", "tests/test_cart.py", "other/src/tool/cart.py", "Cart"),
        # not of the workspace, although another directory has a file of that name
        ("import json", "app/core.py", None, ""),
        ("import os.path", "app/core.py", None, ""),
        ("from json import loads", "app/core.py", None, "loads"),
    ],
)
def test_resolve(statement: str, importer: str, path: str | None, name: str) -> None:
    assert resolved(statement, importer) == [(path, name)]


def test_every_form_of_import_in_every_position() -> None:
    text = """
        import a, b.c as d
        if TYPE_CHECKING:
            from .e import (f as g,
                            h)
        def late():
            from .. import i
            import j.k
        try:
            from l import *
        except ImportError:
            pass
    """
    source = Source.of("x.py", "\n".join(line[8:] for line in text.splitlines()))
    assert [(it.module, it.level, it.name, it.bound) for it in imports_of(source)] == [
        ("a", 0, "", "a"),
        ("b.c", 0, "", "d"),
        ("e", 1, "f", "g"),
        ("e", 1, "h", "h"),
        ("", 2, "i", "i"),
        ("j.k", 0, "", "j.k"),
        ("l", 0, "*", "*"),
    ]


def test_names_that_lines_use_follow_fixtures_and_helpers() -> None:
    """The names in a test, in the helpers that it calls, and in the fixtures that it requests."""
    text = """\
import shop.money

@pytest.fixture
def cart():
    return Cart()

def checked(value):
    return shop.money.rounded(value)

def unused():
    return Nothing()

def test_sum(cart):
    assert checked(cart.lines[0].price) == 3
"""
    result = uses(Source.of("tests/test_x.py", text), [(13, 14)])
    assert {"Cart", "checked", "shop.money.rounded", "cart"} <= result
    assert "Nothing" not in result


def test_functions_that_lines_call_in_the_same_file() -> None:
    """Level by level, also methods of the enclosing class; cycles end."""
    text = """\
def a():
    return b()
def b():
    return a()
class Cart:
    def mean(self):
        return self.total() / other.total()
    def total(self):
        return a()
class Other:
    def total(self): ...
"""
    source = Source.of("a.py", text)
    assert callees(source, [(6, 7)]) == (
        ((6, 7), (8, 9)),
        ((1, 2), (6, 7), (8, 9)),
        ((1, 2), (3, 4), (6, 7), (8, 9)),
    )
    assert callees(source, []) == callees(Source.of("a.py", "def f(:"), [(1, 1)]) == ()


def test_imported_files_with_the_names_used() -> None:
    text = """\
import shop.money
from shop import Cart, Line
from . import helpers
import app

def test_a():
    assert Cart().total == shop.money.rounded(1)
"""
    source = Source.of("tests/test_cart.py", text)
    assert Modules(FILES).imported(source, [(6, 7)]) == (
        Imported(path="src/shop/money.py", symbols=("rounded",), used=True),
        Imported(path="src/shop/__init__.py", symbols=("Cart", "Line"), used=True),
        Imported(path="tests/helpers.py", symbols=(), used=False),
        Imported(path="app/__init__.py", symbols=(), used=False),
    )


def test_cycles_and_self_imports_end() -> None:
    files = ("a.py", "b.py")
    for path, text in (("a.py", "import a, b"), ("b.py", "from a import b; import b")):
        result = Modules(files).imported(Source.of(path, text))
        assert [each.path for each in result] == [name for name in files if name != path]


def test_installed_packages_in_the_workspace_are_ignored() -> None:
    modules = Modules([".venv/lib/python3.11/site-packages/shop/cart.py"])
    assert modules.imported(Source.of("x.py", "import shop.cart")) == ()


_name = st.sampled_from(["a", "b", "pkg", "src", "__init__"])
_path = st.lists(_name, min_size=1, max_size=4).map(lambda parts: "/".join(parts) + ".py")
_dotted = st.lists(_name, min_size=0, max_size=3).map(".".join)


@given(
    st.lists(_path, max_size=8),
    _path,
    st.builds(Import, module=_dotted, level=st.integers(0, 6), name=st.sampled_from(["", "*", "a", "b"]), bound=_name),
)
def test_only_files_of_the_workspace_are_imported(files: list[str], importer: str, what: Import) -> None:
    path, _ = Modules(files).resolve(what, importer)
    assert path is None or path in files


@given(
    st.lists(
        st.one_of(
            st.builds("import {}".format, _dotted.filter(bool)),
            st.builds("from {}{} import {}".format, st.sampled_from(["", ".", ".."]), _dotted.filter(bool), _name),
            st.text(max_size=30).filter(lambda text: not keyword.iskeyword(text)),
        ),
        max_size=6,
    ).map("\n".join)
)
def test_any_text_can_be_parsed_for_imports(text: str) -> None:
    source = Source.of("pkg/a.py", text)
    for each in Modules(["a.py", "pkg/a.py", "pkg/b.py", "src/pkg/__init__.py"]).imported(source, [(1, 9)]):
        assert each.path != source.path
