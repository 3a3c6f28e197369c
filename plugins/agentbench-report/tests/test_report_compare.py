"""``agentbench report compare``: any number of runs side by side, adjusted for multiple comparisons."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from agentbench_core import AttemptRecord, FailureReason, InputError
from agentbench_report.command import report
from agentbench_testing import write_run

CASES = json.loads((Path(__file__).parent / "reference.json").read_text())["cases"]


def made(directory: Path, endings: Mapping[str, Any], **how: Any) -> Path:
    fields = {"variant": directory.name, "variant_digest": f"sha256:{directory.name}", **how.pop("run", {})}
    write_run(directory, endings, run=fields, **how)
    return directory


def runs(root: Path, **endings: str) -> list[Path]:
    """Write runs from one letter per task: passed, failed, broken (no score) or not recorded."""
    ends = {"p": True, "f": False, "b": FailureReason.SANDBOX_ERROR, "-": None}
    return [
        made(root / name, {f"task-{n:02}": ends[letter] for n, letter in enumerate(letters)})
        for name, letters in endings.items()
    ]


def compared(*arguments: str | Path) -> Result:
    return CliRunner().invoke(report, ["compare", *map(str, arguments)])


def text(*arguments: str | Path) -> str:
    result = compared(*arguments)
    assert result.exit_code == 0, result.exception or result.output
    return result.output


def numbers(*arguments: str | Path) -> Any:
    return json.loads(text(*arguments, "--format", "json"))


def against(found: Any) -> dict[str, Any]:
    return {run["label"]: run["against"] for run in found["runs"]}


THREE = {
    "base": "ppppffffffffffffffffffffffffff",
    "good": "pppppppppppppppfffffffffffffff",
    "fair": "pppppppppfffffffffffffffffffff",
}


def test_each_run_is_compared_with_the_baseline_and_adjusted(tmp_path: Path) -> None:
    """With 11 and 5 improvements, mid-p is 2**-11 and 2**-5. Holm doubles the first."""
    found = numbers("--runs", *runs(tmp_path, **THREE))
    assert found["baseline"] == "base"
    rows = against(found)
    assert rows["base"] is None
    assert [rows[name]["estimate"]["p"] for name in ("good", "fair")] == pytest.approx([2**-11, 2**-5])
    assert [rows[name]["p_holm"] for name in ("good", "fair")] == pytest.approx([2 * 2**-11, 2**-5])
    assert [rows[name]["verdict"] for name in ("good", "fair")] == ["better", "better"]
    assert [run["side"]["pass_rate"] for run in found["runs"]] == pytest.approx([4 / 30, 15 / 30, 9 / 30])


def test_significance_may_be_lost_by_the_adjustment(tmp_path: Path) -> None:
    """Two runs with p = 2**-5 each are adjusted to 2**-4, above 0.05."""
    places = runs(tmp_path, base=THREE["base"], fair=THREE["fair"], also=THREE["fair"])
    rows = against(numbers("--runs", *places))
    assert [rows[name]["p_holm"] for name in ("fair", "also")] == pytest.approx([2**-4, 2**-4])
    assert {rows[name]["verdict"] for name in ("fair", "also")} == {"undecided"}
    assert rows["fair"]["estimate"]["verdict"] == "better"
    assert against(numbers("--runs", *places[:2]))["fair"]["verdict"] == "better"


def test_detectable_effect_uses_the_adjusted_level(tmp_path: Path) -> None:
    places = runs(tmp_path, **THREE, same=THREE["base"])
    page = text("--runs", *places)
    assert "- good is **better** than base by 36.7 pp (95% CI " in page
    assert "- same: inconclusive, +0.0 pp (95% CI " in page
    assert "The runs differ on 0 of 30 tasks, but the mid-p test requires at least 6 to reach significance." in page
    seen = against(numbers("--runs", *places))["same"]["detectable"]
    assert seen["alpha"] == pytest.approx(0.05 / 3)
    alone = against(numbers("--runs", places[0], places[3]))["same"]["detectable"]
    assert alone["alpha"] == pytest.approx(0.05)
    assert alone["at_best"] < seen["at_best"]


def test_cochran_q_equals_the_reference(tmp_path: Path) -> None:
    (one,) = [case for case in CASES if case["function"] == "cochran_q"]
    columns = zip(*one["inputs"]["matrix"], strict=True)
    places = [
        made(tmp_path / f"v{n}", {f"task-{task}": bool(passed) for task, passed in enumerate(column)})
        for n, column in enumerate(columns)
    ]
    omnibus = numbers("--runs", *places)["omnibus"]
    assert [omnibus["q"], omnibus["p"]] == pytest.approx(one["expected"], abs=one["tolerance"])
    assert omnibus["tasks"] == 10
    assert "Test for any difference among the runs (Cochran's Q over 10 tasks): Q = 6.00, p = 0.0498." in text(
        "--runs", *places
    )
    assert numbers("--runs", *places[:2])["omnibus"] is None


def test_two_runs_give_the_same_result_as_paired(tmp_path: Path) -> None:
    places = runs(tmp_path, a="ppppffffpbf-", b="pppfpppppppb")
    options = ["--run-a", str(places[0]), "--run-b", str(places[1]), "--format", "json"]
    pair = json.loads(CliRunner().invoke(report, ["paired", *options]).output)
    found = against(numbers("--runs", *places))["b"]
    assert [found[name] for name in ("estimate", "worst", "best")] == [
        pair[name] for name in ("estimate", "worst", "best")
    ]
    assert (found["complete_pairs"], found["incomplete"]) == (pair["complete_pairs"], len(pair["incomplete"]))
    assert found["p_holm"] == pair["estimate"]["p"]
    assert found["detectable"] == pair["detectable"]


def test_repeats_are_compared_by_task(tmp_path: Path) -> None:
    endings = [{f"task-{n}": [n < 2, False, n < low] for n in range(8)} for low in (0, 8)]
    places = [made(tmp_path / name, one) for name, one in zip(("a", "b"), endings, strict=True)]
    found = against(numbers("--runs", *places, made(tmp_path / "c", endings[0])))
    assert found["b"]["estimate"]["table"] is None
    assert found["b"]["estimate"]["p_method"] == "sign_flip"
    assert found["b"]["estimate"]["difference"] == pytest.approx(1 / 3)
    page = text("--runs", *places)
    assert "Means over tasks, with Tango score intervals over tasks and sign-flip tests." in page
    assert "Cochran" not in page
    assert re.search(r"\| task-0 +\| 1 of 3 +\| 2 of 3 +\|", page)


# --- which runs --------------------------------------------------------------------------------------------------


def test_spellings_of_the_runs_option(tmp_path: Path) -> None:
    a, b, c = runs(tmp_path, **THREE)
    expected = text("--runs", a, b, c, "--format", "csv")
    spellings: tuple[list[str | Path], ...] = (
        ["--runs", a, "--runs", b, "--runs", c, "--format", "csv"],
        ["--format", "csv", "--runs", a, b, c],
        ["--runs", a, b, "--format", "csv", "--runs", c],
        [f"--runs={a}", "--runs", b, c, "--format=csv"],
        [f"--runs={a}", b, c, "--format", "csv"],
        ["--runs", a, b, c, "--format", "csv", "--baseline", a],
    )
    for arguments in spellings:
        assert text(*arguments) == expected


@pytest.mark.parametrize(
    "arguments", [[], ["--runs"], ["--runs", "--format", "csv"], ["--runs", "{a}", "--format", "csv", "{b}"]]
)
def test_invalid_lists_of_runs_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    a, b, _ = runs(tmp_path, **THREE)
    refused = compared(*(argument.format(a=a, b=b) for argument in arguments))
    assert refused.exit_code == 2 or isinstance(refused.exception, InputError)


def test_any_run_can_be_the_baseline(tmp_path: Path) -> None:
    a, b, c = runs(tmp_path, **THREE)
    found = numbers("--runs", a, b, c, "--baseline", b)
    assert found["baseline"] == "good"
    assert [run["label"] for run in found["runs"]] == ["base", "good", "fair"]
    assert against(found)["base"]["verdict"] == "worse"
    outside = numbers("--runs", a, c, "--baseline", b)
    assert [run["label"] for run in outside["runs"]] == ["good", "base", "fair"]
    assert outside["baseline"] == "good"


def test_runs_of_one_name_are_numbered(tmp_path: Path) -> None:
    endings = {"x": True, "y": False}
    same = {"variant": "v", "variant_digest": "sha256:v"}
    places = [made(tmp_path / name, endings, run=same if name != "c" else {}) for name in "abc"]
    found = numbers("--runs", *places)
    assert [run["label"] for run in found["runs"]] == ["v #1", "v #2", "c"]
    assert against(found)["v #2"]["same_variant"]
    assert "v #2 (B) against v #1 (A):\n\n- Both runs use the same variant, so differences are noise" in text(
        "--runs", *places
    )


def test_numbered_names_do_not_collide(tmp_path: Path) -> None:
    places = [
        made(tmp_path / place, {"x": True}, run={"variant": name, "variant_digest": place})
        for place, name in zip("abc", ("x", "x", "x #1"), strict=True)
    ]
    labels = [run["label"] for run in numbers("--runs", *places)["runs"]]
    assert labels == ["x #2", "x #3", "x #1"]


def test_single_run_is_refused(tmp_path: Path) -> None:
    assert isinstance(compared("--runs", *runs(tmp_path, a="pf")).exception, InputError)


def test_a_run_that_is_given_twice(tmp_path: Path) -> None:
    a, b, _ = runs(tmp_path, **THREE)
    assert "the same run is given more than once: good #1, good #2" in str(compared("--runs", a, b, b).exception)
    assert "this cannot be overridden" in str(compared("--runs", a, a, b).exception)


def test_all_refusals_of_all_runs_are_reported_at_once(tmp_path: Path) -> None:
    a, b, c = runs(tmp_path, a="pf", b="pfp", c="pf")

    def replayed(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, replayed=True)

    d = made(tmp_path / "d", {"task-00": True, "task-01": True}, record=replayed)
    message = str(compared("--runs", a, b, c, d).exception)
    assert "A: a and B: b are not comparable:\n- The runs have different tasks" in message
    assert "A: a and B: d are not comparable:\n- Model responses were replayed" in message
    assert "B: c" not in message
    assert message.endswith("Flags that override these refusals: --allow-different-tasks --allow-replayed")
    page = text("--runs", a, b, c, d, "--allow-different-tasks", "--allow-replayed")
    assert "b (B) against a (A), **not comparable (overridden by flags)**:\n\n- `--allow-different-tasks`: " in page
    assert "Not in all runs and not counted: 1 task." in page


def test_only_tasks_that_all_runs_have_count(tmp_path: Path) -> None:
    """Otherwise, a run with easier tasks would look better."""
    places = [made(tmp_path / name, dict.fromkeys(tasks, True) | {"x": False}) for name, tasks in
              (("a", "wxyz"), ("b", "xyz"), ("c", "wxy"))]  # fmt: skip
    found = numbers("--runs", *places, "--allow-different-tasks")
    assert [task["task_id"] for task in found["tasks"]] == ["x", "y"]
    assert found["left_out"] == 2
    assert [run["side"]["pass_rate"] for run in found["runs"]] == [0.5, 0.5, 0.5]
    assert {row["estimate"]["tasks"] for row in against(found).values() if row} == {2}


def test_runs_without_a_task_in_common(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a", {"x": True}), made(tmp_path / "b", {"y": True})
    page = text("--runs", a, b, "--allow-different-tasks")
    assert "- b: no comparison is possible, because no task has a score in both runs." in page
    result = compared("--runs", a, b, "--allow-different-tasks", "--format", "csv")
    assert result.stdout.count("\n") == 3
    assert "warning: a (A) and b (B) are not comparable (overridden by --allow-different-tasks): The" in result.stderr
    row = list(csv.DictReader(io.StringIO(result.stdout)))[1]
    assert (row["pairs"], row["worst"], row["overridden"]) == ("0", "", "different-tasks")


# --- formats -----------------------------------------------------------------------------------------------------


def test_csv_side_by_side(tmp_path: Path) -> None:
    places = runs(tmp_path, base="ppff", other="pp-b")
    rows = list(csv.DictReader(io.StringIO(text("--runs", *places, "--format", "csv"))))
    assert [row["run"] for row in rows] == ["base", "other"]
    assert (rows[0]["baseline"], rows[0]["difference"], rows[0]["pass_rate"]) == ("yes", "", "1.0")
    assert (rows[1]["tasks"], rows[1]["rated"], rows[1]["pairs"], rows[1]["incomplete"]) == ("4", "2", "2", "2")
    assert (rows[1]["worst"], rows[1]["best"], rows[1]["robust"]) == ("0.0", "0.5", "yes")
    assert (rows[0]["pairs"], rows[1]["overridden"], rows[1]["warnings"]) == ("", "", "0")
    assert (rows[1]["scored"], rows[1]["unscored"], rows[1]["not_recorded"], rows[1]["pass_rate"]) == (
        "2",
        "1",
        "1",
        "1.0",
    )
    assert (rows[1]["difference"], rows[1]["p_holm"], rows[1]["verdict"]) == ("0.0", "1.0", "undecided")
    tasks = list(csv.DictReader(io.StringIO(text("--runs", *places, "--format", "csv", "--table", "tasks"))))
    assert [row["missing other"] for row in tasks] == ["0", "0", "1", "1"]
    assert [row["passed base"] for row in tasks] == ["1", "1", "0", "0"]


def test_missing_attempts_are_bounded(tmp_path: Path) -> None:
    page = text("--runs", *runs(tmp_path, base="ppff", other="pp-b"))
    row = next(line for line in page.splitlines() if line.startswith("| other") and "undecided" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:4] == ["other", "2", "2", "+0.0 pp"]
    assert cells[-2:] == ["+0.0 pp", "+50.0 pp"]
    assert re.search(r"\| task-02 +\| failed +\| no score +\|", page)


def test_missing_attempts_are_shown_with_the_verdict(tmp_path: Path) -> None:
    """12 of 88 tasks improved. The 12 missing tasks had all passed in the baseline."""
    places = runs(tmp_path, base="p" * 50 + "f" * 50, lost="-" * 12 + "p" * 38 + "f" * 38 + "p" * 12)
    page = text("--runs", *places)
    assert "- lost is **better** than base by 13.6 pp" in page
    assert (
        "12 of 100 tasks are incomplete. Worst case for this run: +0.0 pp (p = 0.9194). Best case: +12.0 pp (p = "
        "0.0002). In the worst case, the result would be inconclusive." in page
    )
    found = against(numbers("--runs", *places))["lost"]
    assert not found["robust"]
    row = list(csv.DictReader(io.StringIO(text("--runs", *places, "--format", "csv"))))[1]
    assert (row["pairs"], row["worst"], row["best"], row["robust"]) == ("88", "0.0", "0.12", "no")


def test_bounds_are_adjusted_like_the_verdict(tmp_path: Path) -> None:
    """In the best case, 6 of 30 tasks improved, with a p of 2**-6, which Holm doubles."""
    places = runs(tmp_path, base="f" * 30, one="p" * 5 + "b" + "f" * 24, two="p" * 5 + "f" * 25)
    found = against(numbers("--runs", *places))["one"]
    assert found["best"]["verdict"] == "better"
    assert found["verdict"] == "undecided"
    assert "Best case: +20.0 pp (p = 0.0312). In the best case, this run would be better." in found["about_missing"]
    assert not found["robust"]


def test_pass_rates_use_tasks_with_a_score_in_every_run(tmp_path: Path) -> None:
    """Otherwise, a run that lost the hard tasks would have a pass rate of 100%."""
    places = runs(tmp_path, base="pppppfffff", lost="pppppbbbbb", other="pppppfffff")
    found = numbers("--runs", *places)
    assert [run["side"]["pass_rate"] for run in found["runs"]] == [1.0, 1.0, 1.0]
    assert "Pass rates are over 5 tasks with a score in every run" in text("--runs", *places)


def test_tasks_invalid_in_both_runs_are_listed_and_not_counted(tmp_path: Path) -> None:
    none = FailureReason.BASELINE_NOT_FAILING
    places = [made(tmp_path / name, {"x": True, "y": none, "z": name == "a"}) for name in "ab"]
    found = against(numbers("--runs", *places))["b"]
    assert (found["invalid"], found["incomplete"], found["worst"], found["robust"]) == (["y"], 0, None, True)
    assert "- invalid in both runs and not counted: y" in text("--runs", *places)


def test_cochran_uses_tasks_with_a_score_in_every_run(tmp_path: Path) -> None:
    places = runs(tmp_path, a="ppffpb", b="pfpfpp", c="ppppfp")
    assert numbers("--runs", *places)["omnibus"]["tasks"] == 5


def many(root: Path, *names: str) -> list[Path]:
    """Write runs with repeats whose differences have many sizes, too many to enumerate all sign flips."""
    ends = {
        name: {f"task-{n:02}": [repeat < n * (2 * k + 1) % 7 for repeat in range(6)] for n in range(40)}
        for k, name in enumerate(names)
    }
    return [made(root / name, ends[name]) for name in names]


def test_too_few_resamples_for_the_comparisons_are_refused(tmp_path: Path) -> None:
    places = many(tmp_path, "a", "b", "c")
    options = ("--confidence", "0.99", "--resamples")
    error = compared("--runs", *places, *options, "998").exception
    assert isinstance(error, InputError)
    assert error.remedy == "Use --resamples 999 or more."
    assert compared("--runs", *places, *options, "999").exit_code == 0
    assert compared("--runs", *places[:2], *options, "499").exit_code == 0
    assert isinstance(compared("--runs", *places[:2], *options, "498").exception, InputError)


def test_each_comparison_has_its_own_seed(tmp_path: Path) -> None:
    places = many(tmp_path, "a", "b")
    pair = ["--run-a", str(places[0]), "--run-b", str(places[1]), "--method", "bootstrap", "--format", "json"]
    expected = json.loads(CliRunner().invoke(report, ["paired", *pair]).output)["estimate"]["sign_flip"]
    found = against(numbers("--runs", *places))["b"]["estimate"]["sign_flip"]
    assert not found["exact"]
    assert found == expected


def test_tasks_that_differ_come_first(tmp_path: Path) -> None:
    page = text("--runs", *runs(tmp_path, a="ppffp", b="ppfpp"))
    tasks = re.findall(r"^\| (task-\d+)", page, re.MULTILINE)
    assert tasks == ["task-03", "task-00", "task-01", "task-02", "task-04"]


HOSTILE = "=HYPERLINK(1)|<img src=x>\n\x1b[31m# head\r,x\u202e"


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    names = [{"variant": HOSTILE + end, "variant_digest": end, "suite": HOSTILE, "agent": HOSTILE} for end in "ab"]
    places = [made(tmp_path / str(n), {HOSTILE: bool(n)}, run=run) for n, run in enumerate(names)]
    page = text("--runs", *places)
    for shown in (page, *(text("--runs", *places, "--format", "csv", "--table", table) for table in ("runs", "tasks"))):
        assert not {"\x1b", "\u202e"} & set(shown)
    assert "<img" not in page.replace("\\<", "")
    assert page.count("\n# ") == 0
    heads = [line for line in page.splitlines() if line.startswith("|-")]
    assert len(heads) == 5
    for head in heads:
        width = head.count("|")
        body = page.partition(head)[2].lstrip("\n").partition("\n\n")[0].splitlines()
        assert {re.sub(r"\\.", "", line).count("|") for line in body if line.startswith("|")} == {width}
    rows = list(csv.DictReader(io.StringIO(text("--runs", *places, "--format", "csv"), newline="")))
    assert [row["run"][:12] for row in rows] == ["'=HYPERLINK("] * 2
    assert numbers("--runs", *places)["tasks"][0]["task_id"] == HOSTILE
