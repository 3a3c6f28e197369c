"""Shards divide a plan: every attempt belongs to exactly one of them, on every machine to the same one."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import InputError
from agentbench_core.values.shard import MOST_ATTEMPTS, Shard, parse_shard, planned_count, planned_repeats

IDS = [f"task-{number}" for number in range(40)]


@given(st.integers(1, 50), st.integers(1, 4))
def test_every_attempt_is_in_one_shard(count: int, repeats: int) -> None:
    """No attempt is lost, and none is in two shards."""
    shards = [Shard(index=index, count=count) for index in range(1, count + 1)]
    for task_id in IDS:
        taken = [repeat for shard in shards for repeat in planned_repeats(task_id, repeats, shard)]
        assert sorted(taken) == list(range(1, repeats + 1))
    assert sum(planned_count(IDS, repeats, shard) for shard in shards) == len(IDS) * repeats


def test_the_division_is_stable() -> None:
    """It must not change between versions and machines: shards of one plan could no longer be merged."""
    taken = [(name, repeat) for name in IDS[:6] for repeat in planned_repeats(name, 3, Shard(index=1, count=3))]
    assert taken == [("task-1", 1), ("task-2", 3), ("task-4", 2)]


def test_shards_have_about_the_same_size() -> None:
    """A hash divides 4,000 attempts among 8 shards of 500, give or take the deviation of a binomial distribution."""
    sizes = [planned_count([f"t{n}" for n in range(1000)], 4, Shard(index=i, count=8)) for i in range(1, 9)]
    assert all(400 < size < 600 for size in sizes), sizes


def test_a_plan_without_shards_is_planned_as_a_whole() -> None:
    """All repeats, however many: nothing is listed."""
    assert len(planned_repeats("a", 10**9, None)) == 10**9
    assert planned_count(IDS, 10**9, None) == 40 * 10**9


def test_too_many_attempts() -> None:
    """A run.json from somebody else cannot make a reader hash forever."""
    with pytest.raises(ValueError, match="cannot be divided into shards"):
        planned_count(["a"], MOST_ATTEMPTS + 1, Shard(index=1, count=2))


@pytest.mark.parametrize(
    "text", ["", "1", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "1/20000", "a/b", "1 / 3", "²/3", "1/"]
)
def test_invalid_shards(text: str) -> None:
    """The message names the text, or the rule that it breaks."""
    with pytest.raises(InputError, match="is not a valid shard"):
        parse_shard(text)


def test_a_shard_is_parsed_as_it_is_written() -> None:
    """I/N, from 1."""
    shard = parse_shard("2/3")
    assert attrs.asdict(shard) == {"index": 2, "count": 3}
    assert parse_shard(str(shard)) == shard
