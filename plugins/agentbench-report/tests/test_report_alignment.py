"""Two runs are paired by task digest, and every attempt is accounted for."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import FailureReason, InputError, RunView
from agentbench_report.comparison.alignment import Missing, align
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.reading import read
from agentbench_testing import write_run


def counts(task_id: str, digest: str, *, passed: int = 0, failed: int = 0, missing: int = 0) -> TaskCounts:
    return TaskCounts(
        task_id=task_id, digest=digest, passed=passed, scored=passed + failed, unscored=missing // 2,
        not_recorded=missing - missing // 2,
    )  # fmt: skip


def run(*tasks: TaskCounts) -> RunCounts:
    return RunCounts(view=Mock(spec=RunView), tasks=tasks)


ATTEMPTS = st.integers(0, 4)
TASKS: st.SearchStrategy[dict[int, dict[str, int]]] = st.dictionaries(
    st.integers(0, 9), st.builds(dict, passed=ATTEMPTS, failed=ATTEMPTS, missing=ATTEMPTS), max_size=10
)


@st.composite
def runs(draw: st.DrawFn) -> RunCounts:
    """Runs whose task names and order are unrelated to the digests."""
    tasks = draw(TASKS)
    names = draw(st.permutations([f"task-{n}" for n in range(10)]))
    made = [counts(names[n], f"sha256:{digest}", **of) for n, (digest, of) in enumerate(tasks.items())]
    return run(*draw(st.permutations(made)))


@given(runs(), runs())
def test_no_attempt_is_lost(a: RunCounts, b: RunCounts) -> None:
    found = align(a, b)
    in_a = [*(pair.a for pair in found.pairs), *found.only_a]
    in_b = [*(pair.b for pair in found.pairs), *found.only_b]
    for tasks, whole in ((in_a, a), (in_b, b)):
        assert {task.digest for task in tasks} == {task.digest for task in whole.tasks}
        assert len(tasks) == len(whole.tasks)
        assert sum(task.planned for task in tasks) == whole.planned
        assert sum(task.passed for task in tasks) == whole.passed


@given(runs(), runs())
def test_tasks_of_a_pair_have_the_same_digest(a: RunCounts, b: RunCounts) -> None:
    found = align(a, b)
    assert all(pair.digest == pair.a.digest == pair.b.digest for pair in found.pairs)
    assert all(pair.complete == (pair.a.scored > 0 and pair.b.scored > 0) for pair in found.pairs)
    assert not {task.digest for task in found.only_a} & {task.digest for task in found.only_b}
    assert len(found.differences()) == len(found.complete)


@given(runs(), runs())
def test_order_and_position_do_not_matter(a: RunCounts, b: RunCounts) -> None:
    turned = [attrs.evolve(one, tasks=tuple(sorted(one.tasks, key=lambda task: task.digest))) for one in (a, b)]
    assert align(*turned) == align(a, b)


@given(runs(), runs())
def test_swapping_the_runs_negates_every_difference(a: RunCounts, b: RunCounts) -> None:
    there, back = align(a, b), align(b, a)
    assert sorted(there.differences()) == sorted(-difference for difference in back.differences())
    assert sorted(there.differences(Missing.WORST)) == sorted(-d for d in back.differences(Missing.BEST))


@given(runs(), runs())
def test_bounds_contain_the_observed_difference(a: RunCounts, b: RunCounts) -> None:
    for pair in align(a, b).pairs:
        seen, worst, best = (pair.difference(missing) for missing in Missing)
        if seen is not None:
            assert worst is not None
            assert best is not None
            assert worst <= seen <= best
            assert (worst == seen == best) or pair.incomplete


def test_pairs_match_by_digest_and_not_by_name() -> None:
    a = run(counts("first", "sha256:1", passed=1), counts("second", "sha256:2", failed=1))
    b = run(counts("first", "sha256:2", passed=1), counts("second", "sha256:1", passed=1))
    found = align(a, b)
    assert [(pair.a.task_id, pair.b.task_id) for pair in found.pairs] == [("first", "second"), ("second", "first")]
    assert found.renamed == found.pairs
    assert found.differences() == (0.0, 1.0)


def test_changed_task_with_the_same_name_is_not_a_pair() -> None:
    found = align(run(counts("x", "sha256:old", passed=1)), run(counts("x", "sha256:new", passed=1)))
    assert not found.pairs
    assert [(old.digest, new.digest) for old, new in found.changed] == [("sha256:old", "sha256:new")]


def test_duplicate_task_in_a_run_is_refused() -> None:
    twice = run(counts("x", "sha256:1"), counts("y", "sha256:1"))
    with pytest.raises(InputError, match="the same task twice, as x and y"):
        align(twice, run())


def test_tasks_in_only_one_run_are_not_in_the_table(tmp_path: Path) -> None:
    """Tasks in only one run are listed and excluded from the table."""
    a = read(write_run(tmp_path / "a", {"t1": True, "t2": False, "t3": True}).directory)
    b = read(write_run(tmp_path / "b", {"t2": True, "t3": True, "t4": False}).directory)
    found = align(a, b)
    assert [pair.task_id for pair in found.pairs] == ["t2", "t3"]
    assert [task.task_id for task in found.only_a] == ["t1"]
    assert [task.task_id for task in found.only_b] == ["t4"]
    table = found.table()
    assert (table.both_pass, table.regressions, table.improvements, table.both_fail) == (1, 0, 1, 0)


def test_missing_attempts_give_a_worst_and_a_best_case(tmp_path: Path) -> None:
    broke = FailureReason.SANDBOX_ERROR
    a = read(write_run(tmp_path / "a", {"t1": True, "t2": broke, "t3": None, "t4": False}).directory)
    b = read(write_run(tmp_path / "b", {"t1": broke, "t2": False, "t3": None, "t4": True}).directory)
    found = align(a, b)
    tables = [attrs.astuple(found.table(missing)) for missing in Missing]
    assert tables == [(0, 0, 1, 0), (0, 3, 1, 0), (1, 0, 2, 1)]
    assert [pair.task_id for pair in found.incomplete] == ["t1", "t2", "t3"]


def test_missing_attempts_among_repeats_are_filled_in(tmp_path: Path) -> None:
    a = read(write_run(tmp_path / "a", {"t": [True, False, None, None]}).directory)
    b = read(write_run(tmp_path / "b", {"t": [True, True, False, FailureReason.LLM_ERROR]}).directory)
    found = align(a, b)
    assert found.repeated
    assert found.differences() == pytest.approx((2 / 3 - 1 / 2,))
    assert found.differences(Missing.WORST) == (2 / 4 - 3 / 4,)
    assert found.differences(Missing.BEST) == (3 / 4 - 1 / 4,)
    with pytest.raises(ValueError, match="one attempt per task"):
        found.table()


def test_newlines_in_names_are_escaped() -> None:
    twice = run(counts("x\nerror: none", "sha256:1"), counts("y\x1b[2J", "sha256:1"))
    with pytest.raises(InputError) as error:
        align(twice, run())
    assert "\n" not in str(error.value).partition("\nCompare only")[0]
    assert "\x1b" not in str(error.value)


def test_task_that_is_invalid_in_both_runs_is_not_missing(tmp_path: Path) -> None:
    none = FailureReason.BASELINE_NOT_FAILING
    a = read(write_run(tmp_path / "a", {"x": [none, none], "y": [none, none], "z": [none, True]}).directory)
    b = read(write_run(tmp_path / "b", {"x": [none, None], "y": [True, False], "z": [none, none]}).directory)
    found = align(a, b)
    assert [pair.task_id for pair in found.invalid] == ["x"]
    assert [pair.task_id for pair in found.valid] == ["y", "z"]
    assert [pair.task_id for pair in found.incomplete] == ["y", "z"]
    assert len(found.differences(Missing.WORST)) == len(found.differences(Missing.BEST)) == 2


def test_results_are_listed_by_repeat(tmp_path: Path) -> None:
    (task,) = read(write_run(tmp_path / "a", {"x": [True, False, FailureReason.LLM_ERROR, None, True]}).directory).tasks
    assert (task.repeats, task.passes, task.fails) == ((1, 2, 3, 5), (1, 5), (2,))


def test_planned_repeats_count_if_only_one_is_recorded(tmp_path: Path) -> None:
    """Otherwise, a run that lost all but one attempt per task would count as a run without repeats."""
    a = read(write_run(tmp_path / "a", {"t": [True, None, None]}).directory)
    b = read(write_run(tmp_path / "b", {"t": [False, None, None]}).directory)
    assert align(a, b).repeated
