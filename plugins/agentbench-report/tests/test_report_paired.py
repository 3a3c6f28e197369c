"""``agentbench report paired`` on run directories: the numbers match the reference, and the text the numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from agentbench_core import AttemptRecord, FailureReason, InputError
from agentbench_report.command import report
from agentbench_report.comparison.alignment import align
from agentbench_report.comparison.estimates import Method, Question, estimate
from agentbench_report.comparison.fenced import fenced
from agentbench_report.reading import read
from agentbench_report.statistics import exact_power, tango_mean, wilson
from agentbench_testing import Ending, write_run

CASES = json.loads((Path(__file__).parent / "reference.json").read_text())["cases"]

Endings = Mapping[str, Ending | Sequence[Ending]]


def case(function: str, **inputs: Any) -> Any:
    """Return the only case of a function with these inputs. It may have further inputs."""
    found = [one for one in CASES if one["function"] == function and inputs.items() <= one["inputs"].items()]
    assert len(found) == 1, found
    return found[0]


def tables() -> list[dict[str, int]]:
    """Return all distinct tables in the reference."""
    functions = ("mcnemar_midp", "mcnemar_exact", "paired_diff_ci_tango")
    found = [one["inputs"] for one in CASES if one["function"] in functions]
    cells = ("both_pass", "regressions", "improvements", "both_fail")
    return [dict(zip(cells, table, strict=True)) for table in sorted({tuple(one[c] for c in cells) for one in found})]


def pair(root: Path, a: Endings, b: Endings, **how: Any) -> tuple[Path, Path]:
    """Write runs of two variants."""
    for name, endings in (("a", a), ("b", b)):
        write_run(root / name, endings, run={"variant": name, "variant_digest": f"sha256:{name}"}, **how)
    return root / "a", root / "b"


def of_table(root: Path, both_pass: int, regressions: int, improvements: int, both_fail: int) -> tuple[Path, Path]:
    kinds = [(True, True)] * both_pass + [(True, False)] * regressions
    kinds += [(False, True)] * improvements + [(False, False)] * both_fail
    return pair(root, *({f"task-{n:04}": kind[run] for n, kind in enumerate(kinds)} for run in (0, 1)))


def paired(places: tuple[Path, Path], *options: str) -> Result:
    runs = ["--run-a", str(places[0]), "--run-b", str(places[1])]
    return CliRunner().invoke(report, ["paired", *runs, *options])


def text(places: tuple[Path, Path], *options: str) -> str:
    result = paired(places, *options)
    assert result.exit_code == 0, result.exception
    return result.output


def numbers(places: tuple[Path, Path], *options: str) -> Any:
    return json.loads(text(places, "--format", "json", *options))


def resolved(page: str) -> str:
    """Return a page with its link targets inline instead of at its end."""
    places = dict(re.findall(r"^\[(\d+)\]: (.*)$", page, re.MULTILINE))
    return re.sub(r"(\[[^\[\]]+\])\[(\d+)\]", lambda match: f"{match[1]}({places[match[2]]})", page)


def bounds(interval: Mapping[str, float]) -> list[float]:
    return [interval["low"], interval["high"]]


# --- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", tables(), ids=lambda table: "-".join(map(str, table.values())))
def test_single_attempts_equal_the_reference(tmp_path: Path, table: dict[str, int]) -> None:
    places = of_table(tmp_path, **table)
    found = numbers(places)["estimate"]
    assert found["table"] == table
    n = sum(table.values())
    assert found["tasks"] == n
    assert found["difference"] == pytest.approx((table["improvements"] - table["regressions"]) / n, abs=1e-12)
    assert found["pass_rate_a"] == pytest.approx((table["both_pass"] + table["regressions"]) / n, abs=1e-12)
    checked = 0
    for function in ("mcnemar_midp", "mcnemar_exact"):
        for one in CASES:
            if one["function"] == function and one["inputs"] == table:
                assert found[function] == pytest.approx(one["expected"], abs=one["tolerance"])
                checked += 1
    assert found["p"] == found["mcnemar_midp"]
    for one in CASES:
        if one["function"] == "paired_diff_ci_tango" and one["inputs"] | table == one["inputs"]:
            interval = numbers(places, "--confidence", str(1 - one["inputs"]["alpha"]))["estimate"]["interval"]
            assert bounds(interval) == pytest.approx(one["expected"], abs=one["tolerance"])
            checked += 1
    assert checked


def test_reference_has_all_tables() -> None:
    known = [tuple(table.values()) for table in tables()]
    assert {(59, 6, 16, 80), (7, 2, 25, 68), (53, 8, 16, 9), (0, 0, 0, 100), (43, 1, 0, 0)} <= set(known)
    assert len(known) >= 18


def test_the_smallest_detectable_difference_equals_the_reference(tmp_path: Path) -> None:
    one = case("mcnemar_mde", n=100, discordance=0.2)
    found = numbers(of_table(tmp_path, 40, 10, 10, 40))["detectable"]
    assert found["difference"] == pytest.approx(one["expected"], abs=one["tolerance"])
    assert (found["power"], found["alpha"], found["nonzero"], found["least_nonzero"]) == (0.8, 0.05, 20, 5)


def of_differences(root: Path, differences: Sequence[Sequence[float]]) -> tuple[Path, Path]:
    """Write runs with repeats that differ. 1: passed only in B. -1: only in A. 0: in both or neither."""
    a = {f"task-{n}": [difference == -1 for difference in task] for n, task in enumerate(differences)}
    b = {f"task-{n}": [difference == 1 for difference in task] for n, task in enumerate(differences)}
    return pair(root, a, b)


def test_repeats_equal_the_reference(tmp_path: Path) -> None:
    (inputs,) = [one["inputs"] for one in CASES if one["function"] == "paired_multitrial_t"]
    t, se = case("paired_multitrial_t"), case("paired_multitrial_se")
    assert se["inputs"] == inputs
    found = numbers(of_differences(tmp_path, inputs["diffs_by_task"]), "--method", "bootstrap")["estimate"]
    assert found["table"] is None
    assert found["mcnemar_midp"] is None
    means = found["task_means"]
    assert [*bounds(means["interval"]), means["p"]] == pytest.approx(t["expected"], abs=t["tolerance"])
    assert means["se"] == pytest.approx(se["expected"], abs=se["tolerance"])


@pytest.mark.parametrize("one", [one for one in CASES if one["function"] == "sign_flip_exact"], ids=lambda _: "")
def test_sign_flips_equal_the_reference(tmp_path: Path, one: Any) -> None:
    """Differences are tenths, as from ten attempts per task."""
    tenths = [round(10 * difference) for difference in one["inputs"]["diffs"]]
    trials = [[float((ten > 0) - (ten < 0))] * abs(ten) + [0.0] * (10 - abs(ten)) for ten in tenths]
    found = numbers(of_differences(tmp_path, trials), "--method", "bootstrap")["estimate"]
    flips = found["sign_flip"]
    assert [flips["two_sided"], flips["greater"]] == pytest.approx(one["expected"], abs=one["tolerance"])
    assert flips["exact"]
    assert found["p"] == flips["two_sided"]


def test_unequal_numbers_of_attempts_equal_the_reference(tmp_path: Path) -> None:
    one = case("paired_macro_diff_unequal_trials")
    runs = [
        {f"task-{n}": [bool(trial) for trial in task] for n, task in enumerate(one["inputs"][run])}
        for run in ("base", "new")
    ]
    report_ = numbers(pair(tmp_path, *runs), "--method", "bootstrap")
    found = report_["estimate"]
    se = found["task_means"]["se"]
    assert [found["pass_rate_a"], found["pass_rate_b"], found["difference"], se] == pytest.approx(
        one["expected"], abs=one["tolerance"]
    )
    assert (report_["a"]["pass_rate"], report_["b"]["pass_rate"]) == (found["pass_rate_a"], found["pass_rate_b"])


def test_single_attempts_by_tasks_equal_the_reference(tmp_path: Path) -> None:
    t, se = case("paired_diff_ci_t"), case("paired_diff_se")
    runs = [{f"task-{n}": bool(score) for n, score in enumerate(t["inputs"][run])} for run in ("base", "new")]
    found = numbers(pair(tmp_path, *runs), "--method", "bootstrap")["estimate"]
    assert bounds(found["task_means"]["interval"]) == pytest.approx(t["expected"], abs=t["tolerance"])
    assert found["task_means"]["se"] == pytest.approx(se["expected"], abs=se["tolerance"])
    assert found["sign_flip"]["two_sided"] == found["mcnemar_exact"]


def test_bootstrap_approximates_the_full_enumeration(tmp_path: Path) -> None:
    """Means of six tasks are sixths, so a quantile of 20,000 resamples is exact."""
    one = next(one for one in CASES if one["function"] == "bootstrap_mean_bca_exact" and -1 in one["inputs"]["x"])
    options = ("--method", "bootstrap", "--resamples", "20000")
    report_ = numbers(of_differences(tmp_path, [[float(x)] for x in one["inputs"]["x"]]), *options)
    found = report_["estimate"]
    assert bounds(found["bootstrap"]["interval"]) == pytest.approx(one["expected"], abs=1e-9)
    assert found["bootstrap"]["resamples"] == 20_000
    assert found["bootstrap"]["seed"] == report_["seed"]


def test_the_bootstrap_is_seeded_by_the_run_ids(tmp_path: Path) -> None:
    differences = [[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [1.0, 1.0], [0.0, -1.0], [1.0, 0.0], [1.0, -1.0]]
    places = of_differences(tmp_path / "once", differences)
    first, again = (text(places, "--method", "bootstrap", "--format", "json") for _ in range(2))
    assert first == again
    assert f"seed {json.loads(first)['seed']}" in text(places, "--method", "bootstrap")
    endings = {f"task-{n}": True for n in range(7)}
    other = write_run(tmp_path / "other", endings, run={"variant": "b", "variant_digest": "sha256:b"}).directory
    assert numbers((places[0], other), "--method", "bootstrap")["seed"] != json.loads(first)["seed"]


# --- words -------------------------------------------------------------------------------------------------------


def headline(places: tuple[Path, Path], *options: str) -> str:
    """Return the headline, which must be the same in JSON and Markdown."""
    said = str(numbers(places, *options)["headline"])
    assert said in text(places, *options).replace("**", "")
    return said


def test_better_but_borderline(tmp_path: Path) -> None:
    """In this example (Cavo 2012) mid-p is below 0.05, but the exact test is not."""
    places = of_table(tmp_path, 59, 6, 16, 80)
    assert headline(places) == (
        "B is better by 6.2 pp (95% CI +0.5 to +12.4 pp, McNemar mid-p = 0.0347). "
        "Borderline: the exact test is not significant (p = 0.0525)."
    )
    assert numbers(places)["verdict"] == "better"


def test_clearly_worse(tmp_path: Path) -> None:
    places = of_table(tmp_path, 7, 25, 2, 68)
    assert headline(places) == ("B is worse by 22.5 pp (95% CI -32.1 to -13.9 pp, McNemar mid-p < 0.0001).")
    assert numbers(places)["verdict"] == "worse"


def test_inconclusive_result_has_the_detectable_effect(tmp_path: Path) -> None:
    assert headline(of_table(tmp_path, 40, 10, 10, 40)) == (
        "Inconclusive: +0.0 pp (95% CI -9.2 to +9.2 pp, McNemar mid-p = 0.9119). Minimum detectable effect with 100 "
        "tasks: 12.4 pp at 80% power (at the observed discordance)."
    )


def test_too_few_discordant_tasks_for_significance(tmp_path: Path) -> None:
    said = headline(of_table(tmp_path, 10, 1, 3, 5))
    assert "The runs differ on 4 of 19 tasks, but the mid-p test requires at least 5 to reach significance." in said
    assert re.search(
        r"Minimum detectable effect with 19 tasks: 3\d\.\d pp at 80% power \(if all discordant tasks change", said
    )


def test_identical_runs_have_an_interval_of_nonzero_width(tmp_path: Path) -> None:
    places = of_table(tmp_path, 0, 0, 0, 100)
    said = headline(places)
    assert "Inconclusive: +0.0 pp (95% CI -3.7 to +3.7 pp" in said
    assert "The runs differ on 0 of 100 tasks" in said
    found = numbers(places)["detectable"]
    assert found["difference"] is None
    # The share at which five or more of 100 tasks differ with probability 0.8, since 2**-5 < 0.05.
    assert found["at_best"] == pytest.approx(0.0663, abs=1e-4)


def test_too_few_tasks_for_any_significance(tmp_path: Path) -> None:
    assert headline(of_table(tmp_path, 1, 0, 1, 0)).endswith(
        "The runs differ on 1 of 2 tasks, but the mid-p test requires at least 5 to reach significance. With so few "
        "tasks, no difference could reach significance."
    )


def test_headline_with_repeats(tmp_path: Path) -> None:
    differences = [[1.0] * 3 + [0.0]] * 7 + [[0.0, 0.0, 1.0, 0.0]] * 2
    places = of_differences(tmp_path, differences)
    said = headline(places, "--method", "bootstrap")
    assert said.startswith("B is better by 63.9 pp (95% CI ")
    assert said.endswith("pp, sign-flip p = 0.0039).")
    page = text(places, "--method", "bootstrap")
    assert "## Pairs" not in page
    assert "usually too narrow" in page


def test_identical_repeats_have_an_interval_of_nonzero_width(tmp_path: Path) -> None:
    places = of_differences(tmp_path, [[0.0, 0.0]] * 20)
    found = numbers(places, "--method", "bootstrap")["estimate"]
    assert found["interval_method"] == "identical"
    assert bounds(found["interval"]) == pytest.approx([-0.161125, 0.161125], abs=1e-6)
    assert found["bootstrap"]["degenerate"]
    assert headline(places, "--method", "bootstrap").endswith(
        "The runs differ on 0 of 20 tasks, but the exact test requires at least 6 to reach significance."
    )


def test_detectable_effect_with_repeats(tmp_path: Path) -> None:
    """Six tasks differ in both directions: (2.2622 + 0.8834) se, from t quantiles with 9 degrees of freedom."""
    differences = [[1.0, 0.0, 0.0]] * 3 + [[-1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 0.0]] * 4
    places = of_differences(tmp_path, differences)
    found = numbers(places, "--method", "bootstrap")
    se = (6 / 9 / 9 / 10) ** 0.5
    assert found["detectable"]["difference"] == pytest.approx(3.14561 * se, abs=1e-4)
    assert headline(places, "--method", "bootstrap").endswith(
        "Minimum detectable effect with 10 tasks: 27.1 pp at 80% power (at the observed spread)."
    )


@pytest.mark.parametrize("moved", [[[1.0, 1.0, 0.0]] * 4, [[1.0] + [0.0] * 6] + [[0.0] * 7] * 19])
def test_no_detectable_effect_if_sign_flips_cannot_be_significant(tmp_path: Path, moved: list[list[float]]) -> None:
    places = of_differences(tmp_path, moved)
    said = headline(places, "--method", "bootstrap")
    assert "but the exact test requires at least 6 to reach significance." in said
    assert "detectable effect" not in said
    found = numbers(places, "--method", "bootstrap")["detectable"]
    assert (found["difference"], found["least_nonzero"]) == (None, 6)
    assert "minimum detectable effect" not in text(places, "--method", "bootstrap")


def test_sign_flips_of_single_attempts_use_the_exact_test(tmp_path: Path) -> None:
    """The MDE is computed for the exact test, not the mid-p test."""
    places = of_table(tmp_path, 10, 4, 4, 12)
    by_flips, by_midp = (numbers(places, "--method", method)["detectable"] for method in ("bootstrap", "mcnemar"))
    for one, midp in ((by_flips, False), (by_midp, True)):
        assert exact_power(30, 0, one["at_best"], midp=midp) == pytest.approx(0.8, abs=1e-3)
    assert by_flips["at_best"] > by_midp["at_best"]
    assert (by_flips["least_nonzero"], by_midp["least_nonzero"]) == (6, 5)
    big = of_table(tmp_path / "big", 40, 10, 10, 40)
    effect = numbers(big, "--method", "bootstrap")["detectable"]["difference"]
    assert exact_power(100, 0.1 - effect / 2, 0.1 + effect / 2, midp=False) == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize(("method", "least"), [("mcnemar", 5), ("bootstrap", 6)])
def test_p_equal_to_the_level_is_not_significant(tmp_path: Path, method: str, least: int) -> None:
    """0.0625 is 2**-4 and also 2 times 2**-5."""
    few = of_table(tmp_path, 5, 0, least - 1, 5)
    found = numbers(few, "--method", method, "--confidence", "0.9375")
    assert (found["estimate"]["p"], found["verdict"]) == (0.0625, "undecided")
    assert found["detectable"]["least_nonzero"] == least
    more = of_table(tmp_path / "more", 5, 0, least, 5)
    assert numbers(more, "--method", method, "--confidence", "0.9375")["verdict"] == "better"


@pytest.mark.parametrize("tasks", [29, 30, 100])
def test_the_interval_with_repeats_is_one_method_for_any_number_of_tasks(tmp_path: Path, tasks: int) -> None:
    differences = [[float((n % 3) - 1), float(n % 2)] for n in range(tasks)]
    methods: tuple[Method, ...] = ("bootstrap", "means")
    for method in methods:
        question = Question(method=method, confidence=0.95, resamples=200, seed=1)
        found = estimate(align(*map(read, of_differences(tmp_path / method, differences))), question)
        assert (found.interval_method, found.interval) == ("tango_mean", tango_mean([sum(d) / 2 for d in differences]))
    page = text((tmp_path / "bootstrap/a", tmp_path / "bootstrap/b"), "--method", "bootstrap")
    assert "Means over tasks, with a Tango score interval for the effective number of tasks" in page


def test_one_small_difference_does_not_narrow_the_interval(tmp_path: Path) -> None:
    """20 equal tasks give ±16.1 pp. One failed attempt out of 140 must not give 1.5 pp."""
    moved = [[-1.0] + [0.0] * 6] + [[0.0] * 7] * 19
    found = numbers(of_differences(tmp_path, moved), "--method", "bootstrap")["estimate"]
    w, mean = 0.161125, -1 / 140
    assert bounds(found["interval"]) == pytest.approx([mean - w * (1 + mean), mean + w * (1 - mean)], abs=1e-5)
    assert found["task_means"]["interval"]["high"] < 0.01  # plain t


def test_bounds_are_not_narrower_than_the_observed_interval(tmp_path: Path) -> None:
    ends: Endings = {f"t{n:02}": [True, n % 2 == 0, n % 3 == 0] for n in range(40)}
    lost: Endings = {**ends, "t00": [None, True, True]}
    found = numbers(pair(tmp_path, ends, lost), "--method", "bootstrap")
    assert found["estimate"]["bootstrap"] is not None
    for case_ in ("worst", "best"):
        assert found[case_]["bootstrap"] is None
        low, high = bounds(found[case_]["interval"])
        assert high - low >= sum(map(abs, bounds(found["estimate"]["interval"]))) - 0.01


def test_significant_difference_with_0_in_the_interval_is_borderline(tmp_path: Path) -> None:
    """Six tasks improved by one of twenty attempts. Sign flips are significant, but the CI includes 0."""
    places = of_differences(tmp_path, [[1.0] + [0.0] * 19] * 6 + [[0.0] * 20] * 2)
    said = headline(places, "--method", "bootstrap")
    assert said.startswith("B is better by 3.8 pp")
    assert said.endswith("Borderline: the interval includes 0.")


def test_insignificant_difference_without_0_in_the_interval_is_borderline(tmp_path: Path) -> None:
    places = of_differences(tmp_path, [[1.0, 1.0, 1.0, 0.0]] * 2 + [[1.0, 1.0, 1.0, 1.0]] * 3)
    said = headline(places, "--method", "bootstrap")
    assert said.startswith("Inconclusive: +90.0 pp")
    assert "Borderline: the interval excludes 0, but the test is not significant, and the test decides." in said


@pytest.mark.parametrize("confidence", ["nan", "0.4", "0.9991", "0.9999999999999", "1", "inf"])
def test_invalid_confidence_levels_are_refused(tmp_path: Path, confidence: str) -> None:
    result = paired(of_table(tmp_path, 1, 1, 1, 1), "--confidence", confidence)
    assert result.exit_code == 2
    assert "--confidence" in result.output


def test_highest_confidence_level(tmp_path: Path) -> None:
    assert "99.9% CI" in headline(of_table(tmp_path, 9, 9, 9, 9), "--confidence", "0.999")


def test_too_few_resamples_are_refused(tmp_path: Path) -> None:
    """The differences of 40 tasks have many sizes; 5 / 0.005 is 1000."""
    places = of_differences(tmp_path, [[1.0] * (1 + n % 5) + [0.0] * (5 - n % 5) for n in range(40)])
    options = ("--method", "bootstrap", "--confidence", "0.995", "--resamples")
    result = paired(places, *options, "998")
    assert isinstance(result.exception, InputError)
    assert "with 998 resamples, the smallest possible p-value of the sign-flip test is 0.001" in str(result.exception)
    assert result.exception.remedy == "Use --resamples 999 or more."
    assert paired(places, *options, "999").exit_code == 0


def test_exhaustive_sign_flips_need_no_resamples(tmp_path: Path) -> None:
    places = of_table(tmp_path, 5, 5, 9, 5)
    assert paired(places, "--method", "bootstrap", "--confidence", "0.995", "--resamples", "100").exit_code == 0


def test_mcnemar_for_repeats_is_refused_with_all_other_reasons(tmp_path: Path) -> None:
    places = pair(tmp_path, {"x": [True, False], "y": [True, False]}, {"x": [True, True]})
    message = str(paired(places).exception)
    assert "The runs have different tasks" in message
    assert "McNemar's test requires one attempt per task" in message
    assert "--method bootstrap" in message


def test_mcnemar_is_refused_for_repeats_with_the_remedy(tmp_path: Path) -> None:
    result = paired(of_differences(tmp_path, [[0.0, 1.0]] * 3))
    assert isinstance(result.exception, InputError)
    assert "--method bootstrap" in result.exception.remedy


# --- missing attempts --------------------------------------------------------------------------------------------


def losing(root: Path) -> tuple[Path, Path]:
    """Write runs in which B is better on tasks with results, but lost 6 of 20 tasks. A passed 3 of them."""
    lost = FailureReason.SANDBOX_ERROR
    a = {f"task-{n:02}": n < 10 for n in range(20)}
    b: Endings = {f"task-{n:02}": lost if n in (7, 8, 9) else None if n > 16 else True for n in range(20)}
    return pair(root, a, b)


def test_missing_attempts_are_reported_and_bounded(tmp_path: Path) -> None:
    places = losing(tmp_path)
    found = numbers(places)
    assert (found["pairs"], found["complete_pairs"], len(found["incomplete"])) == (20, 14, 6)
    tables_ = [list(found[name]["table"].values()) for name in ("estimate", "worst", "best")]
    assert tables_ == [[7, 0, 7, 0], [7, 3, 7, 3], [10, 0, 10, 0]]
    assert [found[name]["verdict"] for name in ("estimate", "worst", "best")] == ["better", "undecided", "better"]
    assert not found["robust"]
    # Rates are over the tasks that count, so that their difference is the reported one.
    for side, passed in (("a", 7), ("b", 14)):
        assert found[side]["pass_rate"] == passed / 14
        assert found[side]["interval"] == attrs.asdict(wilson(passed, 14))
    assert headline(places).endswith(
        "6 of 20 tasks are incomplete. Worst case for B: +20.0 pp (p = 0.2266). Best case: +50.0 pp (p = 0.0010). In "
        "the worst case, the result would be inconclusive."
    )
    page = text(places)
    assert re.search(r"\| worst case for B +\| +20 \| 50.0% \| +70.0% \| \+20.0 pp", page)
    assert re.search(r"\| task-07 +\| passed +\| no score \(SANDBOX_ERROR\) +\|", page.partition("## Incomplete")[2])


def test_bounds_that_change_the_verdict_are_reported(tmp_path: Path) -> None:
    ends = {"a": "f" * 12 + "p" * 12, "b": "p" * 1 + "-" * 9 + "f" * 2 + "p" * 3 + "-" * 9}
    letters = {"p": True, "f": False, "-": None}
    a, b = ({f"t{n:02}": letters[letter] for n, letter in enumerate(one)} for one in ends.values())
    said = headline(pair(tmp_path, a, b))
    assert "In the worst case, B would be worse. In the best case, B would be better." in said


def test_tasks_invalid_in_both_runs_are_listed_and_not_counted(tmp_path: Path) -> None:
    none = FailureReason.BASELINE_NOT_FAILING
    places = pair(tmp_path, {"x": True, "y": none, "z": False}, {"x": True, "y": none, "z": True})
    found = numbers(places)
    assert (found["invalid"], found["incomplete"], found["pairs"]) == (["y"], [], 2)
    assert (found["worst"], found["best"], found["robust"]) == (None, None, True)
    assert [task["change"] for task in found["tasks"]] == ["same", "invalid", "improved"]
    assert (found["a"]["planned"], found["a"]["unscored"]) == (2, 0)
    page = text(places)
    assert "Invalid in both runs (the failing command passed before the agent started), not counted: y." in page
    assert "incomplete" not in headline(places)


def test_complete_runs_have_no_bounds(tmp_path: Path) -> None:
    found = numbers(of_table(tmp_path, 3, 2, 1, 4))
    assert (found["worst"], found["best"], found["robust"], found["incomplete"]) == (None, None, True, [])


def test_missing_attempts_among_repeats(tmp_path: Path) -> None:
    a: Endings = {"x": [True, False, None], "y": [False, False, False], "z": [None, None, None]}
    b: Endings = {"x": [True, True, True], "y": [True, FailureReason.LLM_ERROR, False], "z": [True, True, False]}
    found = numbers(pair(tmp_path, a, b), "--method", "bootstrap")
    assert (found["complete_pairs"], found["incomplete"]) == (2, ["x", "y", "z"])
    assert [found[name]["difference"] for name in ("estimate", "worst", "best")] == pytest.approx(
        [(1 / 2 + 1 / 2) / 2, (1 / 3 + 1 / 3 - 1 / 3) / 3, (2 / 3 + 2 / 3 + 2 / 3) / 3]
    )


def test_pass_rates_are_over_the_tasks_that_count(tmp_path: Path) -> None:
    lost = FailureReason.LLM_ERROR
    found = numbers(pair(tmp_path, {"x": True, "y": lost, "z": False}, {"x": True, "y": False, "z": True}))
    assert (found["a"]["pass_rate"], found["b"]["pass_rate"]) == (0.5, 1.0)
    assert (found["a"]["scored"], found["b"]["scored"]) == (2, 3)


def test_run_without_scores_cannot_be_compared(tmp_path: Path) -> None:
    places = pair(tmp_path, {"x": True, "y": False}, {"x": None, "y": FailureReason.SETUP_FAILED})
    assert headline(places) == "No comparison is possible: no task has a score in both runs. " + (
        "2 of 2 tasks are incomplete. Worst case for B: -50.0 pp (p = 0.5000). Best case: +50.0 pp (p = 0.5000). The "
        "verdict is the same in both cases."
    )
    for method in ("mcnemar", "bootstrap"):
        found = numbers(places, "--method", method)["estimate"]
        assert (found["difference"], found["p"], bounds(found["interval"])) == (None, 1.0, [-1.0, 1.0])
        assert found["interval_method"] == "none"
        assert "| complete pairs only |" in text(places, "--method", method)


def test_tasks_in_only_one_run_are_listed(tmp_path: Path) -> None:
    places = pair(tmp_path, {"x": True, "y": True}, {"y": True, "z": True})
    page = text(places, "--allow-different-tasks")
    assert "Only in A, not counted: x." in page
    assert "Only in B, not counted: z." in page


# --- changed tasks -----------------------------------------------------------------------------------------------


def moved(root: Path) -> tuple[Path, Path]:
    timeout, gave_up = FailureReason.TIMEOUT, FailureReason.AGENT_GAVE_UP

    def files(record: AttemptRecord) -> Mapping[str, str]:
        patch = f"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+by {record.variant} ``` \x1b[31m\n"
        return {} if record.task_id == "none" else {"diffs/final.patch": patch * (30 if record.task_id == "up" else 1)}

    a: Endings = {"up": timeout, "down": True, "same": True, "other": timeout, "none": True}
    b: Endings = {"up": True, "down": gave_up, "same": True, "other": False, "none": False}
    return pair(root, a, b, files=files)


def test_regressions_and_improvements_have_reasons_and_diffs(tmp_path: Path) -> None:
    places = moved(tmp_path)
    page = resolved(text(places))
    a, b = (f"{place}/tasks" for place in places)
    regressed, improved = page.partition("## Regressed")[2].partition("## Improved")[0::2]
    links = f"[A]({a}/down/diffs/final.patch) [B]({b}/down/diffs/final.patch)"
    assert re.search(rf"\| down +\| passed +\| AGENT\\?_GAVE\\?_UP +\| {re.escape(links)} \|", regressed)
    assert re.search(r"\| none +\| passed +\| TESTS\\?_FAILED +\| +\|", regressed)
    assert re.search(r"\| up +\| TIMEOUT +\| passed +\| \[A\]", improved)
    assert "same" not in regressed + improved.partition("## Failure reasons")[0]
    found = numbers(places)
    changes = {task["task_id"]: task["change"] for task in found["tasks"]}
    assert changes == {"down": "regressed", "none": "regressed", "other": "same", "same": "same", "up": "improved"}
    assert found["reasons"] == [
        {"reason": "TESTS_FAILED", "a": 0, "b": 2},
        {"reason": "TIMEOUT", "a": 2, "b": 0},
        {"reason": "AGENT_GAVE_UP", "a": 0, "b": 1},
    ]
    assert found["moves"][-1] == {"a": "passed", "b": "TESTS_FAILED", "tasks": 1}
    assert sum(move["tasks"] for move in found["moves"]) == 4
    down = next(task for task in found["tasks"] if task["task_id"] == "down")
    assert down["a"]["diffs"] == [{"repeat": 1, "result": "passed", "path": "tasks/down/diffs/final.patch"}]


def test_diffs_are_printed_on_demand_and_cut(tmp_path: Path) -> None:
    places = moved(tmp_path)
    assert "+by a" not in text(places)
    page = text(places, "--diffs")
    down = page.partition("## Diffs of down (regressed)")[2].partition("## Diffs of none")[0]
    assert "A (passed):\n\n````diff\n--- a/x.py\n" in down
    assert "+by a ``` \\u001b[31m\n````" in down
    assert "B (AGENT" in down
    assert "+by b" in down
    assert "A (passed) has no diff." in page
    up = page.partition("## Diffs of up (improved)")[2]
    assert up.count("[... 50 lines omitted ...]") == 2
    assert "\x1b" not in page


def test_diffs_of_repeats_are_named_by_their_number(tmp_path: Path) -> None:
    places = pair(
        tmp_path, {"x": [True] * 5}, {"x": [False] * 5},
        files=lambda record: {} if record.repeat == 2 else {"diffs/final.patch": f"attempt {record.repeat}"},
    )  # fmt: skip
    (task,) = numbers(places, "--method", "bootstrap")["tasks"]
    assert [diff["path"] for diff in task["b"]["diffs"]] == [
        "tasks/x/diffs/final.patch", "tasks/x@3/diffs/final.patch",
    ]  # fmt: skip
    page = resolved(text(places, "--method", "bootstrap", "--diffs"))
    assert f"[B@3 failed]({places[1]}/tasks/x@3/diffs/final.patch)" in page
    assert "B@1 failed (0 of 5, TESTS_FAILED x5):\n\n```diff\nattempt 1\n```" in page.replace("\\_", "_")


def test_diff_outside_the_run_is_not_read(tmp_path: Path) -> None:
    places = moved(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    patch = places[1] / "tasks" / "down" / "diffs" / "final.patch"
    patch.unlink()
    patch.symlink_to(secret)
    page = text(places, "--diffs")
    assert "secret" not in page
    assert "tasks/down/diffs" not in page.partition("[2]: ")[2].replace(f"{places[0]}/tasks/down", "")
    assert "B (AGENT" in page
    down = next(task for task in numbers(places)["tasks"] if task["task_id"] == "down")
    assert not down["b"]["diffs"]


def test_task_name_with_a_path_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    name = "../../outside"
    places = pair(tmp_path, {name: True}, {name: False})
    patch = tmp_path / "outside" / "diffs" / "final.patch"
    patch.parent.mkdir(parents=True, exist_ok=True)
    patch.write_text("secret")
    (places[0] / "tasks").mkdir(exist_ok=True)
    (task,) = numbers(places)["tasks"]
    assert (task["a"]["diffs"], task["b"]["diffs"]) == ([], [])
    assert "secret" not in text(places, "--diffs")


def test_diffs_of_repeats_that_changed_come_first(tmp_path: Path) -> None:
    """One task regressed in one of six attempts. The other improved in its last attempt."""
    a: Endings = {"down": [True] * 6, "up": [False] * 6}
    b: Endings = {"down": [True] * 4 + [False, FailureReason.LLM_ERROR], "up": [False] * 5 + [True]}
    places = pair(
        tmp_path, a, b, files=lambda record: {"diffs/final.patch": f"{record.variant} {record.task_id} {record.repeat}"}
    )
    tasks = {task["task_id"]: task for task in numbers(places, "--method", "bootstrap")["tasks"]}
    chosen = {
        (name, side): [(diff["repeat"], diff["result"]) for diff in tasks[name][side]["diffs"]]
        for name in tasks
        for side in "ab"
    }
    assert chosen == {
        ("down", "a"): [(1, "passed"), (2, "passed"), (3, "passed")],
        ("down", "b"): [(5, "failed"), (1, "passed"), (2, "passed")],
        ("up", "a"): [(1, "failed"), (2, "failed"), (3, "failed")],
        ("up", "b"): [(6, "passed"), (1, "failed"), (2, "failed")],
    }
    page = text(places, "--method", "bootstrap", "--diffs")
    assert re.findall(r"diff\n(\w+ \w+ \d)\n", page) == ["a down 1", "b down 5", "a up 1", "b up 6"]
    assert "B@6 passed (1 of 6" in page


def test_printed_diffs_are_bounded(tmp_path: Path) -> None:
    places = pair(
        tmp_path, {f"t{n:02}": True for n in range(25)}, {f"t{n:02}": False for n in range(25)},
        files=lambda record: {"diffs/final.patch": "x" * 3000},
    )  # fmt: skip
    page = text(places, "--diffs")
    assert page.count("x" * 400 + " [... 2600 characters omitted ...]") == 2 * 20
    assert "x" * 401 not in page
    assert "The diffs of 5 more tasks are not printed." in page


@pytest.mark.parametrize("content", ["", "`", "````\nx\n`````", "~~~\r\n\x85\u2028"])
def test_diff_cannot_end_its_code_block(content: str) -> None:
    first, *lines, last = fenced(content).splitlines()
    assert first == f"{last}diff"
    assert set(last) == {"`"}
    assert not any(last in line for line in lines)


def test_a_long_list_is_cut_in_markdown_only(tmp_path: Path) -> None:
    places = of_table(tmp_path, 0, 0, 60, 0)
    assert "... and 10 more." in text(places)
    assert len(text(places, "--format", "csv").splitlines()) == 61


# --- formats -----------------------------------------------------------------------------------------------------

HOSTILE = "=HYPERLINK(1)|<img src=x>\n\x1b[31m# head\r,x\u202e"


def test_csv_has_a_row_per_pair(tmp_path: Path) -> None:
    rows = {row["task"]: row for row in csv.DictReader(io.StringIO(text(moved(tmp_path), "--format", "csv")))}
    assert rows["up"]["change"] == "improved"
    assert rows["up"]["difference"] == "1.0"
    assert (rows["up"]["passed_a"], rows["up"]["reasons_a"], rows["up"]["passed_b"]) == ("0", "TIMEOUT", "1")
    assert rows["up"]["diffs_b"] == "tasks/up/diffs/final.patch"
    assert rows["same"]["diffs_a"] == ""


def test_csv_reports_overrides_on_stderr(tmp_path: Path) -> None:
    places = pair(tmp_path, {"x": True, "y\n\x1b": True}, {"x": True})
    result = paired(places, "--allow-different-tasks", "--format", "csv")
    assert [row["task"] for row in csv.DictReader(io.StringIO(result.stdout))] == ["x"]
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: A and B are not comparable (overridden by --allow-different-tasks): The runs")
    assert "\x1b" not in line
    assert paired(places, "--allow-different-tasks").stderr == ""


def test_singular_for_one_task(tmp_path: Path) -> None:
    assert "Pass rates are over 1 task with a score in both runs." in text(of_table(tmp_path, 1, 0, 0, 0))


def hostile(root: Path) -> tuple[Path, Path]:
    def named(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, artifact_paths={})

    for name, end in (("a", True), ("b", False)):
        run = {"variant": HOSTILE + name, "variant_digest": name, "agent": HOSTILE, "run_id": HOSTILE + name}
        write_run(root / name, {HOSTILE: end, "\ud800": None}, run=run, record=named)
    return root / "a", root / "b"


def assert_whole_tables(page: str) -> None:
    """Check that every table row has as many cells as its header."""
    cells = 0
    for line in page.splitlines():
        if line.startswith("|"):
            found = re.sub(r"\\.", "", line).count("|")
            assert found == (cells or found), line
            cells = found
        else:
            cells = 0


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    places = hostile(tmp_path)
    page = text(places)
    assert not {"\x1b", "\r", "\u202e"} & set(page)
    assert "<img" not in page.replace("\\<", "")
    assert "\n# head" not in page
    assert page.count("\n# ") + page.startswith("# ") == 1
    assert_whole_tables(page)
    rows = list(csv.DictReader(io.StringIO(text(places, "--format", "csv"), newline="")))
    assert [row["task"] for row in rows] == ["'" + HOSTILE.replace("\x1b", "").replace("\u202e", ""), ""]
    assert numbers(places)["tasks"][0]["task_id"] == HOSTILE


def test_a_name_that_is_too_long_for_a_file(tmp_path: Path) -> None:
    places = pair(tmp_path, {"x" * 300: True}, {"x" * 300: False})
    assert "x" * 300 in text(places, "--diffs")


def test_the_same_numbers_in_every_format(tmp_path: Path) -> None:
    found = numbers(of_table(tmp_path, 59, 6, 16, 80))
    page = text((tmp_path / "a", tmp_path / "b"))
    assert f"| {found['estimate']['p']:.4f} |" in page
    assert re.search(r"\| A passed \| +59 \| +6 \|\n\| A failed \| +16 \| +80 \|", page)
    assert "minimum detectable effect: 8.1 pp at 80% power" in page


def test_invalid_run_directory_is_refused(tmp_path: Path) -> None:
    assert isinstance(paired((tmp_path, tmp_path)).exception, InputError)
