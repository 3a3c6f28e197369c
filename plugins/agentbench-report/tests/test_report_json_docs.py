"""``docs/report-json.md`` lists exactly the fields of the JSON reports, with their types."""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

from agentbench_report.comparison.compare_report import CompareReport
from agentbench_report.comparison.paired_report import PairedReport
from agentbench_report.summary import RunSummary

PAGE = (Path(__file__).parents[3] / "docs" / "report-json.md").read_text(encoding="utf-8")


def reached(hint: object) -> Iterator[type]:
    """Yield every attrs class in a type, recursively."""
    if isinstance(hint, type) and attrs.has(hint):
        yield hint
        for inner in typing.get_type_hints(hint).values():
            yield from reached(inner)
    for argument in typing.get_args(hint):
        yield from reached(argument)


def words(hint: typing.Any) -> str:
    """Return a type as written on the page."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if one is type(None) else words(one) for one in arguments)
    if origin is tuple:
        return f"list of {words(arguments[0])}"
    if origin is Mapping:
        return f"object of {words(arguments[1])}"
    if origin is typing.Literal or hint is str or (isinstance(hint, type) and issubclass(hint, enum.StrEnum)):
        return "string"
    if attrs.has(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return {bool: "true or false", int: "integer", float: "number"}[hint]


def rows(heading: str) -> list[tuple[str, str]]:
    """Return (field, type) for each row of the table below a heading."""
    section = PAGE.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    return re.findall(r"^\| `(\w+)` \| (.+?) \| .*\|$", section, re.MULTILINE)


CLASSES = {cls.__name__: cls for report in (RunSummary, PairedReport, CompareReport) for cls in reached(report)}


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_is_documented(name: str) -> None:
    hints = typing.get_type_hints(CLASSES[name])
    assert rows(name) == [(field.name, words(hints[field.name])) for field in attrs.fields(CLASSES[name])]


@pytest.mark.parametrize("report", ["report summary", "report paired", "report compare"])
def test_no_other_value_is_documented(report: str) -> None:
    section = PAGE.partition(f"\n## {report}\n")[2].partition("\n## ")[0]
    documented = re.findall(r"^### (\w+)$", section, re.MULTILINE)
    assert documented
    assert set(documented) <= set(CLASSES)
