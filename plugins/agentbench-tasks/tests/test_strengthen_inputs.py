"""Other inputs: similar to the known ones, different from them, and the same for the same seed."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_tasks.strengthen.inputs import other_inputs, variations
from agentbench_tasks.strengthen.values import canonical, source_of

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.binary(max_size=10),
    lambda each: (
        st.lists(each, max_size=4) | st.tuples(each, each) | st.dictionaries(st.text(max_size=3), each, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=3), st.integers(0, 3))
def test_inputs_are_new_bounded_and_reproducible(known: list[tuple[Any, ...]], seed: int) -> None:
    inputs = other_inputs(known, 20, str(seed))
    assert [canonical(each) for each in inputs] == [canonical(each) for each in other_inputs(known, 20, str(seed))]
    assert len({canonical(each) for each in inputs}) == len(inputs) <= 20
    assert not {*map(canonical, known)} & {*map(canonical, inputs)}
    assert all(len(source_of(each)) <= 400 for each in inputs)


@pytest.mark.parametrize(
    "value", [0, 32, -5, 10**15, 1.5, "1h 5s", "", "Ünï", b"ab", [3, 1], (1, "a"), {1, 2}, {"a": 1}]
)
def test_variations_keep_the_type(value: Any) -> None:
    some = list(itertools.islice(variations(value, [7, "z"], random.Random(0)), 40))
    assert {type(each) for each in some} == {type(value)}
    assert len({canonical(each) for each in some}) > 3
    for each in some:
        source_of(each)


def test_another_seed_selects_other_inputs() -> None:
    assert other_inputs([("1h 5s",)], 20, "0") != other_inputs([("1h 5s",)], 20, "1")


def test_numbers_in_text_are_varied() -> None:
    inputs = [text for (text,) in other_inputs([("1h 5s",)], 40, "0")]
    assert sum(text[1:3] == "h " and text.endswith("s") for text in inputs) > 3


def test_nothing_is_left_to_vary() -> None:
    assert other_inputs([(None,)], 20, "0") == []
    assert other_inputs([(True,)], 20, "0") == [(False,)]
