"""Cost, tokens, steps and time of two runs: the numbers match scipy, and unknown amounts are not compared."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st
from scipy import stats

from agentbench_core import AttemptRecord, FailureReason, Label
from agentbench_report.command import report
from agentbench_report.statistics import fieller, paired_amounts
from agentbench_testing import Ending, write_run

Use = Callable[[AttemptRecord], AttemptRecord]

COSTS_A = (0.040, 0.061, 0.052, 0.080, 0.047)
COSTS_B = (0.042, 0.085, 0.051, 0.130, 0.060)


def spending(costs: tuple[float, ...], **more: Any) -> Use:
    """Give task ``t0`` the first cost, and so on; tokens, steps and seconds follow from the cost."""

    def use(one: AttemptRecord) -> AttemptRecord:
        cost = costs[int(one.task_id[1:])] * one.repeat
        usage = {"cost_usd": cost, "prompt_tokens": round(9e5 * cost), "completion_tokens": round(1e5 * cost)}
        usage |= {"steps": round(1000 * cost), "llm_calls": 1}
        known = {name: value for name, value in more.items() if name in usage}
        other = {name: value for name, value in more.items() if name not in usage}
        changed = attrs.evolve(one, usage=attrs.evolve(one.usage, **usage | known), duration_sec=100 * cost)
        return attrs.evolve(changed, **other)

    return use


def compared(
    root: Path, a: Use, b: Use, *flags: str, ends: Ending | list[Ending] = True, run_b: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """Return the JSON of every metric by its name."""
    write_run(root / "a", {f"t{n}": ends for n in range(5)}, record=a, run={"variant": "a"})
    write_run(root / "b", {f"t{n}": ends for n in range(5)}, record=b, run={"variant": "b", **run_b})
    method = ["--method", "bootstrap"] if isinstance(ends, list) else []
    where = ["--run-a", str(root / "a"), "--run-b", str(root / "b")]
    done = CliRunner().invoke(report, ["paired", *where, "--format", "json", *method, *flags])
    assert done.exit_code == 0, done.exception
    return {each["metric"]: each for each in json.loads(done.output)["metrics"]}


def test_difference_and_ratio_match_scipy(tmp_path: Path) -> None:
    found = compared(tmp_path, spending(COSTS_A), spending(COSTS_B))["cost_usd"]
    assert (found["tasks"], found["change"]) == (5, "unclear")
    assert (found["mean_a"], found["mean_b"]) == pytest.approx((0.056, 0.0736))  # by hand: 0.28 / 5 and 0.368 / 5
    assert (found["difference"], found["ratio"]) == pytest.approx((0.0176, 0.368 / 0.28))
    expected = stats.ttest_rel(COSTS_B, COSTS_A).confidence_interval(0.95)
    assert (found["interval"]["low"], found["interval"]["high"]) == pytest.approx((expected.low, expected.high))


amounts = st.floats(0.001, 1000)


@given(st.lists(st.tuples(amounts, amounts), min_size=3, max_size=30))
def test_ratio_bounds_are_where_a_paired_t_test_just_rejects(pairs: list[tuple[float, float]]) -> None:
    """This is the definition of Fieller's interval. It also agrees with the interval of the difference."""
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    found = paired_amounts(a, b)
    assert found is not None
    if found.interval is None or found.ratio_interval is None:
        return
    low, high = found.ratio_interval.low, found.ratio_interval.high
    assert low <= (found.ratio or 0) * (1 + 1e-9)
    assert high >= (found.ratio or 0) * (1 - 1e-9)
    for bound in {low, high} - {0.0}:
        differences = [after - bound * before for before, after in pairs]
        if max(differences) - min(differences) > 1e-4 * max(map(abs, differences)):
            assert stats.ttest_1samp(differences, 0).pvalue == pytest.approx(0.05, rel=1e-3)
    if min(abs(low - 1), abs(high - 1)) > 1e-9:
        assert (low <= 1 <= high) == (found.interval.low <= 0 <= found.interval.high)


def test_fieller_by_hand() -> None:
    """With a constant A of 2, it is the interval of the mean of B divided by 2: (5 ± 4.302653 / √3) / 2."""
    found = fieller([2, 2, 2], [4, 5, 6])
    assert found is not None
    assert (found.low, found.high) == pytest.approx(((5 - 4.302653 / 3**0.5) / 2, (5 + 4.302653 / 3**0.5) / 2))


def test_ratio_to_a_mean_that_may_be_zero_has_no_interval() -> None:
    found = paired_amounts([0, 0, 9], [1, 2, 3])
    assert found is not None
    assert found.ratio == pytest.approx(2 / 3)
    assert found.ratio_interval is None
    assert found.interval is not None


def test_each_task_counts_once_with_the_mean_of_its_scored_attempts(tmp_path: Path) -> None:
    """Repeats 1 and 3 cost 1x and 3x; repeat 2 has no score."""
    ends: list[Ending] = [True, FailureReason.LLM_ERROR, False]
    found = compared(tmp_path, spending(COSTS_A), spending(COSTS_B), ends=ends)["cost_usd"]
    assert found["tasks"] == 5
    assert (found["mean_a"], found["mean_b"]) == pytest.approx((2 * 0.056, 2 * 0.0736))


def test_equal_amounts_have_no_interval(tmp_path: Path) -> None:
    found = compared(tmp_path, spending(COSTS_A), spending(COSTS_A))
    assert {
        name: (each["difference"], each["interval"], each["change"]) for name, each in found.items()
    } == dict.fromkeys(("cost_usd", "tokens", "steps", "duration_sec"), (0.0, None, "unclear"))


@pytest.mark.parametrize(
    ("b", "flags", "unknown"),
    [
        ({"cost_usd": 0.0}, [], {"cost_usd": "5 attempts called a model but recorded a cost of 0"}),
        (
            {"prompt_tokens": 0, "completion_tokens": 0},
            [],
            {"tokens": "5 attempts called a model but recorded no tokens"},
        ),
        (
            {"llm_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0},
            [],
            dict.fromkeys(("cost_usd", "tokens"), "no model calls were recorded"),
        ),
        (
            {"replayed": True},
            ["--allow-replayed"],
            {
                "cost_usd": "5 attempts were replayed at no cost",
                "duration_sec": "5 attempts replayed model calls instead of making them",
            },
        ),
    ],
)
def test_unknown_amounts_are_not_compared(
    tmp_path: Path, b: Mapping[str, Any], flags: list[str], unknown: Mapping[str, str]
) -> None:
    found = compared(tmp_path, spending(COSTS_A), spending(COSTS_B, **b), *flags)
    assert {name: each["unknown_b"] for name, each in found.items() if each["unknown_b"]} == unknown
    for name, each in found.items():
        assert (each["difference"] is None) == (name in unknown)
        assert (each["mean_b"] is None) == (name in unknown)
        assert each["mean_a"] is not None


def test_durations_name_other_machines_workers_and_load(tmp_path: Path) -> None:
    slow = spending(COSTS_B, labels=(Label(name="under_pressure"),))
    run = {"config": {"run.workers": {"value": 8, "origin": "flag"}}, "platform": {"cpus": "64"}}
    found = compared(tmp_path, spending(COSTS_A), slow, run_b=run)
    assert found["duration_sec"]["notes"] == [
        "attempts in parallel: up to an unknown number in A, up to 8 in B",
        "the runs used different machines",
        "5 attempts in B timed out on an overloaded machine",
    ]
    assert found["steps"]["notes"] == []


def test_compare_has_the_same_numbers_in_csv(tmp_path: Path) -> None:
    expected = compared(tmp_path, spending(COSTS_A), spending(COSTS_B))
    runs = ["compare", "--runs", str(tmp_path / "a"), str(tmp_path / "b"), "--format"]
    done = CliRunner().invoke(report, [*runs, "csv"])
    first, second = csv.DictReader(io.StringIO(done.output))
    for name, each in expected.items():
        assert first[f"{name}_ratio"] == ""
        assert float(second[f"{name}_difference"]) == pytest.approx(each["difference"], rel=1e-5)
        assert float(second[f"{name}_ratio_high"]) == pytest.approx(each["ratio_interval"]["high"], rel=1e-5)
    whole = json.loads(CliRunner().invoke(report, [*runs, "json"]).output)
    assert {each["metric"]: each for each in whole["runs"][1]["against"]["metrics"]} == expected
