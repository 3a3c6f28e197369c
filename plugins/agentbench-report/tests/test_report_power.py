"""``agentbench report power``: the required number of tasks, and the MDE of a comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import AttemptRecord
from agentbench_core.cli.main import main
from agentbench_core.values.events import LLMRequest
from agentbench_report.statistics import exact_power, exact_tasks
from agentbench_report.statistics.power import t_power, t_tasks
from agentbench_testing import write_run

REFERENCE = json.loads((Path(__file__).parent / "reference.json").read_text())["cases"]

METHODS = {"pairs": "mcnemar", "repeats": "bootstrap"}


def cases(function: str) -> Sequence[Any]:
    found = [case for case in REFERENCE if case["function"] == function]
    assert found
    return found


def tasks(count: int, ending: Callable[[int], Any] = lambda i: True) -> Mapping[str, Any]:
    return {f"task-{i:03}": ending(i) for i in range(count)}


@attrs.frozen
class Answer:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def power(capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run the command."""

    def run(*arguments: object, style: str = "json") -> Answer:
        with pytest.raises(SystemExit) as stop:
            main(["report", "power", "--format", style, *map(str, arguments)])
        return Answer(int(stop.value.code or 0), *capfd.readouterr())

    return run


class TestPlan:
    @pytest.mark.parametrize("case", cases("mcnemar_sample_size_connor"))
    def test_tasks_are_those_of_the_reference(self, power: Callable[..., Answer], case: Mapping[str, Any]) -> None:
        """Exact enumeration gives a number that is close to Connor's formula and reaches the power."""
        given = case["inputs"]
        effect = given["p_improve"] - given["p_regress"]
        discordance = given["p_improve"] + given["p_regress"]
        asked = ("--power", given["power"], "--alpha", given["alpha"])
        data = power("--effect", effect, "--discordance", discordance, *asked).data
        assert data["formula_tasks"] == math.ceil(case["expected"])
        assert data["needed"]["tasks"] == pytest.approx(case["expected"], rel=0.03)
        assert data["needed"]["power"] >= given["power"]
        assert data["needed"]["detectable"] == pytest.approx(effect, rel=0.03)
        assert data["needed"]["attempts"] == 2 * data["needed"]["tasks"]

    @pytest.mark.parametrize("case", cases("mcnemar_mde"))
    def test_the_least_difference_is_that_of_the_reference(
        self, power: Callable[..., Answer], case: Mapping[str, Any]
    ) -> None:
        given = case["inputs"]
        asked = ("--power", given["power"], "--alpha", given["alpha"], "--tasks", given["n"])
        data = power("--effect", 0.05, "--discordance", given["discordance"], *asked).data
        assert data["available"]["detectable"] == pytest.approx(case["expected"], abs=case["tolerance"])

    @pytest.mark.parametrize("case", cases("mcnemar_power_midp"))
    def test_the_power_is_that_of_the_reference(self, power: Callable[..., Answer], case: Mapping[str, Any]) -> None:
        given = case["inputs"]
        effect, discordance = given["p_improve"] - given["p_regress"], given["p_improve"] + given["p_regress"]
        data = power("--effect", effect, "--discordance", discordance, "--tasks", given["n"]).data
        assert data["available"]["power"] == pytest.approx(case["expected"], abs=1e-6)

    def test_very_large_numbers_of_tasks_are_not_computed(self, power: Callable[..., Answer]) -> None:
        assert power("--effect", 0.001).data["needed"] is None
        page = power("--effect", 0.001, style="md").out
        assert page.startswith("# More than 100,000 tasks")
        assert "The exact number is not computed above 100,000. Connor's formula gives 1,569," in page
        assert "|" not in page
        assert "power for 0.1 pp" in power("--effect", 0.001, "--tasks", 100_000, style="md").out

    @pytest.mark.parametrize(
        "wrong",
        [
            *(("--effect", number) for number in ("nan", "inf", "0", "1e-200", "1")),
            *(("--discordance", number) for number in ("nan", "inf", "1e-200", "1.1")),
            *(("--power", number) for number in ("nan", "0", "1", "1e-300", "0.99999999999999999")),
            *(("--alpha", number) for number in ("nan", "0", "1e-300", "0.5")),
            *((name, number) for name in ("--tasks", "--repeats") for number in (0, 10**12, 10**18, 10**400)),
        ],
    )
    def test_invalid_numbers_are_refused(self, power: Callable[..., Answer], wrong: tuple[str, Any]) -> None:
        done = power("--effect", 0.1, *wrong)
        assert (done.code, done.out) == (2, "")
        assert wrong[0] in done.err

    def test_tiny_power_for_a_tiny_effect(self, power: Callable[..., Answer]) -> None:
        """Connor's formula gives 0 tasks, which cannot be doubled."""
        assert power("--effect", 1e-6, "--power", 0.025).data["needed"]["tasks"] < 100

    def test_pilot_gives_cost_and_duration(self, power: Callable[..., Answer], tmp_path: Path) -> None:
        """The estimate states the number of recorded attempts behind it."""

        def used(one: AttemptRecord) -> AttemptRecord:
            cost = 0.03 if one.task_id == "task-000" else 0.01
            return attrs.evolve(one, usage=attrs.evolve(one.usage, cost_usd=cost), duration_sec=36.0)

        pilot = write_run(tmp_path / "pilot", tasks(5, lambda i: None if i == 4 else True), record=used).directory
        data = power("--effect", 0.1, "--pilot", pilot).data
        assert data["pilot"]["attempts"] == 4
        assert data["pilot"]["cost_usd_per_attempt"] == pytest.approx(0.015)
        assert data["available"]["tasks"] == 5
        assert data["available"]["cost_usd"] == pytest.approx(10 * 0.015)
        assert data["available"]["duration_hours"] == pytest.approx(0.1)
        assert data["needed"]["cost_usd"] == pytest.approx(data["needed"]["attempts"] * 0.015)
        page = power("--effect", 0.1, "--pilot", pilot, style="md").out
        assert "estimated from the 4 recorded attempts" in page
        assert "Means per attempt, assumed for both variants: 0.0150 USD and 36.0 s." in page

    def test_repeats_reduce_only_the_variance_within_tasks(self, power: Callable[..., Answer], tmp_path: Path) -> None:
        """By Miller's formula, repeats reduce only the variance within tasks, here 0.1."""
        endings = tasks(100, lambda i: [True, i % 5 > 0] if i % 2 else [i % 5 > 0, True])
        pilot = write_run(tmp_path / "pilot", endings).directory
        asked = ("--effect", 0.1, "--discordance", 0.5, "--pilot", pilot)
        data = [power(*asked, "--repeats", repeats).data for repeats in (2, 4, 1000)]
        assert [one["method"] for one in data] == ["repeats"] * 3
        assert data[0]["pilot"]["within"] == pytest.approx(0.1)
        between = 0.5 - 0.1**2 - 2 * 0.1
        assert data[0]["between"] == pytest.approx(between)
        reach = (1.959964 + 0.841621) ** 2
        expected = [math.ceil(reach * (between + 0.2 / repeats) / 0.01) for repeats in (2, 4, 1000)]
        assert [one["formula_tasks"] for one in data] == expected
        for one, formula in zip(data, expected, strict=True):
            assert formula < one["needed"]["tasks"] <= formula + 3  # t is wider than the formula assumes
        assert data[0]["needed"]["attempts"] == data[0]["needed"]["tasks"] * 4
        assert data[0]["needed"]["detectable"] == pytest.approx(0.1, rel=0.01)
        assert data[0]["needed"]["power"] == pytest.approx(0.8, abs=0.005)

    @pytest.mark.parametrize(("alpha", "least"), [(0.05, 6), (0.01, 8)])
    def test_repeats_do_not_make_up_for_too_few_tasks(
        self, power: Callable[..., Answer], tmp_path: Path, alpha: float, least: int
    ) -> None:
        """The formula gives 1 task, but the sign-flip test needs more to reach a p below alpha."""
        pilot = write_run(tmp_path / "pilot", tasks(50, lambda i: [i % 2 > 0, True])).directory
        asked = ("--effect", 0.3, "--discordance", 0.5, "--repeats", 200, "--pilot", pilot, "--alpha", alpha)
        data = power(*asked, "--tasks", least - 1).data
        assert (data["formula_tasks"], data["needed"]["tasks"]) == (1, least)
        assert (data["available"]["detectable"], data["available"]["power"]) == (None, 0)
        assert f"With fewer than {least} tasks, no difference can reach significance." in power(*asked, style="md").out

    def test_detectable_effect_of_few_tasks_uses_t_quantiles(
        self, power: Callable[..., Answer], tmp_path: Path
    ) -> None:
        pilot = write_run(tmp_path / "pilot", tasks(50, lambda i: [i % 2 > 0, True])).directory
        asked = ("--effect", 0.1, "--repeats", 5, "--pilot", pilot, "--tasks", 6)
        data = power(*asked, "--discordance", 0.5).data
        se = math.sqrt((data["between"] + 2 * data["pilot"]["within"] / 5) / 6)
        assert data["available"]["detectable"] == pytest.approx((2.570582 + 0.919544) * se, rel=1e-5)  # t, 5 df
        assert power(*asked, "--discordance", 1).data["available"]["detectable"] is None  # it would be 116 pp

    @pytest.mark.parametrize(
        "how",
        [
            {"record": lambda one: attrs.evolve(one, usage=attrs.evolve(one.usage, cost_usd=0.0))},
            {"events": lambda one: [LLMRequest(call=1, messages=2, reserved_usd=5.0)]},
        ],
    )
    def test_a_pilot_of_unknown_cost(
        self, power: Callable[..., Answer], tmp_path: Path, how: Mapping[str, Any]
    ) -> None:
        asked = ("--effect", 0.1, "--pilot", write_run(tmp_path / "pilot", tasks(5), **how).directory)
        data = power(*asked).data
        assert (data["pilot"]["cost_usd_per_attempt"], data["needed"]["cost_usd"]) == (None, None)
        assert data["pilot"]["cost_unknown"]
        page = power(*asked, style="md").out
        assert "0.00 " not in page
        assert page.count("unknown") == 4

    def test_discordance_below_chance_is_reported(self, power: Callable[..., Answer], tmp_path: Path) -> None:
        endings = tasks(100, lambda i: [True, i % 2 > 0])
        pilot = write_run(tmp_path / "pilot", endings).directory
        page = power("--effect", 0.05, "--discordance", 0.1, "--pilot", pilot, style="md").out
        assert "**A discordance of 10% is too low:**" in page
        assert "two runs of its variant would have different outcomes on 50% of the tasks" in page

    @pytest.mark.parametrize("endings", [None, tasks(5)])
    def test_repeats_require_a_pilot_with_repeats(
        self, power: Callable[..., Answer], tmp_path: Path, endings: Mapping[str, Any] | None
    ) -> None:
        pilot = [] if endings is None else ["--pilot", write_run(tmp_path / "pilot", endings).directory]
        done = power("--effect", 0.1, "--repeats", 3, *pilot)
        assert (done.code, done.out) == (2, "")
        assert "planning 3 repeats requires the variance between attempts at one task, but " in done.err
        assert "Pass a run with several repeats as --pilot" in done.err

    def test_replayed_pilot_is_refused(self, power: Callable[..., Answer], tmp_path: Path) -> None:
        pilot = write_run(tmp_path / "pilot", tasks(5), record=lambda one: attrs.evolve(one, replayed=True)).directory
        done = power("--effect", 0.1, "--pilot", pilot)
        assert done.code == 2
        assert "was replayed" in done.err

    def test_pilot_without_records_is_refused(self, power: Callable[..., Answer], tmp_path: Path) -> None:
        done = power("--effect", 0.1, "--pilot", write_run(tmp_path / "pilot", tasks(5, lambda i: None)).directory)
        assert done.code == 2
        assert "has no recorded attempt" in done.err

    def test_effect_larger_than_the_discordance_is_refused(self, power: Callable[..., Answer]) -> None:
        done = power("--effect", 0.3, "--discordance", 0.2)
        assert done.code == 2
        assert "an effect of 0.3 is not possible with a discordance of 0.2" in done.err


class TestPostHocPower:
    @pytest.fixture
    def two(self, tmp_path: Path) -> Callable[..., Sequence[str]]:
        def write(a: Mapping[str, Any], b: Mapping[str, Any]) -> Sequence[str]:
            write_run(tmp_path / "a", a)
            write_run(tmp_path / "b", b)
            return ["--run-a", str(tmp_path / "a"), "--run-b", str(tmp_path / "b")]

        return write

    def test_detectable_effect_with_100_tasks(self, power: Callable[..., Answer], two: Callable[..., Any]) -> None:
        """With a fifth of the tasks discordant, the reference gives an MDE of 12.4 pp."""
        runs = two(tasks(100, lambda i: i >= 10), tasks(100, lambda i: not 10 <= i < 20))
        data = power(*runs, "--effect", 0.05).data
        assert (data["method"], data["tasks"], data["discordance"]) == ("pairs", 100, 0.2)
        assert data["detectable"] == pytest.approx(0.12381933148441379, abs=1e-8)
        assert data["detectable_interval"]["low"] < data["detectable"] < data["detectable_interval"]["high"]
        assert data["effect_tasks"] == pytest.approx(625, rel=0.01)
        assert 0.05 < data["effect_power"] < 0.3

    def test_detectable_effect_does_not_depend_on_the_direction(
        self, power: Callable[..., Answer], two: Callable[..., Any]
    ) -> None:
        """Unlike observed power, the MDE does not depend on the p-value. Here, 20 of 100 tasks all got worse."""
        runs = two(tasks(100), tasks(100, lambda i: i >= 20))
        data = power(*runs).data
        assert data["detectable"] == pytest.approx(0.12381933148441379, abs=1e-8)
        assert (data["effect"], data["effect_power"], data["effect_tasks"]) == (None, None, None)

    def test_no_task_differs(self, power: Callable[..., Answer], two: Callable[..., Any]) -> None:
        runs = two(tasks(20), tasks(20))
        data = power(*runs, "--effect", 0.05).data
        assert (data["discordance"], data["detectable"], data["detectable_interval"]) == (0, None, None)
        assert data["effect_power"] < 0.05  # as if only this effect made tasks differ
        page = power(*runs, style="md").out
        assert (
            "0 of 20 tasks had different results. "
            "With fewer than 5 discordant tasks, no difference can reach significance"
        ) in page
        assert f"change in the same direction: **{100 * data['at_best']:.3g} pp** at 80% power" in page

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (tasks(1000), tasks(1000)),
            (tasks(1000), tasks(1000, lambda i: i > 0)),
            (tasks(100, lambda i: i >= 10), tasks(100, lambda i: not 10 <= i < 20)),
            (tasks(8), tasks(8, lambda i: i > 6)),
            (tasks(40, lambda i: [i % 3 > 0, True]), tasks(40, lambda i: [i % 4 > 0, True])),
            (tasks(4, lambda i: [i % 3 > 0, True]), tasks(4, lambda i: [i % 2 > 0, True])),
            (tasks(40, lambda i: [True, True]), tasks(40, lambda i: [i > 1, True])),
            (tasks(1, lambda i: [True, True]), tasks(1, lambda i: [False, True])),
        ],
    )
    def test_detectable_effect_equals_that_of_paired(
        self, power: Callable[..., Answer], two: Callable[..., Any], capfd: pytest.CaptureFixture[str], a: Any, b: Any
    ) -> None:
        runs = two(a, b)
        data = power(*runs).data
        with pytest.raises(SystemExit):
            main(["report", "paired", *runs, "--method", METHODS[data["method"]], "--format", "json"])
        paired = json.loads(capfd.readouterr().out)["detectable"]
        names = {
            "detectable": "difference",
            "at_best": "at_best",
            "nonzero": "nonzero",
            "least_nonzero": "least_nonzero",
        }
        assert {name: data[name] for name in names} == {name: paired[other] for name, other in names.items()}
        assert data["question"] == {"power": paired["power"], "alpha": paired["alpha"]}

    def test_one_task_cannot_detect_a_difference(self, power: Callable[..., Answer], two: Callable[..., Any]) -> None:
        runs = two(tasks(1, lambda i: [True, True]), tasks(1, lambda i: [False, True]))
        assert (
            "Only one task has a score in both runs, so no difference could have been detected."
            in power(*runs, style="md").out
        )

    def test_tasks_that_all_differ_by_the_same_amount(
        self, power: Callable[..., Answer], two: Callable[..., Any]
    ) -> None:
        runs = two(tasks(10, lambda i: [True, True]), tasks(10, lambda i: [False, True]))
        assert (
            "All 10 tasks differ by the same amount, so the spread of differences is unknown."
            in power(*runs, style="md").out
        )

    def test_too_few_differences_to_estimate_the_spread(
        self, power: Callable[..., Answer], two: Callable[..., Any]
    ) -> None:
        runs = two(tasks(50, lambda i: [True, True]), tasks(50, lambda i: [i > 0, True]))
        data = power(*runs, "--effect", 0.05).data
        assert (data["nonzero"], data["detectable"], data["effect_power"], data["effect_tasks"]) == (
            1,
            None,
            None,
            None,
        )

    def test_effect_may_exceed_the_observed_discordance(
        self, power: Callable[..., Answer], two: Callable[..., Any]
    ) -> None:
        """8 of 100 tasks differed, but an effect of 20 pp needs at least 20."""
        runs = two(tasks(100), tasks(100, lambda i: i >= 8))
        data = power(*runs, "--effect", 0.2).data
        assert data["effect_power"] == pytest.approx(exact_power(100, 0.0, 0.2), abs=1e-12)
        assert data["effect_tasks"] == exact_tasks(0.0, 0.2)

    def test_no_task_has_a_score_in_both(self, power: Callable[..., Answer], two: Callable[..., Any]) -> None:
        runs = two(tasks(3, lambda i: None), tasks(3))
        data = power(*runs).data
        assert (data["tasks"], data["incomplete"], data["discordance"]) == (0, 3, None)
        assert (
            "No task has a score in both runs, so no difference could have been detected."
            in power(*runs, style="md").out
        )

    def test_power_with_repeats_uses_the_spread_over_tasks(
        self, power: Callable[..., Answer], two: Callable[..., Any]
    ) -> None:
        runs = two(tasks(50, lambda i: [True, i % 2 > 0]), tasks(50, lambda i: [True, i % 4 > 1]))
        data = power(*runs, "--effect", 0.1).data
        assert (data["method"], data["tasks"], data["discordance"]) == ("repeats", 50, None)
        assert data["detectable"] == pytest.approx((2.009575 + 0.849018) * data["se"], rel=1e-5)  # t, 49 df
        assert data["effect_tasks"] == t_tasks(0.1, 50 * data["se"] ** 2)
        assert data["effect_power"] == pytest.approx(t_power(0.1, data["se"], 49))
        assert "standard error" in power(*runs, style="md").out

    def test_runs_that_cannot_be_compared_are_refused(
        self, power: Callable[..., Answer], two: Callable[..., Any]
    ) -> None:
        runs = two(tasks(20), tasks(30))
        done = power(*runs)
        assert (done.code, done.out) == (2, "")
        assert power(*runs, "--allow-different-tasks").data["tasks"] == 20

    def test_conflicting_flags_are_refused(self, power: Callable[..., Answer], two: Callable[..., Any]) -> None:
        runs = two(tasks(20), tasks(20))
        for wrong, message in (
            ((), "--effect is required"),
            (runs[:2], "an existing comparison requires two runs"),
            ((*runs, "--tasks", 30), "--tasks cannot be used with --run-a and --run-b"),
            ((*runs, "--discordance", 0.2), "--discordance cannot be used with --run-a and --run-b"),
            ((*runs, "--power", 0.9), "--power cannot be used with --run-a and --run-b"),
        ):
            done = power(*wrong)
            assert done.code == 2
            assert message in done.err
