"""Quarantined tasks and suspect attempts are reported, whether or not the headline includes them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from agentbench_core import AttemptRecord, FailureReason, InputError, Label
from agentbench_core.inputs.quarantine import wilson as of_the_core
from agentbench_report.command import report
from agentbench_report.reading import read
from agentbench_report.statistics import wilson
from agentbench_testing import write_run

WHY = "2 of 20 checks flaked in docker, 10.0% (95% CI 2.8% to 30.1%), 2026-01-01"
Endings = Mapping[str, Any]


def labelled(**names: str) -> Callable[[AttemptRecord], AttemptRecord]:
    """Return a function that gives each named task a label."""

    def label(one: AttemptRecord) -> AttemptRecord:
        name = names.get(one.task_id)
        return attrs.evolve(one, labels=(Label(name=name),)) if name else one

    return label


def make(
    directory: Path,
    endings: Endings,
    quarantined: Collection[str] = (),
    record: Callable[[AttemptRecord], AttemptRecord] = lambda one: one,
    why: str = WHY,
) -> Path:
    """Write a run with quarantined tasks."""
    name = directory.name
    variant = {"variant": name, "variant_digest": f"sha256:{name}"}
    write_run(directory, endings, record=record, run=variant, quarantined=dict.fromkeys(quarantined, why))
    return directory


def output(*arguments: str | Path) -> str:
    result = CliRunner().invoke(report, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return result.output


def numbers(*arguments: str | Path) -> Any:
    return json.loads(output(*arguments, "--format", "json"))


@given(st.integers(0, 300).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))), st.floats(0.5, 0.999))
def test_the_core_has_the_same_interval(counts: tuple[int, int], confidence: float) -> None:
    ours = wilson(*counts, confidence)
    assert of_the_core(*counts, confidence) == pytest.approx((ours.low, ours.high), abs=1e-12)


# --- one run -----------------------------------------------------------------------------------------------------


@pytest.fixture
def quarantined_run(tmp_path: Path) -> Path:
    """A run that passed three of five tasks. Two tasks are quarantined, and one of them passed."""
    return make(
        tmp_path / "run", {"a": True, "b": True, "c": False, "d": True, "e": False}, ("d", "e"), labelled(d="oracle")
    )


def test_summary_lists_quarantined_tasks(quarantined_run: Path) -> None:
    text = output("summary", "--run", quarantined_run)
    assert "**Pass rate 66.7%** (2 of 3 scored attempts), 95% CI 20.8% to 93.9% (Wilson)." in text
    assert (
        "2 of 5 tasks are quarantined and not counted. Including them: 60.0% (3 of 5 scored attempts), 95% CI "
        "23.1% to 88.2% (Wilson)." in text
    )
    assert f"\n- d: {WHY}\n- e: {WHY}\n" in text
    assert re.search(r"\| \[d\]\[4\] .* \| oracle, quarantined +\|", text)
    assert "| c " in text.partition("## Hardest")[2].partition("## Tasks")[0]
    assert "| e " not in text.partition("## Hardest")[2].partition("## Tasks")[0]


def test_numbers_exclude_quarantined_tasks(quarantined_run: Path) -> None:
    found = numbers("summary", "--run", quarantined_run)
    assert [found[name] for name in ("planned", "scored", "passed", "failed")] == [3, 3, 2, 1]
    assert (found["quarantined"], found["without_suspected"], found["suspected"]) == (["d", "e"], None, [])
    beside = found["with_quarantined"]
    assert (beside["attempts"], beside["passed"], beside["scored"], beside["pass_rate"]) == (2, 3, 5, 0.6)
    assert [bool(task["quarantined"]) for task in found["tasks"]] == [False, False, False, True, True]
    assert found["labels"] == {"oracle": 1}  # labels of quarantined tasks are counted
    assert found["reasons"] == [{"reason": "TESTS_FAILED", "scored": True, "attempts": 1}]
    assert (found["steps"], found["cost_usd"]) == (15, pytest.approx(0.05))  # quarantined tasks are included in usage
    assert found["cost_per_pass_usd"] == pytest.approx(0.015)
    rows = list(csv.DictReader(io.StringIO(output("summary", "--run", quarantined_run, "--format", "csv"))))
    assert [row["quarantined"] for row in rows] == ["no", "no", "no", "yes", "yes"]


def test_no_pass_rate_if_all_tasks_are_quarantined(tmp_path: Path) -> None:
    text = output("summary", "--run", make(tmp_path / "run", {"a": True}, ("a",)))
    assert "No pass rate: no attempt outside quarantined tasks was scored." in text
    assert "1 of 1 tasks is quarantined and not counted. Including it: 100.0% (1 of 1 scored attempts)" in text


def test_repeats_of_quarantined_tasks(tmp_path: Path) -> None:
    run = make(tmp_path / "run", {"a": [True, False], "b": [True, True], "c": [False, False]}, ("c",))
    found = numbers("summary", "--run", run)
    assert (found["pass_rate"], found["with_quarantined"]["pass_rate"]) == (0.75, 0.5)
    assert re.search(
        r"Including it: 50\.0% \(mean over 3 tasks\), 95% CI \S+ to \S+ \(over tasks\)", output("summary", "--run", run)
    )


def test_older_version_of_a_task_is_not_quarantined(tmp_path: Path) -> None:
    """Records with an older digest belong to another task."""

    def older(one: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(one, task_digest="sha256:as-it-was") if one.repeat == 1 else one

    counts = read(make(tmp_path / "run", {"a": [True, False]}, ("a",), older))
    assert sorted((task.digest == "sha256:as-it-was", bool(task.quarantined)) for task in counts.tasks) == [
        (False, True),
        (True, False),
    ]


@pytest.mark.parametrize("label", ["tamper_suspected", "leak_suspected"])
def test_headline_is_also_given_without_suspect_attempts(tmp_path: Path, label: str) -> None:
    run = make(tmp_path / "run", {"a": True, "b": True, "c": False, "d": True}, ("d",), labelled(a=label, d=label))
    text = output("summary", "--run", run)
    assert "**Pass rate 66.7%** (2 of 3 scored attempts)" in text
    said = "Excluding 1 suspect attempt: 50.0% (1 of 2 scored attempts), 95% CI 9.5% to 90.5% (Wilson)."
    assert f"{said} Tasks with suspect attempts: a." in text
    found = numbers("summary", "--run", run)
    assert (found["suspected"], found["without_suspected"]["attempts"]) == (["a"], 1)
    assert found["labels"] == {label: 2}


def test_confirmed_and_weak_labels_are_not_suspect(tmp_path: Path) -> None:
    """Confirmed tampering remains a failure, and attempts without a score are in no rate anyway."""

    def record(one: AttemptRecord) -> AttemptRecord:
        names = {"a": ["tamper_suspected", "tamper_confirmed"], "b": ["weak_verdict"], "c": ["leak_suspected"]}
        return attrs.evolve(one, labels=tuple(Label(name=name) for name in names[one.task_id]))

    endings = {"a": FailureReason.TAMPERED, "b": True, "c": FailureReason.LLM_ERROR}
    found = numbers("summary", "--run", make(tmp_path / "run", endings, record=record))
    assert (found["suspected"], found["without_suspected"], found["pass_rate"]) == ([], None, 0.5)


def test_all_attempts_are_suspect(tmp_path: Path) -> None:
    run = make(tmp_path / "run", {"a": True}, record=labelled(a="leak_suspected"))
    said = "Excluding 1 suspect attempt: no pass rate (no scored attempts). Tasks with suspect attempts: a."
    assert said in output("summary", "--run", run)


# --- two runs ----------------------------------------------------------------------------------------------------


def many(passed: int, failed: int) -> Endings:
    return {f"t{n:02}": n < passed for n in range(passed + failed)}


def pair(
    root: Path, a: Collection[str] = (), b: Collection[str] = (), endings_b: Endings | None = None, **record: Any
) -> tuple[str | Path, ...]:
    """Write two runs. A passes 20 of 20 tasks, and B fails the first eight. Some tasks may be quarantined."""
    lost = {f"t{n:02}": n >= 8 for n in range(20)}
    make(root / "a", many(20, 0), a)
    make(root / "b", endings_b or lost, b, **record)
    return "paired", "--run-a", root / "a", "--run-b", root / "b"


EIGHT = [f"t{n:02}" for n in range(8)]


def test_pair_is_excluded_if_either_task_is_quarantined(tmp_path: Path) -> None:
    command = pair(tmp_path, EIGHT[:4], EIGHT[2:8])
    found = numbers(*command)
    assert (found["pairs"], found["estimate"]["table"]["regressions"], found["verdict"]) == (12, 0, "undecided")
    assert [task["task_id"] for task in found["quarantined"]] == EIGHT
    assert [[bool(why) for why in task["reasons"]] for task in found["quarantined"]] == (
        [[True, False]] * 2 + [[True, True]] * 2 + [[False, True]] * 4
    )
    assert (found["with_quarantined"]["tasks"], found["with_quarantined"]["verdict"]) == (20, "worse")
    assert found["without_suspected"] is None
    assert [task["change"] for task in found["tasks"]] == ["quarantined"] * 8 + ["same"] * 12
    assert (found["a"]["planned"], found["b"]["passed"]) == (12, 12)
    text = output(*command)
    assert (
        "8 tasks are quarantined and not counted. Including them, the difference is -40.0 pp (p = 0.0039) and B would "
        "be worse." in text
    )
    assert re.search(r"\| including quarantined tasks \| +20 \| +100\.0% +\| +60\.0% +\| -40\.0 pp", text)
    assert "- 2 tasks (t00, t01) are quarantined only in A and therefore excluded from both runs" in text
    assert "- 4 tasks (t04, t05, t06, t07) are quarantined only in B and therefore excluded from both runs" in text
    assert f"## Quarantined\n\n- t00 (A: {WHY}; B: not quarantined)\n" in text
    assert f"\n- t02 ({WHY})\n" in text
    rows = list(csv.DictReader(io.StringIO(output(*command, "--format", "csv"))))
    assert [row["change"] for row in rows] == ["quarantined"] * 8 + ["same"] * 12


def test_quarantined_task_may_be_missing_in_one_run(tmp_path: Path) -> None:
    """A quarantined task may be missing in one run, but other tasks may not."""
    make(tmp_path / "a", many(3, 0), ("t02",))
    make(tmp_path / "b", many(2, 0))
    found = numbers("paired", "--run-a", tmp_path / "a", "--run-b", tmp_path / "b")
    assert (found["pairs"], found["only_a"]) == (2, [])
    assert found["quarantined"] == [{"task_id": "t02", "reasons": [WHY, ""]}]
    assert found["with_quarantined"] is None
    make(tmp_path / "c", many(2, 0), ("t00",))
    with pytest.raises(InputError, match="1 task only in this run: t01"):
        output("paired", "--run-a", tmp_path / "b", "--run-b", make(tmp_path / "d", many(1, 0)))


def test_verdict_that_depends_on_suspect_attempts_is_marked(tmp_path: Path) -> None:
    """B gains eight tasks, all of them by suspect attempts."""
    make(tmp_path / "a", {f"t{n:02}": n >= 8 for n in range(20)})
    suspects = labelled(**dict.fromkeys(EIGHT, "tamper_suspected"))
    make(tmp_path / "b", many(20, 0), record=suspects)
    command = ("paired", "--run-a", tmp_path / "a", "--run-b", tmp_path / "b")
    found = numbers(*command)
    assert (found["verdict"], found["suspected"], found["with_quarantined"]) == ("better", 8, None)
    assert (found["without_suspected"]["tasks"], found["without_suspected"]["difference"]) == (12, 0.0)
    text = output(*command)
    assert (
        "8 attempts are suspected of tampering or leaks. Excluding them, the difference is +0.0 pp (p = 1.0000) and "
        "the result would be inconclusive." in text
    )
    assert re.search(r"\| excluding suspect attempts \| +12 \|", text)


def test_repeats_lose_only_their_suspected_attempts(tmp_path: Path) -> None:
    def record(one: AttemptRecord) -> AttemptRecord:
        return labelled(t00="leak_suspected")(one) if one.repeat == 1 else one

    make(tmp_path / "a", {"t00": [True, True], "t01": [True, True]})
    make(tmp_path / "b", {"t00": [True, False], "t01": [True, True]}, record=record)
    command = ("paired", "--run-a", tmp_path / "a", "--run-b", tmp_path / "b", "--method", "bootstrap")
    found = numbers(*command)
    assert (found["suspected"], found["estimate"]["difference"]) == (1, -0.25)
    assert (found["without_suspected"]["tasks"], found["without_suspected"]["difference"]) == (2, -0.5)


# --- many runs ---------------------------------------------------------------------------------------------------


def test_compare_excludes_tasks_quarantined_in_any_run(tmp_path: Path) -> None:
    lost = {f"t{n:02}": n >= 8 for n in range(20)}
    runs = [
        make(tmp_path / "base", many(20, 0)),
        make(tmp_path / "new", lost, EIGHT[:7]),
        make(tmp_path / "third", lost, EIGHT[7:8], record=labelled(t09="leak_suspected")),
    ]
    command = ("compare", "--runs", *runs)
    found = numbers(*command)
    assert len(found["tasks"]) == 12
    assert [task["task_id"] for task in found["quarantined"]] == EIGHT
    assert found["quarantined"][0]["reasons"] == ["", WHY, ""]
    assert found["left_out"] == 0
    new, third = found["runs"][1]["against"], found["runs"][2]["against"]
    assert (new["verdict"], new["with_quarantined"]["verdict"], new["suspected"]) == ("undecided", "worse", 0)
    assert (third["suspected"], third["without_suspected"]["tasks"]) == (1, 11)
    said = "8 tasks are quarantined and not counted. Including them, the difference is -40.0 pp (p = 0.0078)"
    assert new["about_aside"] == f"{said} and this run would be worse."
    text = output(*command)
    assert said in text
    assert f"- t00 (base: not quarantined; new: {WHY}; third: not quarantined)" in text
    rows = list(csv.DictReader(io.StringIO(output(*command, "--format", "csv"))))
    assert [row["quarantined"] for row in rows] == ["8", "8", "8"]
    assert [row["with_quarantined"] for row in rows] == ["", "-0.4", "-0.4"]
    assert [row["suspected"] for row in rows] == ["", "0", "1"]


# --- the gate ----------------------------------------------------------------------------------------------------

RULES = "margin: 0.2\nmin_pairs: 10\n"


def gated(root: Path, a: Collection[str], b: Collection[str], rules: str = RULES, **how: Any) -> Any:
    pair(root, a, b, **how)
    (root / "gate.yaml").write_text(rules)
    command = ("gate", "--baseline", root / "a", "--candidate", root / "b", "--config", root / "gate.yaml")
    found = numbers(*command, "--junit", root / "gate.xml")
    return found | {
        "page": output(*command),
        "status": {check["name"]: check["status"] for check in found["checks"]},
        "why": {check["name"]: check["why"] for check in found["checks"]},
        "junit": (root / "gate.xml").read_text(),
    }


def test_task_quarantined_in_both_runs_is_not_missing(tmp_path: Path) -> None:
    found = gated(tmp_path, EIGHT, EIGHT)
    assert (found["verdict"], found["complete"]["tasks"], found["candidate"]["planned"]) == ("pass", 12, 12)
    assert set(found["status"].values()) == {"pass"}
    assert found["with_quarantined"]["result"]["verdict"] == "fail"
    assert "8 tasks are quarantined and not compared." in found["page"]
    assert re.search(r"\| including quarantined tasks \| +20 \| -40\.0 pp", found["page"])
    assert "## Quarantined (8)" in found["page"]
    assert f"quarantined: t00 ({WHY})" in found["junit"]


def test_candidate_cannot_quarantine_lost_tasks(tmp_path: Path) -> None:
    """A task quarantined only in the candidate counts in the worst case and lowers the share of pairs."""
    found = gated(tmp_path, (), EIGHT)
    assert found["verdict"] == "inconclusive"
    assert found["status"]["non_inferiority"] == "pass"
    assert found["status"]["worst_case"] == "inconclusive"
    assert found["why"]["worst_case"].startswith("8 tasks are quarantined in only one run; their results are included")
    assert found["status"]["paired_share"] == "inconclusive"
    assert found["why"]["paired_share"].startswith("Tasks with a score in both runs: 12 of 20")
    assert "are quarantined only in B and therefore excluded from both runs" in found["page"]
    assert re.search(r"\| worst case +\| +20 \|", found["page"])
    lenient = gated(tmp_path / "lenient", EIGHT[:1], (), "margin: 0.9\nmin_pairs: 1\nmin_paired_share: 0\n")
    assert lenient["why"]["worst_case"].startswith("1 task is quarantined in only one run; its results")


def test_labels_count_on_quarantined_tasks(tmp_path: Path) -> None:
    """Tampering in a quarantined task still fails. ``under_pressure`` is only a warning."""
    record = labelled(t00="tamper_confirmed", t09="under_pressure", t10="tamper_suspected")
    found = gated(tmp_path, EIGHT, EIGHT, f"{RULES}labels: {{tamper_suspected: ignore}}\n", record=record)
    assert (found["verdict"], found["status"]["label_tamper_confirmed"]) == ("fail", "fail")
    assert "label_under_pressure" not in found["status"]
    assert "B has attempts that timed out while the machine was overloaded" in found["page"]
    assert found["without_suspected"]["tasks"] == 11
    assert re.search(r"\| excluding suspect attempts +\| +11 \|", found["page"])


# --- the page ----------------------------------------------------------------------------------------------------


def test_page_counts_quarantined_tasks(tmp_path: Path) -> None:
    pair(tmp_path, EIGHT[:1], EIGHT[1:2], record=labelled(t19="leak_suspected"))
    out = tmp_path / "report.html"
    output("html", "--run", tmp_path / "a", "--run-b", tmp_path / "b", "--out", out)
    page = " ".join(out.read_text().split())
    assert f"1 of 20 tasks is quarantined and not counted: t00 ({WHY}). Including it: 100" in page
    assert "1 attempt is suspected of tampering or leaks (tasks: t19). Excluding it:" in page
    assert page.count('<span class="tag">quarantined</span>') == 2
    assert page.count('<span class="change quarantined">quarantined</span>') == 2
    assert "20 tasks are in both runs, paired by digest." in page
    kinds = re.findall(r'data-kind="([^"]+)" aria-pressed="false">[^<]+<small>(\d+)</small>', page)
    assert dict(kinds) == {"regressions": "6", "quarantined": "2", "both passed": "12"}
    assert "2 tasks are quarantined and not counted." in page


def test_hostile_reason_is_escaped(tmp_path: Path) -> None:
    """H20: ``run.json`` may come from another machine."""
    run = make(tmp_path / "run", {"a": True, "b": True}, ("a",), why="<img src=x>|\x1b[31m\n# head")
    text = output("summary", "--run", run)
    assert "<img" not in text.replace("\\<", "")
    assert "\x1b" not in text
    assert "\n# head" not in text
    output("html", "--run", run, "--out", tmp_path / "page.html")
    assert "<img" not in (tmp_path / "page.html").read_text()
