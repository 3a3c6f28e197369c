"""The tool ``outline``: results for valid files, and robustness against others."""

from collections.abc import Iterator

import pytest

from agentbench_core import ToolCall, ToolResult
from agentbench_outline.options import OutlineOptions
from agentbench_outline.outlining import NotPythonError, outlined
from agentbench_outline.tool import Outline
from agentbench_testing import Workbench, make_context, open_workbench

CART = '''\
"""A module."""

import os.path, json
from shop.money import total, VAT as tax
from . import names
from ..shelf.rows import Row

LIMIT = 3


class Cart:
    """
    Prices in cents.

    More of it.
    """

    @property
    def sum(self):
        """Of all prices."""
        def inner(): ...
        return total(self)

    class Row:
        async def weigh(self): ...


if LIMIT:
    from shop import fast
    def pay(): "Pays."
'''


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


def outline(workbench: Workbench, content: str | bytes, **options: int) -> ToolResult:
    tool = Outline(OutlineOptions(**options))
    with workbench.context([], files={"file.py": content}, failing_command="false", tools=[tool]) as attempt:
        return attempt.context.tools.call(ToolCall(tool="outline", arguments={"path": "file.py"}))


def test_classes_functions_lines_docstrings_and_imports(workbench: Workbench) -> None:
    """Definitions inside functions are not listed; a decorator is the first line of its definition."""
    result = outline(workbench, CART)
    assert result.ok
    assert result.fields == {
        "definitions": [
            "11-25: class Cart - Prices in cents.",
            "18-22: def Cart.sum - Of all prices.",
            "24-25: class Cart.Row",
            "25: def Cart.Row.weigh",
            "30: def pay - Pays.",
        ],
        "omitted": 0,
        "imports": [
            *("os.path", "json", "shop.money.total", "shop.money.VAT", ".names", "..shelf.rows.Row", "shop.fast"),
        ],
    }


def test_omitted_definitions_are_counted(workbench: Workbench) -> None:
    result = outline(workbench, CART, max_definitions=2)
    assert (len(result.fields["definitions"]), result.fields["omitted"]) == (2, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def f(:\n    pass\n", "line 1: "),
        ("x = 1\n\n   y = 2\n", "line 3: unexpected indent"),
        (b"\x7fELF\x00\x01\x02", "cannot be parsed"),
        (b"\xff\xfe" + "def f(): pass\n".encode("utf-16-le"), "cannot be parsed"),
        ("(" * 100_000, "cannot be parsed"),
        ("x = " + "-" * 200_000 + "1\n", "cannot be parsed"),
        ("x = " + "a." * 100_000 + "a\n", "cannot be parsed"),
        ("".join(f"{' ' * depth}class C{depth}:\n" for depth in range(200)), "cannot be parsed"),
    ],
    ids=["syntax", "indentation", "binary", "utf-16", "brackets", "signs", "dots", "classes"],
)
def test_files_that_are_not_python_are_refused(workbench: Workbench, content: str | bytes, message: str) -> None:
    result = outline(workbench, content)
    assert (result.ok, result.error_type) == (False, "not_python"), result
    assert message in result.error_message
    assert len(result.error_message) < 400


def test_a_long_file_is_refused_before_it_is_parsed(workbench: Workbench) -> None:
    assert outline(workbench, "x = 1\n" * 20, max_bytes=120).ok
    result = outline(workbench, "x = 1\n" * 20 + "#", max_bytes=120)
    assert (result.error_type, "120 bytes" in result.error_message) == ("too_large", True)


def test_encodings(workbench: Workbench) -> None:
    """A byte order mark, a declared codec that is unknown or slow, and a docstring in Latin-1."""
    assert outline(workbench, b"\xef\xbb\xbfdef f(): pass\n").fields["definitions"] == ["1: def f"]
    assert outline(workbench, "# coding: idna\ndef f(): pass\n").fields["definitions"] == ["2: def f"]
    latin = '# coding: latin-1\ndef f():\n    """Größe."""\n'.encode("latin-1")
    assert outline(workbench, latin).fields["definitions"] == ["2-3: def f - Gr\ufffd\ufffde."]
    assert outline(workbench, "def größe(): pass\n").fields["definitions"] == ["1: def größe"]
    assert outline(workbench, "").fields["definitions"] == []


def test_names_and_docstrings_are_truncated() -> None:
    outline_ = outlined(f"class {'C' * 5000}:\n    def f(self): '''\n\n{'d' * 5000}\nmore'''\n")
    assert all(len(str(each)) < 300 for each in outline_.definitions)
    assert outline_.definitions[1].doc == "d" * 120


def test_invalid_escapes_cause_no_warning() -> None:
    """Warnings are errors in these tests."""
    assert [each.name for each in outlined("def f(): return '\\d'\n").definitions] == ["f"]
    with pytest.raises(NotPythonError, match="line 1"):
        outlined("?")


def test_the_file_of_the_readme() -> None:
    with make_context([], tools=[Outline(OutlineOptions())]) as attempt:
        result = attempt.context.tools.call(ToolCall(tool="outline", arguments={"path": "adding.py"}))
    assert result.fields["definitions"] == ["1-3: def add - The sum of two numbers."]
