"""Each check of tools fails on a tool that is broken in that respect."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as some

from agentbench_testing import ToolConformance, Workbench, open_workbench
from agentbench_testing.checks.schemas import fits, invalid_values

BROKEN: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("broken_tools.py")))
DOUBLES = BROKEN["DOUBLES"]
CHECKS = sorted(name for name in dir(ToolConformance) if name.startswith("test_"))

TestPeek = BROKEN["on"](BROKEN["Peek"], ToolConformance.patience)
"""The tools that the doubles derive from pass all checks."""
TestPut = BROKEN["on"](BROKEN["Put"], ToolConformance.patience)
TestShell = BROKEN["on"](BROKEN["Shell"], ToolConformance.patience)


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


@pytest.mark.parametrize(("check", "double"), [*((check, DOUBLES.get(check)) for check in CHECKS), *BROKEN["MORE"]])
def test_each_check_fails_on_its_double(check: str, double: type | None, workbench: Workbench) -> None:
    """The failure is an assertion of the check."""
    assert double is not None, f"no double for {check}"
    method = getattr(BROKEN["on"](double)(), check)
    with pytest.raises(AssertionError):
        method(*([workbench] if "workbench" in inspect.signature(method).parameters else []))


def test_every_double_has_a_check() -> None:
    """No double remains of a check that was renamed or removed."""
    assert sorted(DOUBLES) == CHECKS


def test_no_check_replaces_another_of_the_same_name() -> None:
    """A second check of the same name would silently replace the first."""
    written = [name for kind in ToolConformance.__mro__ for name in vars(kind) if name.startswith("test_")]
    assert sorted(written) == CHECKS


def test_every_check_has_a_docstring() -> None:
    """Plugin authors read these docstrings."""
    assert [check for check in CHECKS if not getattr(ToolConformance, check).__doc__] == []


def test_missing_hooks_are_named() -> None:
    """The error names the required hook."""
    with pytest.raises(NotImplementedError, match="ToolConformance must define how its tool is created"):
        ToolConformance.make_tool()
    with pytest.raises(NotImplementedError, match="ToolConformance must define arguments"):
        ToolConformance.good_arguments()


SCHEMA = {
    "type": "object",
    "properties": {
        "word": {"type": "string", "pattern": "^[a-z]+$"},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 1, "maximum": 9},
        "kind": {"enum": ["a", "b"]},
        "list": {"type": "array", "items": {"type": "number"}},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["word"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ({"word": "x"}, True),
        ({"word": "x", "count": None, "kind": "b", "list": [1, 2.5], "map": {"x": True}}, True),
        ({"word": "x", "count": 9}, True),
        *(({"word": word}, False) for word in ("", "X", 3, None)),
        *(({"word": "x", "count": count}, False) for count in (0, 10, True, 1.5, "1")),
        *(({"word": "x", **more}, False) for more in ({"kind": "c"}, {"list": ["1"]}, {"map": {"x": 1}}, {"no": 1})),
        ({}, False),
        ([], False),
    ],
)
def test_values_that_fit_a_schema(value: Any, good: bool) -> None:
    """As in JSON Schema; booleans are not numbers."""
    assert fits(value, SCHEMA) == good


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(JSON)
def test_an_empty_schema_takes_everything(value: Any) -> None:
    """Nothing violates an empty schema."""
    assert fits(value, {})
    assert list(invalid_values({})) == []
