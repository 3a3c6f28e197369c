"""``agentbench report gate``: candidates that pass, fail, are inconclusive, or are refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import AttemptRecord, FailureReason, Label
from agentbench_core.cli.main import main
from agentbench_core.values.events import Event, LLMRequest, LLMResponse
from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.gate.checks import least_pairs
from agentbench_report.gate.config import GateRules
from agentbench_report.gate.decision import decide
from agentbench_report.reading import read
from agentbench_report.statistics import PairTable, noninferiority
from agentbench_testing import write_run

Endings = Mapping[str, Any]
LENIENT = "min_pairs: 1\nmin_paired_share: 0\nmax_infrastructure_share: 1\n"
"""Rules that tolerate any missing results, so that only the test and its worst case decide."""

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
    """Output of the command: JSON if there is a verdict."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def verdict(self) -> str:
        return str(self.data["verdict"])

    def status(self, check: str) -> str:
        return next(str(found["status"]) for found in self.data["checks"] if found["name"] == check)


@pytest.fixture
def gate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Gated]:
    """Write two runs and a gate file, and run the command. ``spoil`` changes existing files by name."""

    def run(
        baseline: Endings,
        candidate: Endings,
        config: str,
        *flags: str,
        style: str = "json",
        a: Mapping[str, Any] | None = None,
        b: Mapping[str, Any] | None = None,
        spoil: Mapping[str, Callable[[Path], object]] | None = None,
    ) -> Gated:
        write_run(tmp_path / "a", baseline, **(a or {}))
        write_run(tmp_path / "b", candidate, **(b or {}))
        (tmp_path / "gate.yaml").write_text(config)
        for change in (spoil or {}).items():
            change[1](tmp_path / change[0])
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


def using(
    *, cost: float = 0.01, seconds: float = 1.5, calls: int = 1, only: str = ""
) -> Callable[[AttemptRecord], AttemptRecord]:
    def use(one: AttemptRecord) -> AttemptRecord:
        usage = attrs.evolve(one.usage, cost_usd=cost, llm_calls=calls)
        return attrs.evolve(one, usage=usage, duration_sec=seconds) if one.task_id.startswith(only) else one

    return use


def cut_off(record: AttemptRecord) -> Iterator[Event]:
    """Yield a model call of unknown cost, at most 5 USD."""
    yield LLMRequest(call=1, messages=2, reserved_usd=5.0)
    yield LLMResponse(
        call=1,
        finish="stop",
        model="m",
        served_by="somebody",
        prompt_tokens=100,
        completion_tokens=10,
        cached_tokens=0,
        cost_usd=None,
        duration_sec=1.0,
    )


class TestReportedCases:
    """Four cases from the issue."""

    @pytest.mark.parametrize("margin", [0.03, 0.3])
    def test_a_candidate_that_lost_90_of_100_results(self, gate: Callable[..., Gated], margin: float) -> None:
        """With a margin of 0.3, the ten remaining results alone would pass."""
        done = gate(tasks(100), tasks(100, lambda i: True if i < 10 else None), f"margin: {margin}\n{LENIENT}")
        assert (done.verdict, done.code) == ("inconclusive", 1)
        assert done.status("non_inferiority") == ("pass" if margin == 0.3 else "inconclusive")
        assert done.status("worst_case") == "inconclusive"
        assert done.data["worst_case"]["table"] == {
            "both_pass": 10,
            "regressions": 90,
            "improvements": 0,
            "both_fail": 0,
        }
        assert len(done.data["incomplete"]) == 90

    def test_other_tasks_in_the_same_positions(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        other = {f"other-{name}": ending for name, ending in tasks(100).items()}
        done = gate(tasks(100), other, "margin: 0.05\nmin_pairs: 1\n")
        assert (done.code, done.out) == (2, "")
        assert "The runs have different tasks" in done.err
        assert "--allow-different-tasks" in done.err
        assert (tmp_path / "gate.md").read_text().startswith("# Gate: REFUSED\n")
        assert 'value="refused"' in (tmp_path / "gate.xml").read_text()

    def test_ten_identical_pairs_at_a_margin_of_15_per_mille(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(10), tasks(10), "margin: 0.015\nmin_pairs: 10\n")
        assert (done.verdict, done.code) == ("inconclusive", 1)
        assert "Passing requires at least 178 tasks, even if no task differs." in done.data["reason"]

    def test_500_pairs_with_15_up_and_15_down_at_a_margin_of_3_points(self, gate: Callable[..., Gated]) -> None:
        done = gate(
            tasks(500, lambda i: i >= 15), tasks(500, lambda i: not 15 <= i < 30), "margin: 0.03\nmin_pairs: 500\n"
        )
        assert (done.verdict, done.code) == ("pass", 0)
        assert (len(done.data["regressed"]), len(done.data["improved"])) == (15, 15)
        assert done.data["complete"]["difference"] == 0


class TestNonInferiority:
    def test_perfect_agreement_passes(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100), "margin: 0.05\nmin_pairs: 100\n")
        assert (done.verdict, done.code) == ("pass", 0)

    @pytest.mark.parametrize("case", REFERENCE)
    def test_numbers_equal_the_reference(self, gate: Callable[..., Gated], case: Mapping[str, Any]) -> None:
        """Run directories with the table of a case give the numbers of the reference."""
        table = {key: value for key, value in case["inputs"].items() if key != "margin"}
        pairs = [pair for key, pair in CELLS.items() for _ in range(table[key])]
        sides = [{f"task-{i:03}": pair[side] for i, pair in enumerate(pairs)} for side in (0, 1)]
        done = gate(*sides, f"margin: {case['inputs']['margin']}\nmin_pairs: 1\n")
        assert done.data["complete"]["table"] == table
        found = done.data["complete"]["result"]
        assert [found["z"], found["p"]] == pytest.approx(case["expected"], abs=case["tolerance"])

    def test_a_worse_candidate_fails_and_its_tasks_are_named(self, gate: Callable[..., Gated]) -> None:
        worse = tasks(100, lambda i: FailureReason.TIMEOUT if i < 20 else True)
        done = gate(tasks(100), worse, "margin: 0.05\nmin_pairs: 100\n", "--inconclusive-ok")
        assert (done.verdict, done.code) == ("fail", 1)
        assert done.data["regressed"][0] == {
            "task_id": "task-000",
            "baseline": 1.0,
            "candidate": 0.0,
            "reasons": {"TIMEOUT": 1},
        }

    def test_missing_results_do_not_hide_a_failure(self, gate: Callable[..., Gated]) -> None:
        worse = tasks(100, lambda i: False if i < 40 else None if i < 70 else True)
        done = gate(tasks(100), worse, "margin: 0.05\nmin_pairs: 100\n", "--inconclusive-ok")
        assert (done.verdict, done.code) == ("fail", 1)
        assert done.status("infrastructure_candidate") == "inconclusive"

    def test_absence_of_a_significant_difference_does_not_pass(self, gate: Callable[..., Gated]) -> None:
        """With 4 of 40 tasks lost, McNemar's exact p is 0.125, but the loss may be three times the margin."""
        done = gate(tasks(40), tasks(40, lambda i: i >= 4), "margin: 0.06\nmin_pairs: 40\n")
        assert done.verdict != "pass"

    def test_margin_of_zero_cannot_pass(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100), "margin: 0\nmin_pairs: 1\n")
        assert done.verdict == "inconclusive"
        assert "With a margin of 0, the gate cannot pass" in done.data["reason"]

    @pytest.mark.parametrize(
        ("flags", "config", "code"), [([], "", 1), (["--inconclusive-ok"], "", 0), ([], "inconclusive: pass\n", 0)]
    )
    def test_exit_code_of_inconclusive_is_configurable(
        self, gate: Callable[..., Gated], flags: list[str], config: str, code: int
    ) -> None:
        done = gate(tasks(10), tasks(10), f"margin: 0.05\nmin_pairs: 1\n{config}", *flags)
        assert (done.verdict, done.code) == ("inconclusive", code)

    @given(st.floats(0.005, 0.5), st.floats(0.01, 0.3))
    def test_least_pairs_is_where_perfect_agreement_starts_to_pass(self, margin: float, alpha: float) -> None:
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

    def test_missing_baseline_results_are_inconclusive(self, gate: Callable[..., Gated]) -> None:
        broken = tasks(200, lambda i: FailureReason.LLM_ERROR if i < 60 else True)
        done = gate(broken, tasks(200, lambda i: i >= 60), f"margin: 0.05\n{LENIENT}")
        assert (done.verdict, done.status("worst_case")) == ("inconclusive", "inconclusive")

    def test_candidate_with_only_passes_recorded_is_inconclusive(self, gate: Callable[..., Gated]) -> None:
        """40 of 100 tasks have no record; the candidate passed all others."""
        done = gate(tasks(100), tasks(100, lambda i: True if i >= 40 else None), f"margin: 0.1\n{LENIENT}")
        assert done.status("non_inferiority") == "pass"
        assert (done.verdict, done.code) == ("inconclusive", 1)

    def test_candidate_that_planned_only_passing_tasks_is_refused(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(60), "margin: 0.1\nmin_pairs: 50\n")
        assert (done.code, done.out) == (2, "")

    def test_missing_tasks_are_inconclusive_if_other_tasks_are_allowed(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(60), "margin: 0.1\nmin_pairs: 50\n", "--allow-different-tasks")
        assert (done.verdict, done.status("paired_share")) == ("inconclusive", "inconclusive")
        assert len(done.data["only_baseline"]) == 40
        assert "The runs have different tasks" in done.data["overridden"][0]

    def test_few_missing_results_are_tolerated(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(300), tasks(300, lambda i: i != 0 or None), "margin: 0.05\nmin_pairs: 200\n")
        assert (done.verdict, done.status("worst_case")) == ("pass", "pass")

    def test_no_task_has_a_score_in_both_runs(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(3, lambda i: None), tasks(3), f"margin: 0.5\n{LENIENT}max_cost_ratio: 2\n")
        assert done.verdict == "inconclusive"
        assert done.data["reason"] == "No task has a score in both runs."
        assert done.data["baseline"]["pass_rate"] is None
        assert done.status("cost_ratio") == "inconclusive"


RULES = GateRules(margin=0.1, min_pairs=1, min_paired_share=0, max_infrastructure_share=1, labels={})
STATES = st.sampled_from([True, False])


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> RunCounts:
    return read(write_run(tmp_path_factory.mktemp("empty") / "run", {}).directory)


@given(st.lists(st.tuples(STATES, STATES, STATES, STATES), min_size=1, max_size=80), st.sampled_from([0.05, 0.1, 0.3]))
def test_missing_results_never_cause_a_pass(
    empty: RunCounts, results: list[tuple[bool, bool, bool, bool]], margin: float
) -> None:
    """If a candidate passes with results missing, it also passes with them present."""
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
    def test_agreement_over_many_tasks_passes_by_both_tests(self, gate: Callable[..., Gated]) -> None:
        done = gate(
            tasks(100, lambda i: [True, i % 9 > 0, False]),
            tasks(100, lambda i: [i % 7 > 0, True, False]),
            "margin: 0.1\nmin_pairs: 100\n",
        )
        assert (done.verdict, done.data["complete"]["method"]) == ("pass", "t_tango")
        assert done.data["complete"]["table"] is None
        assert done.data["complete"]["tasks"] == 100

    def test_repeats_do_not_replace_tasks(self, gate: Callable[..., Gated]) -> None:
        """Ten tasks with thirty equal attempts each are still ten tasks."""
        done = gate(tasks(10, lambda i: [True] * 30), tasks(10, lambda i: [True] * 30), "margin: 0.05\nmin_pairs: 10\n")
        assert done.verdict == "inconclusive"

    def test_candidate_with_only_passing_repeats_is_inconclusive(self, gate: Callable[..., Gated]) -> None:
        done = gate(
            tasks(100, lambda i: [True, True, True]),
            tasks(100, lambda i: [True, True, None]),
            f"margin: 0.1\n{LENIENT}",
        )
        assert (done.verdict, done.status("non_inferiority")) == ("inconclusive", "pass")

    @pytest.mark.parametrize("regressed", range(6))
    @pytest.mark.parametrize("repeats", [(2, 2), (5, 5), (1, 2), (3, 1)])
    def test_identical_repeats_give_no_more_evidence_than_one(
        self, gate: Callable[..., Gated], tmp_path: Path, regressed: int, repeats: tuple[int, int]
    ) -> None:
        """With 2 of 100 tasks lost in every attempt, t alone would pass, as it relies on the observed spread."""
        config, (of_a, of_b) = "margin: 0.05\nmin_pairs: 50\n", repeats
        once = gate(tasks(100), tasks(100, lambda i: i >= regressed), config)
        for name in "ab":
            (tmp_path / name).rename(tmp_path / f"once-{name}")
        more = gate(tasks(100, lambda i: [True] * of_a), tasks(100, lambda i: [i >= regressed] * of_b), config)
        assert more.verdict == once.verdict
        assert once.verdict == ("pass" if regressed < 2 else "inconclusive" if regressed < 3 else "fail")
        found = more.data["complete"]["result"]
        assert found["interval"]["low"] <= once.data["complete"]["result"]["interval"]["low"] + 1e-12
        assert (found["p"] < 0.05) == (more.verdict == "pass")

    def test_different_numbers_of_repeats_can_be_compared(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(60), tasks(60, lambda i: [True, True]), "margin: 0.1\nmin_pairs: 60\n")
        assert (done.verdict, done.data["complete"]["method"]) == ("pass", "t_tango")


class TestLabels:
    GOOD = "margin: 0.05\nmin_pairs: 100\n"

    def test_tampering_fails_at_any_pass_rate(self, gate: Callable[..., Gated]) -> None:
        """One TAMPERED attempt fails the gate without an override, although the other 99 tasks improved."""
        candidate = tasks(100, lambda i: FailureReason.TAMPERED if i == 0 else True)
        done = gate(tasks(100, lambda i: False), candidate, self.GOOD)
        assert (done.verdict, done.code, done.status("label_tamper_confirmed")) == ("fail", 1, "fail")
        assert done.data["overridden"] == []

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
            ("oracle", "", "inconclusive"),
            ("oracle", "labels: {oracle: ignore}", "pass"),
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
    def test_labels_of_the_baseline_do_not_fail_the_candidate(
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
        """The candidate has twice the cost and three times the duration."""
        done = gate(tasks(100), tasks(100), self.GOOD + rule, b={"record": using(cost=0.02, seconds=4.5)})
        assert (done.verdict, done.status(check), done.code) == (status, status, int(status == "fail"))

    def test_cost_is_per_attempt_with_any_number_of_repeats(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100, lambda i: [True] * 3), self.GOOD + "max_cost_ratio: 1.1")
        assert done.verdict == "pass"

    @pytest.mark.parametrize(("now", "status"), [(0.01, "inconclusive"), (0.0, "pass")])
    def test_cost_ratio_to_a_free_baseline(self, gate: Callable[..., Gated], now: float, status: str) -> None:
        config = self.GOOD + "max_cost_ratio: 2"
        a, b = using(cost=0, calls=0), using(cost=now, calls=int(now > 0))
        done = gate(tasks(100), tasks(100), config, a={"record": a}, b={"record": b})
        assert done.status("cost_ratio") == status

    @pytest.mark.parametrize("rule", ["max_cost_ratio: 2", "max_cost_usd_per_task: 0.01", "max_duration_ratio: 3"])
    def test_values_equal_to_the_limit_pass(self, gate: Callable[..., Gated], rule: str) -> None:
        more = {"record": using(cost=0.01, seconds=4.5)}
        done = gate(tasks(100), tasks(100), self.GOOD + rule, a={"record": using(cost=0.005)}, b=more)
        assert done.verdict == "pass"

    def test_duration_is_per_attempt_with_any_number_of_repeats(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100, lambda i: [True] * 3), self.GOOD + "max_duration_ratio: 1.1")
        assert done.verdict == "pass"

    @pytest.mark.parametrize("lost", [None, FailureReason.SANDBOX_ERROR])
    def test_ratios_use_only_tasks_with_a_score_in_both_runs(
        self, gate: Callable[..., Gated], lost: FailureReason | None
    ) -> None:
        """An expensive attempt of the baseline does not count if the candidate has no score for it."""
        dear, twice = using(cost=9.0, seconds=900, only="task-000"), using(cost=0.02, seconds=3)
        config = f"margin: 0.05\n{LENIENT}max_cost_ratio: 1.5\nmax_duration_ratio: 1.5\n"
        lossy = tasks(300, lambda i: lost if i == 0 else True)
        done = gate(tasks(300), lossy, config, a={"record": dear}, b={"record": twice})
        assert (done.status("cost_ratio"), done.status("duration_ratio")) == ("fail", "fail")

    UNKNOWN = "max_cost_ratio: 100\nmax_cost_usd_per_task: 100\n"

    @pytest.mark.parametrize("side", ["a", "b"])
    @pytest.mark.parametrize(
        ("how", "why"),
        [
            (
                {"record": using(cost=0.0), "events": cut_off},
                "100 attempts called a model but recorded a cost of 0",
            ),
            ({"record": using(cost=0.0, only="task-007")}, "1 attempt called a model but recorded a cost of 0"),
            ({"events": cut_off}, "its records add up to 1 USD, but its calls may have cost up to 500 USD"),
            ({"record": lambda one: attrs.evolve(one, replayed=True)}, "100 attempts were replayed"),
        ],
    )
    def test_unknown_cost_is_inconclusive(
        self, gate: Callable[..., Gated], side: str, how: Mapping[str, Any], why: str
    ) -> None:
        done = gate(tasks(100), tasks(100), self.GOOD + self.UNKNOWN, "--allow-replayed", **{side: how})
        assert done.status("cost_ratio") == "inconclusive"
        assert done.status("cost_per_task") == ("inconclusive" if side == "b" else "pass")
        assert (done.verdict, done.code) == ("inconclusive", 1)
        whose = {"a": "baseline", "b": "candidate"}[side]
        assert done.data["reason"].startswith(f"The cost per attempt is unknown for the {whose}: {why}")

    def test_unscored_attempt_without_cost_is_accepted(self, gate: Callable[..., Gated]) -> None:
        """A provider that was unavailable charged nothing."""
        broken = tasks(300, lambda i: FailureReason.LLM_ERROR if i == 7 else True)
        free = {"record": using(cost=0.0, only="task-007")}
        done = gate(tasks(300), broken, self.GOOD + self.UNKNOWN, b=free)
        assert done.verdict == "pass"


class TestEvidence:
    CONFIG = "margin: 0.05\nmin_pairs: 50\n"

    @pytest.mark.parametrize(("run", "whose"), [("a", "baseline"), ("b", "candidate")])
    def test_records_missing_in_the_event_log_cannot_pass(
        self, gate: Callable[..., Gated], run: str, whose: str
    ) -> None:
        """Records can be forged. Here, all of them are passes."""

        def forge(directory: Path) -> None:
            (directory / "events.jsonl").unlink()
            records = directory / "attempts.jsonl"
            records.write_text(records.read_text().replace('"passed":false', '"passed":true'))

        done = gate(tasks(60, lambda i: i > 9), tasks(60, lambda i: i > 9), self.CONFIG, spoil={run: forge})
        other = {"baseline": "candidate", "candidate": "baseline"}[whose]
        assert (done.status(f"evidence_{whose}"), done.status(f"evidence_{other}")) == ("inconclusive", "pass")
        why = next(check["why"] for check in done.data["checks"] if check["name"] == f"evidence_{whose}")
        assert f"records of the {whose} are not in the event log" in why
        assert done.verdict != "pass"


class TestBounds:
    """Exact limits."""

    def test_inconclusive_worst_case_does_not_pass(self, gate: Callable[..., Gated]) -> None:
        lossy = tasks(300, lambda i: None if i < 2 else True)
        done = gate(tasks(300), lossy, f"margin: 0.015\n{LENIENT}")
        assert done.data["worst_case"]["result"]["verdict"] == "inconclusive"
        assert (done.status("non_inferiority"), done.status("worst_case")) == ("pass", "inconclusive")

    @pytest.mark.parametrize(("most", "status"), [(0.05, "pass"), (0.049, "inconclusive")])
    def test_limit_of_the_infrastructure_share(self, gate: Callable[..., Gated], most: float, status: str) -> None:
        lossy = tasks(100, lambda i: None if i < 5 else True)
        config = f"margin: 0.5\nmin_pairs: 1\nmax_infrastructure_share: {most}\n"
        assert gate(tasks(100), lossy, config).status("infrastructure_candidate") == status

    @pytest.mark.parametrize(("least", "status"), [(0.8, "pass"), (0.81, "inconclusive")])
    def test_tasks_only_in_the_candidate_reduce_the_paired_share(
        self, gate: Callable[..., Gated], least: float, status: str
    ) -> None:
        config = f"margin: 0.5\nmin_pairs: 80\nmin_paired_share: {least}\n"
        done = gate(tasks(80), tasks(100), config, "--allow-different-tasks")
        assert (done.status("paired_share"), done.status("min_pairs")) == (status, "pass")
        assert done.status("worst_case") == "pass"

    @pytest.mark.parametrize(("count", "takes"), [(51, True), (52, False)])
    def test_the_least_number_of_tasks(self, gate: Callable[..., Gated], count: int, takes: bool) -> None:
        done = gate(tasks(count), tasks(count, lambda i: i > 0), "margin: 0.05\nmin_pairs: 1\n")
        assert done.verdict == "inconclusive"
        assert ("Passing requires at least 52 tasks" in done.data["reason"]) == takes

    def test_one_pair_may_be_enough(self) -> None:
        assert least_pairs(0.9, 0.4) == 1


class TestLeftOut:
    CONFIG = "margin: 0.05\nmin_pairs: 5\n"

    @pytest.mark.parametrize("repeats", [1, 3])
    def test_omitted_tasks_count_as_lost(self, gate: Callable[..., Gated], tmp_path: Path, repeats: int) -> None:
        """A task left out counts as lost only if it passed in the baseline."""
        passed = tasks(100, lambda i: [i != 99] * repeats)
        left_out = gate(passed, tasks(95, lambda i: [True] * repeats), self.CONFIG, "--allow-different-tasks")
        for name in "ab":
            (tmp_path / name).rename(tmp_path / f"before-{name}")
        lost = gate(passed, tasks(100, lambda i: [True if i < 95 else None] * repeats), self.CONFIG)
        assert left_out.verdict == lost.verdict == "inconclusive"
        assert left_out.status("worst_case") == "inconclusive"
        assert left_out.data["worst_case"] == lost.data["worst_case"]
        assert left_out.data["worst_case"]["difference"] == pytest.approx(-0.04)
        assert left_out.data["reason"].startswith("5 tasks of the baseline are not in the candidate.")


class TestSuites:
    RULES = "margin: 0.2\nmin_pairs: 5\nsuites: {custom-heldout: {margin: 0.02}}\n"

    def test_suites_with_different_rules_are_refused(self, gate: Callable[..., Gated]) -> None:
        """A candidate could otherwise choose its margin by its suite name."""
        a, b = ({"run": {"suite": name}} for name in ("custom-heldout", "custom-heldoutt"))
        done = gate(tasks(100), tasks(100), self.RULES, a=a, b=b)
        assert (done.code, done.out) == (2, "")
        assert "has different rules" in done.err

    def test_suites_with_the_same_rules_are_compared(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        done = gate(tasks(100), tasks(100), self.RULES, a={"run": {"suite": "x"}}, b={"run": {"suite": "y"}})
        assert (done.verdict, done.data["rules_from"]) == ("pass", "top level")
        assert "Suite y, rules: top level." in (tmp_path / "gate.md").read_text()

    def test_page_names_the_rules_that_apply(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        own = {"run": {"suite": "custom-heldout"}}
        done = gate(tasks(100), tasks(100), self.RULES, a=own, b=own)
        assert (done.data["rules_from"], done.data["rules"]["margin"]) == ("suites.custom-heldout", 0.02)
        assert "rules: suites.custom-heldout." in (tmp_path / "gate.md").read_text()

    def test_likely_typos_in_names_are_warnings(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        config = (
            "margin: 0.05\nmin_pairs: 5\nlabels: {tamper_confirmd: ignore, mine: fail}\n"
            "suites: {custom_dev: {margin: 0.01}, custom-heldout: {labels: {Oracle: ignore}}}\n"
        )
        done = gate(tasks(100), tasks(100), config)
        slips = [warning.partition("gate.yaml ")[2] for warning in done.data["warnings"]]
        assert slips == [
            "has rules for the suite 'custom_dev', which do not apply to 'custom-dev'",
            "has a policy for the label 'Oracle', but no attempt has it (did you mean 'oracle'?)",
            "has a policy for the label 'tamper_confirmd', but no attempt has it (did you mean 'tamper_confirmed'?)",
        ]
        assert "Warning: " in (tmp_path / "gate.md").read_text()
        assert "warning: " in (ElementTree.parse(tmp_path / "gate.xml").getroot()[0].findtext("system-out") or "")

    def test_known_suites_and_labels_give_no_warning(self, gate: Callable[..., Gated]) -> None:
        config = self.RULES + "labels: {oracles: ignore, oom: fail}\n"
        done = gate(tasks(100), tasks(100), config, b={"record": labelled("oracles")})
        assert done.data["warnings"] == []


class TestRunsWithoutPasses:
    """The agreement of two runs that do nothing is not a pass."""

    GOOD = "margin: 0.05\nmin_pairs: 100\n"

    @pytest.mark.parametrize(
        ("baseline", "candidate", "verdict", "check"),
        [
            (False, False, "fail", "pass_rate_candidate"),
            (False, FailureReason.AGENT_ERROR, "fail", "agent_errors_candidate"),
            (False, True, "inconclusive", "pass_rate_baseline"),
            (FailureReason.AGENT_ERROR, True, "inconclusive", "agent_errors_baseline"),
        ],
    )
    def test_run_in_which_nothing_passes(
        self, gate: Callable[..., Gated], baseline: Any, candidate: Any, verdict: str, check: str
    ) -> None:
        done = gate(tasks(100, lambda i: baseline), tasks(100, lambda i: candidate), self.GOOD)
        assert (done.verdict, done.code, done.status(check)) == (verdict, 1, verdict)

    @pytest.mark.parametrize(
        ("rule", "ending", "check", "status"),
        [
            ("min_pass_rate: 0.2", lambda i: i < 20, "pass_rate_candidate", "pass"),
            ("min_pass_rate: 0.21", lambda i: i < 20, "pass_rate_candidate", "fail"),
            (
                "min_pass_rate: 0.2",
                lambda i: i < 19 or (None if i == 19 else False),
                "pass_rate_candidate",
                "inconclusive",
            ),
            (
                "max_agent_error_share: 0.1",
                lambda i: i < 20 or (FailureReason.AGENT_ERROR if i < 30 else False),
                "agent_errors_candidate",
                "pass",
            ),
            (
                "max_agent_error_share: 0.1",
                lambda i: i < 20 or (FailureReason.AGENT_ERROR if i < 30 else None if i == 30 else False),
                "agent_errors_candidate",
                "inconclusive",
            ),
        ],
    )
    def test_bounds_include_missing_results(
        self, gate: Callable[..., Gated], rule: str, ending: Callable[[int], Any], check: str, status: str
    ) -> None:
        """Missing results may have been passes or failures."""
        done = gate(tasks(100, lambda i: i < 20), tasks(100, ending), f"{self.GOOD}{rule}\n")
        assert done.status(check) == status


class TestHeldoutDrop:
    """The observed drop, alone or with a margin. It is for suites that are too small for a margin."""

    ONLY = "max_heldout_drop: 0.1\nmin_pairs: 1\n"
    LOSSY = "max_heldout_drop: 0.1\n" + LENIENT

    @pytest.mark.parametrize(
        ("candidate", "config", "verdict"),
        [
            (lambda i: i > 0, ONLY, "pass"),
            (lambda i: i > 1, ONLY, "fail"),
            (lambda i: None if i < 2 else True, LOSSY, "inconclusive"),
            (lambda i: i > 0, "margin: 0.1\n" + ONLY, "inconclusive"),
            (lambda i: i > 1, "margin: 0.9\n" + ONLY, "fail"),
        ],
    )
    def test_limit_of_the_heldout_drop(
        self, gate: Callable[..., Gated], candidate: Callable[[int], Any], config: str, verdict: str
    ) -> None:
        done = gate(tasks(10), tasks(10, candidate), config)
        assert done.verdict == verdict
        assert done.status("heldout_drop") == ("pass" if "margin: 0.1" in config else verdict)
        assert ("non_inferiority" in {check["name"] for check in done.data["checks"]}) == ("margin" in config)


class TestPlan:
    def plan(self, tmp_path: Path, capfd: pytest.CaptureFixture[str], config: str, *flags: str) -> tuple[int, str]:
        (tmp_path / "gate.yaml").write_text(config)
        named = ["--baseline", str(tmp_path / "a"), "--config", str(tmp_path / "gate.yaml"), *flags]
        with pytest.raises(SystemExit) as stop:
            main(["report", "gate", "--plan", *named])
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out + err

    @pytest.mark.parametrize(
        ("config", "code", "heading"),
        [
            ("margin: 0.3\nmin_pairs: 10\n", 0, "# Gate plan: can pass"),
            ("margin: 0.05\nmin_pairs: 10\n", 1, "# Gate plan: only a better candidate can pass"),
            ("margin: 0.05\nmin_pairs: 11\n", 1, "# Gate plan: can never pass"),
        ],
    )
    def test_plan_without_a_candidate(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], config: str, code: int, heading: str
    ) -> None:
        write_run(tmp_path / "a", tasks(10, lambda i: i < 5))
        found, out = self.plan(tmp_path, capfd, config)
        assert (found, out.splitlines()[0]) == (code, heading)
        again, data = self.plan(tmp_path, capfd, config, "--format", "json")
        assert (again, json.loads(data)["suite"]) == (code, "custom-dev")

    def test_report_warns_if_no_candidate_can_pass(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(10), tasks(10), "margin: 0.05\nmin_pairs: 11\n")
        (warning,) = done.data["warnings"]
        assert warning.startswith("no candidate can pass this gate on these tasks with this baseline")
        assert "non_inferiority" in warning
        assert "min_pairs" in warning

    @pytest.mark.parametrize("extra", [["--candidate", "a"], ["--junit", "x.xml"]])
    def test_flags_that_do_not_apply_are_refused(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], extra: list[str]
    ) -> None:
        write_run(tmp_path / "a", tasks(10))
        code, out = self.plan(tmp_path, capfd, "margin: 0.3\nmin_pairs: 10\n", *extra)
        assert code == 2
        assert f"{extra[0]} cannot be used with --plan" in out


class TestRefused:
    @pytest.mark.parametrize(
        "broken",
        [
            {"a": shutil.rmtree},
            {"b": shutil.rmtree},
            {"b": lambda run: (shutil.rmtree(run), run.write_text("no directory"))},
            {"gate.yaml": Path.unlink},
            {"gate.yaml": lambda file: (file.unlink(), file.mkdir())},
            {"a": lambda run: (run / "run.json").write_text("[" * 100_000)},
            {"b": lambda run: (run / "attempts.jsonl").write_bytes(b"\xff\n")},
        ],
    )
    def test_refusal_replaces_earlier_reports(
        self, gate: Callable[..., Gated], tmp_path: Path, broken: Mapping[str, Callable[[Path], object]]
    ) -> None:
        for name in ("gate.xml", "gate.md"):
            (tmp_path / name).write_text("PASS, of last time")
        done = gate(tasks(60), tasks(60), "margin: 0.05\nmin_pairs: 1\n", spoil=broken)
        assert (done.code, done.out) == (2, "")
        assert (tmp_path / "gate.md").read_text().startswith("# Gate: REFUSED\n")
        assert 'value="refused"' in (tmp_path / "gate.xml").read_text()

    def test_internal_error_replaces_earlier_reports(
        self, gate: Callable[..., Gated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object, **__: object) -> None:
            raise RuntimeError("a mistake in the report")

        monkeypatch.setattr("agentbench_report.gate.decision.decide", fails)
        (tmp_path / "gate.xml").write_text("PASS, of last time")
        assert gate(tasks(60), tasks(60), "margin: 0.05\nmin_pairs: 1\n").code not in (0, 1)
        assert (tmp_path / "gate.md").read_text().startswith("# Gate: REFUSED\n")
        assert 'value="refused"' in (tmp_path / "gate.xml").read_text()

    @pytest.mark.parametrize(
        ("run", "flag"),
        [({"run_id": "run-a"}, ""), ({"harness": {"version": "9.9", "git_sha": ""}}, "--allow-different-harness")],
    )
    def test_incomparable_runs_have_no_verdict(
        self, gate: Callable[..., Gated], run: Mapping[str, Any], flag: str
    ) -> None:
        done = gate(tasks(100), tasks(100), "margin: 0.05\nmin_pairs: 1\n", b={"run": run})
        assert (done.code, done.out) == (2, "")
        assert flag in done.err

    def test_an_override_is_named_in_the_report(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        run = {"harness": {"version": "9.9", "git_sha": ""}}
        done = gate(tasks(100), tasks(100), "margin: 0.05\nmin_pairs: 1\n", "--allow-different-harness", b={"run": run})
        assert done.code == 0
        assert "9.9" in done.data["overridden"][0]
        assert "**Not comparable (overridden by a flag):**" in (tmp_path / "gate.md").read_text()

    def test_unwritable_file_is_reported(self, gate: Callable[..., Gated], tmp_path: Path) -> None:
        """The other file and the page are written anyway."""
        (tmp_path / "gate.xml" / "in-the-way").mkdir(parents=True)
        done = gate(tasks(60), tasks(60), "margin: 0.05\nmin_pairs: 1\n", style="md")
        assert done.code == 2
        assert "gate.xml" in done.err
        assert (tmp_path / "gate.md").read_text() == done.out
        assert done.out.startswith("# Gate: PASS\n")


class TestPage:
    def test_the_verdict_is_on_the_first_line_and_the_reason_below(
        self, gate: Callable[..., Gated], tmp_path: Path
    ) -> None:
        done = gate(tasks(100), tasks(100, lambda i: i >= 20), "margin: 0.05\nmin_pairs: 1\n", style="md")
        assert done.out == (tmp_path / "gate.md").read_text()
        lines = done.out.splitlines()
        assert lines[0] == "# Gate: FAIL"
        assert lines[2].startswith("The candidate is worse and may lose 5 pp or more: the difference is -20.0 pp")
        assert "## Regressed (20)" in lines
        assert "| task-000 |     100.0% |        0.0% | TESTS_FAILED                       |" in lines

    def test_long_lists_are_truncated_with_a_note(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(100), tasks(100, lambda i: False), "margin: 0.05\nmin_pairs: 1\n", style="md")
        assert "... and 50 more in the JSON output." in done.out
        assert "task-049" in done.out
        assert "task-050" not in done.out

    def test_hostile_names_are_escaped(self, gate: Callable[..., Gated]) -> None:
        name = "t|\x1b[31m<img src=x>[a](javascript:b)`\n# Gate: PASS"
        done = gate({name: True}, {name: False}, "margin: 0.5\nmin_pairs: 1\n", style="md")
        assert "\x1b" not in done.out
        assert not re.search(r"(?<!\\)[<`\[]", done.out.partition("## Regressed")[2].partition("TESTS_FAILED")[0])
        assert done.out.count("\n# ") == 0

    def test_names_in_only_one_run_are_escaped(self, gate: Callable[..., Gated]) -> None:
        a, b = ({f"t-{side}|<img src=x>[a](b)`": True} for side in "ab")
        both = {"both": True, "lost<b>": True}
        config = "margin: 0.5\nmin_pairs: 1\n"
        done = gate(a | both, b | both | {"lost<b>": None}, config, "--allow-different-tasks", style="md")
        for heading in ("Attempts without a score", "Only in the baseline", "Only in the candidate"):
            table = done.out.partition(f"## {heading} (1)")[2].partition("\n## ")[0]
            assert "<" in table
            assert not re.search(r"(?<!\\)[<`\[]", table)

    def test_accepted_inconclusive_verdict_is_shown(self, gate: Callable[..., Gated]) -> None:
        done = gate(tasks(3), tasks(3), "margin: 0.05\nmin_pairs: 1\n", "--inconclusive-ok", style="md")
        assert done.out.startswith("# Gate: INCONCLUSIVE\n")
        assert "The job does not fail, because inconclusive verdicts are accepted." in done.out
