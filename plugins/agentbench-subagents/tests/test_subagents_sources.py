"""Files that were read in full or in part: lines, syntax trees, definitions."""

import threading
import warnings

import pytest
from hypothesis import given, strategies as st

from agentbench_subagents.sources import Source, lines_of, parsed

SHOP = '''\
"""A shop."""
import os
from decimal import (
    Decimal,
)


class Cart(Base):
    """Holds lines."""

    size = 3

    @property
    @cached
    def mean(self):
        def inner():
            return 1
        return inner()

    class Line:
        async def price(self):
            return 0


if os.name == "posix":
    def total(): return 0
else:
    try:
        pass
    except ValueError:
        def total():
            return 1
'''


def test_definitions_with_decorators_methods_and_branches() -> None:
    """Definitions inside a function are not listed."""
    source = Source.of("shop.py", SHOP)
    assert [(it.name, it.span, it.head, it.is_class) for it in source.definitions] == [
        ("Cart", (8, 22), (8, 8), True),
        ("Cart.mean", (13, 18), (13, 15), False),
        ("Cart.Line", (20, 22), (20, 20), True),
        ("Cart.Line.price", (21, 22), (21, 21), False),
        ("total", (26, 26), (26, 26), False),
        ("total", (31, 32), (31, 31), False),
    ]
    assert source.import_spans == ((2, 2), (3, 5))


def test_definitions_by_line_and_by_symbol() -> None:
    source = Source.of("shop.py", SHOP)
    assert [it.name for it in source.enclosing(17)] == ["Cart", "Cart.mean"]
    assert source.enclosing(6) == ()
    assert [it.name for it in source.named("price")] == ["Cart.Line.price"]
    assert [it.name for it in source.named("Line.price")] == ["Cart.Line.price"]
    assert [it.span for it in source.named("total")] == [(26, 26), (31, 32)]
    assert source.named("ice") == source.named("") == ()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb\rc\n\n", ["a", "b", "c", ""]),
        ("a\fb\x0bc\u2028d\n", ["a\fb\x0bc\u2028d"]),
    ],
)
def test_lines_are_split_like_python_does(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


def test_a_truncated_file_has_the_tree_of_its_complete_statements() -> None:
    """The last statement may be incomplete."""
    text = 'import a\n\ndef f():\n    return """\nx = 1\n'
    source = Source.of("f.py", text, of_lines=900)
    assert not source.whole
    assert source.total == 900
    assert [it.name for it in source.definitions] == []
    assert source.import_spans == ((1, 1),)

    source = Source.of("f.py", "def f():\n    return 1\n\ndef g():\n    return (1,\n", of_lines=9)
    assert [it.name for it in source.definitions] == ["f"]


def test_more_lines_of_a_truncated_file() -> None:
    """They are added, and the tree stays that of the beginning."""
    source = Source.of("f.py", "def f():\n    pass\ndef g(", of_lines=50).with_lines(48, "a\nb\nc\n")
    assert sorted(source.lines) == [1, 2, 48, 49, 50]
    assert source.lines[50] == "c"
    assert [it.name for it in source.definitions] == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(:",
        "\0",
        "(" * 100_000,
        "-" * 100_000 + "1",
        "+".join("a" * 30_000),
        "a" + ".b" * 20_000,
        "\ud800 = 1",
        "x\n" * 600_000,
    ],
    ids=["wrong", "null", "open", "signs", "sum", "attributes", "surrogate", "too long"],
)
def test_texts_without_a_syntax_tree(text: str) -> None:
    """Neither an error nor a crash, in a thread as agents use one."""
    results: list[object] = ["nothing"]

    def look() -> None:
        source = Source.of("f.py", text)
        results[0] = (source.tree, source.definitions, source.import_spans)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert results == [(None, (), ())]


def test_byte_order_marks_and_invalid_escapes_are_parsed_without_warnings() -> None:
    """Warnings about the parsed file are not shown, and do not fail if warnings are errors."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert parsed("\ufeffx = '\\d'\n") is not None
    assert warned == []


@given(st.text(st.sampled_from("ab \n\r\t():,.*='\"#\\\f\ud800classdefimportif"), max_size=200), st.integers(0, 50))
def test_any_text_is_accepted(text: str, total: int) -> None:
    for source in (Source.of("f.py", text), Source.of("f.py", text, of_lines=total).with_lines(3, text)):
        assert all(1 <= number <= source.total for number in source.lines)
        for definition in source.definitions:
            assert 1 <= definition.span[0] <= definition.head[1] <= definition.span[1] <= source.total


@pytest.mark.parametrize(
    ("text", "only_reexports"),
    [
        (
            '"""A shop."""\nfrom .cart import Cart\n\n__all__ = ["Cart"]\n__all__ += ["x"]\n__version__: str = "1"\n',
            True,
        ),
        ("from .cart import *\n", True),
        ("from .cart import Cart\n\nCart.size = 1\n", False),
        ("from .cart import Cart\n\nsize = 1\n", False),
        ("from .cart import Cart\n\ndef f(): ...\n", False),
        ('"""Nothing."""\n', False),
        ("from .cart import (\n", False),
    ],
)
def test_a_package_that_only_re_exports(text: str, only_reexports: bool) -> None:
    assert Source.of("a/__init__.py", text).only_reexports is only_reexports
