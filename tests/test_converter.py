"""The converter is strict: it coerces nothing, and errors name the field."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Literal

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import FailureReason, InputError, dump, load, option
from agentbench_core.plugin.discovery import discover
from agentbench_core.values.events import EVENT_CLASSES
from agentbench_core.values.record import AttemptRecord, RunManifest
from agentbench_core.values.task import TaskSpec


@attrs.frozen(kw_only=True)
class Inner:
    count: int = option(1, help="how many", minimum=0)
    tags: tuple[str, ...] = option((), help="words")


@attrs.frozen(kw_only=True)
class Outer:
    name: str = option(help="name", pattern="[a-z]+")
    inner: Inner = option(Inner(), help="inner")
    many: tuple[Inner, ...] = option((), help="many")
    named: Mapping[str, Inner] = option({}, help="named")
    ratio: float | None = option(None, help="ratio")
    choice: Literal["left", "right"] = option("left", help="choice")
    reason: FailureReason | None = option(None, help="reason")


def problems(data: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(data, Outer, where="f.yaml")
    return caught.value.message.splitlines()


def test_plain_data_becomes_a_value_and_back() -> None:
    """Nested values, lists and mappings survive a round trip; integers may stand for floats."""
    plain = {"name": "x", "ratio": 3, "many": [{"tags": ["a"]}], "named": {"k": {}}, "reason": "TIMEOUT"}
    value = load(plain, Outer, where="f")
    many, named = (Inner(tags=("a",)),), {"k": Inner()}
    assert value == Outer(name="x", ratio=3.0, many=many, named=named, reason=FailureReason.TIMEOUT)
    assert value.reason is FailureReason.TIMEOUT
    assert load(dump(value), Outer, where="f") == value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"name": 3}, "f.yaml: name: expected text, found 3 (put it in quotes)"),
        ({}, "f.yaml: name: required field is missing"),
        ({"name": "A"}, "f.yaml: name: 'A' does not match [a-z]+"),
        ({"name": "a", "innr": {}}, "f.yaml: innr: unknown field (did you mean 'inner'?)"),
        ({"name": "a", "inner": {"tags": "abc"}}, "f.yaml: inner.tags: expected list of text, found 'abc'"),
        ({"name": "a", "inner": {"count": True}}, "f.yaml: inner.count: expected integer, found True"),
        ({"name": "a", "inner": {"count": -1}}, "f.yaml: inner.count: -1 is below 0"),
        ({"name": "a", "many": [{}, {"coutn": 1}]}, "f.yaml: many[1].coutn: unknown field (did you mean 'count'?)"),
        ({"name": "a", "named": {"k": 3}}, "f.yaml: named.k: expected mapping with count, tags, found 3"),
        (
            {"name": "a", "choice": "rigth"},
            "f.yaml: choice: expected one of left, right, found 'rigth' (did you mean 'right'?)",
        ),
        (
            {"name": "a", "reason": "TIMEOUTT"},
            "f.yaml: reason: expected one of "
            + ", ".join(FailureReason)
            + ", found 'TIMEOUTT' (did you mean 'TIMEOUT'?)",
        ),
        ({"name": "a", "ratio": float("inf")}, "f.yaml: ratio: expected number, found inf"),
        ({"name": "a", "ratio": True}, "f.yaml: ratio: expected number, found True"),
        ({"name": "a", "ratio": 10**400}, "f.yaml: ratio: expected number, found 1" + "0" * 56 + "..."),
        ({"name": "a", "ratio": "1"}, "f.yaml: ratio: expected number, found '1'"),
        ({1: "a"}, "f.yaml: field names must be strings, found 1 (put it in quotes)"),
        ([], "f.yaml: expected mapping with name, inner, many, named, ratio, choice, reason, found []"),
    ],
)
def test_a_problem_names_file_path_and_remedy(data: object, expected: str) -> None:
    """Each problem is one line."""
    assert problems(data) == [expected]


def test_all_problems_are_named_at_once() -> None:
    """All errors of a file are reported together, not one at a time."""
    found = problems({"name": 1, "many": [{"count": "x"}, 2], "extra": 1})
    assert [line.split(": ")[1] for line in found] == ["name", "many[0].count", "many[1]", "extra"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_arbitrary_data_is_a_value_or_an_input_error(data: object) -> None:
    """Arbitrary data raises no other exception."""
    with contextlib.suppress(InputError):
        load(data, Outer, where="f")


def test_unknown_keys_are_refused_everywhere() -> None:
    """All classes loaded from external data are strict, including options of every registered component."""
    options = [component.options for component in discover().registry.all() if component.options]
    for cls in [TaskSpec, RunManifest, AttemptRecord, *EVENT_CLASSES.values(), *options]:
        with pytest.raises(InputError, match="surprise: unknown field"):
            load({"surprise": 1}, cls, where="f")


def test_long_list_of_problems_is_truncated() -> None:
    """The list is truncated, and no suggestions are computed for it, which would take minutes."""
    with pytest.raises(InputError) as refused:
        load({"name": "a", **{f"countt{number}": 1 for number in range(100_000)}}, Outer, where="f.yaml")
    lines = refused.value.message.splitlines()
    assert len(lines) == 31
    assert lines[-1] == "f.yaml: and 99970 more"
