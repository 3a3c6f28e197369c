"""The tool ``locate_failures``, on a workspace that only has file names."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_core import Deadline, InputError, ToolContext, ToolResult
from agentbench_subagents.locate import LocateFailures

OUTPUT = """\
tests/test_cart.py:10: in test_mean
    assert Cart().mean() == 0
/ws/src/shop/cart.py:7: in mean
    return total([])
/ws/src/shop/cart.py:2: in total
    return sum(prices) / len(prices)
E   ZeroDivisionError: division by zero
/usr/lib/python3.11/json/decoder.py:5: in decode
    x
/ws/gone.py:3: in f
    y
E   KeyError
FAILED tests/test_cart.py::test_mean - ZeroDivisionError
"""
FILES = ("decoder.py", "docs/cart.py.txt", "src/shop/__init__.py", "src/shop/cart.py", "tests/test_cart.py")


class Names:
    """A workspace that only has file names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def files(self, root: str = "") -> Iterator[str]:
        return iter(name for name in self.names if name.startswith(root))


def call(output: str, *names: str, **more: Any) -> ToolResult:
    context: Any = ToolContext(
        workspace=Names(*names),  # type: ignore[arg-type]
        sandbox=None,  # type: ignore[arg-type]
        deadline=Deadline(10),
        editable=lambda path: True,
        save_diff=lambda diff, files: None,
    )
    return LocateFailures().call({"output": output, **more}, context)


def test_files_of_the_workspace_ranked_with_lines_symbols_and_why() -> None:
    result = call(OUTPUT, *FILES)
    assert result.ok
    assert result.fields == {
        "files": [
            {
                "path": "src/shop/cart.py",
                "lines": [2, 7],
                "symbols": ["total", "mean"],
                "why": "an exception was raised here; called on the way to the exception",
            },
            {
                "path": "tests/test_cart.py",
                "lines": [10],
                "symbols": ["test_mean"],
                "why": "called on the way to the exception; holds a failing test (a test)",
            },
        ],
        "left_out": 0,
        "not_in_workspace": ["/ws/gone.py"],
    }


def test_max_results() -> None:
    fields = call(OUTPUT, *FILES, max_results=1).fields
    assert [entry["path"] for entry in fields["files"]] == ["src/shop/cart.py"]
    assert fields["left_out"] == 1


@pytest.mark.parametrize(
    ("named", "files", "expected"),
    [
        ("/ws/a.py", ["a.py"], ["a.py"]),
        ("./a.py", ["a.py"], ["a.py"]),
        ("/ws/src/a.py", ["a.py", "src/a.py"], ["src/a.py"]),
        ("a.py", ["x/a.py"], ["x/a.py"]),
        ("a.py", ["x/a.py", "y/a.py"], []),
        ("a.py", ["a.py", "y/a.py"], ["a.py"]),
        ("x/a.py", ["y/a.py"], []),
        ("pkg.py", ["pkg/__init__.py"], ["pkg/__init__.py"]),
        ("a.py", ["a.pyc", "b.py"], []),
    ],
)
def test_how_printed_paths_match_files(named: str, files: list[str], expected: list[str]) -> None:
    entries = call(f"{named}:1: ValueError", *files).fields["files"]
    assert [entry["path"] for entry in entries] == expected


def test_no_failures_no_files() -> None:
    assert call("3 passed", *FILES).fields == {"files": [], "left_out": 0, "not_in_workspace": []}


@pytest.mark.parametrize("arguments", [{}, {"output": 3}, {"output": "", "max_results": 0}, {"output": "", "x": 1}])
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="locate_failures"):
        LocateFailures().call(arguments, None)  # type: ignore[arg-type]


def test_the_spec_describes_the_arguments() -> None:
    parameters = LocateFailures().spec.parameters
    assert parameters["required"] == ["output"]
    assert sorted(parameters["properties"]) == ["max_results", "output"]


_part = st.sampled_from(["a", "b", "src", ".", "", "..", "__init__"])
_path = st.lists(_part, min_size=1, max_size=4).map(lambda parts: "/".join(parts) + ".py")


@given(st.lists(_path, max_size=5), st.lists(_path, max_size=5, unique=True))
def test_only_files_of_the_workspace_are_returned(named: list[str], files: list[str]) -> None:
    entries = call("\n".join(f"{path}:1: ValueError" for path in named), *files).fields["files"]
    assert {entry["path"] for entry in entries} <= set(files)
