"""``agentbench report gate``: which candidates pass, fail, are undecided or refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench_core import AttemptRecord, FailureReason, Label
from agentbench_core.cli.main import main
from agentbench_core.testing import write_run
from agentbench_report.gate.checks import least_pairs
from agentbench_report.gate.config import GateRules
from agentbench_report.gate.decision import decide
from agentbench_report.reading import RunCounts, TaskCounts, read
from agentbench_report.statistics import PairTable, noninferiority

Endings = Mapping[str, Any]
LENIENT = "min_pairs: 1\nmin_paired_share: 0\nmax_infrastructure_share: 1\n"
"""Whatever is missing: only the test and its worst case decide."""

CELLS = {
    "both_pass": (True, True),
    "regressions": (True, False),
    "improvements": (False, True),
    "both_fail": (False, False),
}
REFERENCE = [
    case
    for case in json.loads((Path(__file__).parent / "reference.json").read_text())["cases"]
    if case["function"] == "noninferiority_tango" and case["inputs"]["both_pass"] + case["inputs"]["both_fail"] < 200
]


def tasks(count: int, ending: Callable[[int], Any] = lambda i: True) -> Endings:
    return {f"task-{i:03}": ending(i) for i in range(count)}


@attrs.frozen(kw_only=True)
class Gated:
    """What the command gave: JSON where there is a verdict."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> Any:
        return json.loads(self.out)

    @property
    def verdict(self) -> str:
        return str(self.said["verdict"])

    def status(self, check: str) -> str:
        return next(str(found["status"]) for found in self.said["checks"] if found["name"] == check)


@pytest.fixture
def gate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Gated]:
    """Writes two runs and a gate file, and runs the command."""

    def run(
        baseline: Endings,
        candidate: Endings,
        config: str,
        *flags: str,
        style: str = "json",
        a: Mapping[str, Any] | None = None,
        b: Mapping[str, Any] | None = None,
    ) -> Gated:
        write_run(tmp_path / "a", baseline, **(a or {}))
        write_run(tmp_path / "b", candidate, **(b or {}))
        (tmp_path / "gate.yaml").write_text(config)
        files = {"baseline": "a", "candidate": "b", "config": "gate.yaml", "junit": "gate.xml", "markdown": "gate.md"}
        named = [word for name, file in files.items() for word in (f"--{name}", str(tmp_path / file))]
        with pytest.raises(SystemExit) as stop:
            main(["report", "gate", *named, "--format", style, *flags])
        out, err = capfd.readouterr()
        return Gated(code=int(stop.value.code or 0), out=out, err=err)

    return run


def labelled(name: str, *, only: str = "") -> Callable[[AttemptRecord], AttemptRecord]:
    def label(record: AttemptRecord) -> AttemptRecord:
        return attrs.evolve(record, labels=(Label(name=name),)) if record.task_id.startswith(only) else record

    return label


def using(*, cost: float = 0.01, seconds: float = 1.5) -> Callable[[AttemptRecord], AttemptRecord]:
    return lambda one: attrs.evolve(one, usage=attrs.evolve(one.usage, cost_usd=cost), duration_sec=seconds)


class TestFromTheIssue:
    """Four that must come out right."""

    @pytest.mark.parametrize("margin", [0.03, 0.3])
    def test_a_candidate_that_lost_90_of_100_results(self, gate: Callable[..., Gated], margin: float) -> None:
        """At 0.3 the ten that are left would pass alone."""
        done = gate(tasks(100), tasks(100, lambda i: True if i < 10 else None), f"margin: {margin}\n{LENIENT}")
        assert (done.verdict, done.code) == ("inconclusive", 1)
        assert done.status("non_inferiority") == ("pass" if margin == 0.3 else "inconclusive")
        assert done.status("worst_case") == "inconclusive"
        assert done.said["worst_case"]["table"] == {
            "both_pass": 10,
            "regressions": 90,
            "improvements": 0,
            "both_fail": 0,
        }
        assert len(done.said["incomplete"]) == 90

    def test_other_tasks_in_the_same_positions(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        other = {f"other-{name}": ending for name, ending in tasks(100).items()}
        done = gate(tasks(100), other, "margin: 0.05\nmin_pairs: 1\n")
        assert (done.code, done.out) == (2, "")
        assert "The tasks are not the same" in done.err
        assert "--allow-different-tasks" in done.err
        assert (tmp_path / "gate.md").read_text().startswith("# Gate: REFUSED\n")
        assert 'value="refused"' in (tmp_path / "gate.xml").read_text()

    def test_ten_identical_pairs_at_a_margin_of_15_per_mille(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(10), tasks(10), "margin: 0.015\nmin_pairs: 10\n")
        assert (done.verdict, done.code) == ("inconclusive", 1)
        assert "it takes 178 tasks to pass even when none differs" in done.said["reason"]

    def test_500_pairs_with_15_up_and_15_down_at_a_margin_of_3_points(self, gate: Callable[..., Gated]) -> None:
        done = gate(
            tasks(500, lambda i: i >= 15), tasks(500, lambda i: not 15 <= i < 30), "margin: 0.03\nmin_pairs: 500\n"
        )
        assert (done.verdict, done.code) == ("pass", 0)
        assert (len(done.said["regressed"]), len(done.said["improved"])) == (15, 15)
        assert done.said["complete"]["difference"] == 0


class TestNonInferiority:
    def test_perfect_agreement_passes(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100), "margin: 0.05\nmin_pairs: 100\n")
        assert (done.verdict, done.code) == ("pass", 0)

    @pytest.mark.parametrize("case", REFERENCE)
    def test_numbers_are_those_of_the_reference(self, gate: Callable[..., Gated], case: Mapping[str, Any]) -> None:
        """On full run directories that have the table of the case."""
        table = {key: value for key, value in case["inputs"].items() if key != "margin"}
        pairs = [pair for key, pair in CELLS.items() for _ in range(table[key])]
        sides = [{f"task-{i:03}": pair[side] for i, pair in enumerate(pairs)} for side in (0, 1)]
        done = gate(*sides, f"margin: {case['inputs']['margin']}\nmin_pairs: 1\n")
        assert done.said["complete"]["table"] == table
        found = done.said["complete"]["result"]
        assert [found["z"], found["p"]] == pytest.approx(case["expected"], abs=case["tolerance"])

    def test_a_worse_candidate_fails_and_its_tasks_are_named(self, gate: Callable[..., Gated]) -> None:
        worse = tasks(100, lambda i: FailureReason.TIMEOUT if i < 20 else True)
        done = gate(tasks(100), worse, "margin: 0.05\nmin_pairs: 100\n", "--inconclusive-ok")
        assert (done.verdict, done.code) == ("fail", 1)
        assert done.said["regressed"][0] == {
            "task_id": "task-000",
            "baseline": 1.0,
            "candidate": 0.0,
            "reasons": {"TIMEOUT": 1},
        }

    def test_a_fail_is_none_the_less_for_what_is_missing(self, gate: Callable[..., Gated]) -> None:
        worse = tasks(100, lambda i: False if i < 40 else None if i < 70 else True)
        done = gate(tasks(100), worse, "margin: 0.05\nmin_pairs: 100\n", "--inconclusive-ok")
        assert (done.verdict, done.code) == ("fail", 1)
        assert done.status("infrastructure_candidate") == "inconclusive"

    def test_no_significant_difference_is_not_enough(self, gate: Callable[..., Gated]) -> None:
        """Four of 40 lost: McNemar's exact p is 0.125, and the loss may be three times the margin."""
        done = gate(tasks(40), tasks(40, lambda i: i >= 4), "margin: 0.06\nmin_pairs: 40\n")
        assert done.verdict != "pass"

    def test_a_margin_of_nothing_cannot_be_shown(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100), "margin: 0\nmin_pairs: 1\n")
        assert done.verdict == "inconclusive"
        assert "With a margin of 0 it never can" in done.said["reason"]

    @pytest.mark.parametrize(
        ("flags", "config", "code"), [([], "", 1), (["--inconclusive-ok"], "", 0), ([], "inconclusive: pass\n", 0)]
    )
    def test_what_inconclusive_means_can_be_chosen(
        self, gate: Callable[..., Gated], flags: list[str], config: str, code: int
    ) -> None:
        done = gate(tasks(10), tasks(10), f"margin: 0.05\nmin_pairs: 1\n{config}", *flags)
        assert (done.verdict, done.code) == ("inconclusive", code)

    @given(st.floats(0.005, 0.5), st.floats(0.01, 0.3))
    def test_least_pairs_is_where_agreement_begins_to_pass(self, margin: float, alpha: float) -> None:
        least = least_pairs(margin, alpha)
        assert least is not None

        def verdict(n: int) -> str:
            agreed = PairTable(both_pass=n, regressions=0, improvements=0, both_fail=0)
            return noninferiority(agreed, margin, alpha).verdict

        assert verdict(least + 1) == "pass"
        assert verdict(max(0, least - 2)) == "inconclusive"


class TestMissing:
    def test_a_perfect_candidate_with_30_percent_infrastructure_failures(self, gate: Callable[..., Gated]) -> None:
        broken = tasks(200, lambda i: FailureReason.SANDBOX_ERROR if i < 60 else True)
        done = gate(tasks(200), broken, "margin: 0.05\nmin_pairs: 100\n")
        assert (done.verdict, done.code) == ("inconclusive", 1)
        assert done.status("non_inferiority") == "pass"
        assert done.status("infrastructure_candidate") == "inconclusive"
        assert done.status("infrastructure_baseline") == "pass"

    def test_a_baseline_that_lost_results_is_no_excuse(self, gate: Callable[..., Gated]) -> None:
        broken = tasks(200, lambda i: FailureReason.LLM_ERROR if i < 60 else True)
        done = gate(broken, tasks(200, lambda i: i >= 60), f"margin: 0.05\n{LENIENT}")
        assert (done.verdict, done.status("worst_case")) == ("inconclusive", "inconclusive")

    def test_a_candidate_of_which_only_what_passed_was_recorded(self, gate: Callable[..., Gated]) -> None:
        """40 of 100 regressed and have no record: over what is left the candidate is perfect."""
        done = gate(tasks(100), tasks(100, lambda i: True if i >= 40 else None), f"margin: 0.1\n{LENIENT}")
        assert done.status("non_inferiority") == "pass"
        assert (done.verdict, done.code) == ("inconclusive", 1)

    def test_a_candidate_that_planned_only_what_passes(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(60), "margin: 0.1\nmin_pairs: 50\n")
        assert (done.code, done.out) == (2, "")

    def test_not_even_when_other_tasks_are_allowed(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(60), "margin: 0.1\nmin_pairs: 50\n", "--allow-different-tasks")
        assert (done.verdict, done.status("paired_share")) == ("inconclusive", "inconclusive")
        assert len(done.said["only_baseline"]) == 40
        assert "The tasks are not the same" in done.said["overridden"][0]

    def test_little_that_is_missing_is_borne(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(300), tasks(300, lambda i: i != 0 or None), "margin: 0.05\nmin_pairs: 200\n")
        assert (done.verdict, done.status("worst_case")) == ("pass", "pass")

    def test_nothing_in_common_with_a_score(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(3, lambda i: None), tasks(3), f"margin: 0.5\n{LENIENT}max_cost_ratio: 2\n")
        assert done.verdict == "inconclusive"
        assert done.said["reason"] == "No task has a score in both runs."
        assert done.said["baseline"]["pass_rate"] is None
        assert done.status("cost_ratio") == "inconclusive"


RULES = GateRules(margin=0.1, min_pairs=1, min_paired_share=0, max_infrastructure_share=1, labels={})
STATES = st.sampled_from([True, False])


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> RunCounts:
    return read(write_run(tmp_path_factory.mktemp("empty") / "run", {}).directory)


@given(st.lists(st.tuples(STATES, STATES, STATES, STATES), min_size=1, max_size=80), st.sampled_from([0.05, 0.1, 0.3]))
def test_missing_results_never_make_a_pass(
    empty: RunCounts, results: list[tuple[bool, bool, bool, bool]], margin: float
) -> None:
    """Each task: what A and B are, and whether their results are lost. Whatever passes with losses passes without."""
    rules = attrs.evolve(RULES, margin=margin)

    def run(which: int, *, lossy: bool) -> RunCounts:
        return attrs.evolve(
            empty,
            tasks=tuple(
                TaskCounts(
                    task_id=str(number),
                    digest=str(number),
                    passed=0 if lossy and result[2 + which] else int(result[which]),
                    scored=0 if lossy and result[2 + which] else 1,
                    not_recorded=1 if lossy and result[2 + which] else 0,
                )
                for number, result in enumerate(results)
            ),
        )

    verdicts = [decide(run(0, lossy=lossy), run(1, lossy=lossy), rules).verdict for lossy in (True, False)]
    assert verdicts[0] != "pass" or verdicts[1] == "pass"


class TestRepeats:
    def test_agreement_over_many_tasks_passes_by_the_t_interval(self, gate: Callable[..., Gated]) -> None:
        done = gate(
            tasks(100, lambda i: [True, i % 9 > 0, False]),
            tasks(100, lambda i: [i % 7 > 0, True, False]),
            "margin: 0.1\nmin_pairs: 100\n",
        )
        assert (done.verdict, done.said["complete"]["method"]) == ("pass", "t")
        assert done.said["complete"]["table"] is None
        assert done.said["complete"]["tasks"] == 100

    def test_repeats_do_not_stand_in_for_tasks(self, gate: Callable[..., Gated]) -> None:
        """Ten tasks, thirty attempts each, all equal: still ten tasks."""
        done = gate(tasks(10, lambda i: [True] * 30), tasks(10, lambda i: [True] * 30), "margin: 0.05\nmin_pairs: 10\n")
        assert done.verdict == "inconclusive"

    def test_only_the_repeats_that_passed_were_recorded(self, gate: Callable[..., Gated]) -> None:
        done = gate(
            tasks(100, lambda i: [True, True, True]),
            tasks(100, lambda i: [True, True, None]),
            f"margin: 0.1\n{LENIENT}",
        )
        assert (done.verdict, done.status("non_inferiority")) == ("inconclusive", "pass")

    def test_another_number_of_repeats_is_a_fair_comparison(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(60), tasks(60, lambda i: [True, True]), "margin: 0.1\nmin_pairs: 60\n")
        assert (done.verdict, done.said["complete"]["method"]) == ("pass", "t")


class TestLabels:
    GOOD = "margin: 0.05\nmin_pairs: 100\n"

    def test_tampering_fails_whatever_the_rate(self, gate: Callable[..., Gated]) -> None:
        """By its failure reason; the other 99 improved, and an override is neither needed nor there."""
        candidate = tasks(100, lambda i: FailureReason.TAMPERED if i == 0 else True)
        done = gate(tasks(100, lambda i: False), candidate, self.GOOD)
        assert (done.verdict, done.code, done.status("label_tamper_confirmed")) == ("fail", 1, "fail")
        assert done.said["overridden"] == []

    @pytest.mark.parametrize(
        ("label", "config", "verdict"),
        [
            ("tamper_confirmed", "", "fail"),
            ("tamper_suspected", "", "inconclusive"),
            ("tamper_suspected", "labels: {tamper_suspected: fail}", "fail"),
            ("leak_suspected", "", "inconclusive"),
            ("leak_suspected", "labels: {leak_suspected: ignore}", "pass"),
            ("touched_protected", "", "pass"),
            ("weak_verdict", "", "pass"),
            ("oom", "", "pass"),
            ("oom", "labels: {oom: inconclusive}", "inconclusive"),
        ],
    )
    def test_labels_of_the_candidate(self, gate: Callable[..., Gated], label: str, config: str, verdict: str) -> None:
        done = gate(tasks(100), tasks(100), self.GOOD + config, b={"record": labelled(label, only="task-007")})
        assert done.verdict == verdict

    @pytest.mark.parametrize(
        ("label", "verdict"), [("tamper_confirmed", "inconclusive"), ("touched_protected", "pass")]
    )
    def test_labels_of_the_baseline_are_no_fail_of_the_candidate(
        self, gate: Callable[..., Gated], label: str, verdict: str
    ) -> None:
        done = gate(tasks(100), tasks(100), self.GOOD, a={"record": labelled(label)})
        assert done.verdict == verdict


class TestCeilings:
    GOOD = "margin: 0.05\nmin_pairs: 100\n"

    @pytest.mark.parametrize(
        ("rule", "check", "status"),
        [
            ("max_cost_ratio: 1.9", "cost_ratio", "fail"),
            ("max_cost_ratio: 2.1", "cost_ratio", "pass"),
            ("max_cost_usd_per_task: 0.019", "cost_per_task", "fail"),
            ("max_cost_usd_per_task: 0.021", "cost_per_task", "pass"),
            ("max_duration_ratio: 2.9", "duration_ratio", "fail"),
            ("max_duration_ratio: 3.1", "duration_ratio", "pass"),
        ],
    )
    def test_ceilings(self, gate: Callable[..., Gated], rule: str, check: str, status: str) -> None:
        """Twice the cost in three times the time."""
        done = gate(tasks(100), tasks(100), self.GOOD + rule, b={"record": using(cost=0.02, seconds=4.5)})
        assert (done.verdict, done.status(check), done.code) == (status, status, int(status == "fail"))

    def test_cost_is_that_of_an_attempt_whatever_the_number_of_repeats(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100, lambda i: [True] * 3), self.GOOD + "max_cost_ratio: 1.1")
        assert done.verdict == "pass"

    @pytest.mark.parametrize(("now", "status"), [(0.01, "inconclusive"), (0.0, "pass")])
    def test_there_is_no_ratio_to_nothing(self, gate: Callable[..., Gated], now: float, status: str) -> None:
        config = self.GOOD + "max_cost_ratio: 2"
        done = gate(tasks(100), tasks(100), config, a={"record": using(cost=0)}, b={"record": using(cost=now)})
        assert done.status("cost_ratio") == status


class TestRefused:
    @pytest.mark.parametrize(
        ("run", "flag"),
        [({"run_id": "run-a"}, ""), ({"harness": {"version": "9.9", "git_sha": ""}}, "--allow-different-harness")],
    )
    def test_what_cannot_be_compared_has_no_verdict(
        self, gate: Callable[..., Gated], run: Mapping[str, Any], flag: str
    ) -> None:
        done = gate(tasks(100), tasks(100), "margin: 0.05\nmin_pairs: 1\n", b={"run": run})
        assert (done.code, done.out) == (2, "")
        assert flag in done.err

    def test_an_override_is_named_in_the_report(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        run = {"harness": {"version": "9.9", "git_sha": ""}}
        done = gate(tasks(100), tasks(100), "margin: 0.05\nmin_pairs: 1\n", "--allow-different-harness", b={"run": run})
        assert done.code == 0
        assert "9.9" in done.said["overridden"][0]
        assert "**Not comparable, and compared all the same:**" in (tmp_path / "gate.md").read_text()

    def test_a_file_that_cannot_be_written_is_said(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        (tmp_path / "gate.xml" / "in-the-way").mkdir(parents=True)
        done = gate(tasks(1), tasks(1), "margin: 0.05\nmin_pairs: 1\n")
        assert done.code == 2
        assert "gate.xml" in done.err


class TestPage:
    def test_the_verdict_is_on_the_first_line_and_the_reason_below(
        self, gate: Callable[..., Gated], tmp_path: Path
    ) -> None:
        done = gate(tasks(100), tasks(100, lambda i: i >= 20), "margin: 0.05\nmin_pairs: 1\n", style="md")
        assert done.out == (tmp_path / "gate.md").read_text()
        lines = done.out.splitlines()
        assert lines[0] == "# Gate: FAIL"
        assert lines[2].startswith(
            "The candidate is worse, and may lose 5 points or more: the difference is -20.0 points"
        )
        assert "## Regressed (20)" in lines
        assert "| task-000 |     100.0% |        0.0% | TESTS_FAILED                     |" in lines

    def test_long_lists_are_cut_and_say_so(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100, lambda i: False), "margin: 0.05\nmin_pairs: 1\n", style="md")
        assert "50 more are in the JSON." in done.out
        assert "task-049" in done.out
        assert "task-050" not in done.out

    def test_hostile_names_stay_text(self, gate: Callable[..., Gated]) -> None:
        name = "t|\x1b[31m<img src=x>[a](javascript:b)`\n# Gate: PASS"
        done = gate({name: True}, {name: False}, "margin: 0.5\nmin_pairs: 1\n", style="md")
        assert "\x1b" not in done.out
        assert not re.search(r"(?<!\\)[<`\[]", done.out.partition("## Regressed")[2].partition("TESTS_FAILED")[0])
        assert done.out.count("\n# ") == 0

    def test_no_verdict_hides_in_what_is_undecided(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(3), tasks(3), "margin: 0.05\nmin_pairs: 1\n", "--inconclusive-ok", style="md")
        assert done.out.startswith("# Gate: INCONCLUSIVE\n")
        assert "It does not stop anything" in done.out
