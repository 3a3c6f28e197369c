"""Check whether a gate can pass, given only the baseline. Used before a candidate is run, and for later warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from agentbench_core import escape_markdown, markdown_table
from agentbench_report.counts import Effort, RunCounts, TaskCounts
from agentbench_report.gate.config import TOP_LEVEL, GateRules
from agentbench_report.gate.decision import decide
from agentbench_report.gate.report import Check, GateReport, Side, Status
from agentbench_report.gate.text import VERDICTS

Possible = Literal["yes", "better_only", "never"]
"""``yes``: a candidate as good as the baseline passes. ``better_only``: it does not pass, but a candidate that passes
every attempt does. ``never``: not even such a candidate passes."""

_HEADINGS = {"yes": "can pass", "better_only": "only a better candidate can pass", "never": "can never pass"}


@attrs.frozen(kw_only=True)
class GatePlan:
    """The gate's verdicts for two hypothetical candidates that are complete and without labels."""

    possible: Possible
    suite: str
    tasks: int
    """The number of baseline tasks that are not quarantined."""
    repeats: int
    baseline: Side
    rules: GateRules
    rules_from: str
    equal: Status
    """The verdict for a candidate that passes where the baseline passes or has no score."""
    perfect: Status
    """The verdict for a candidate that passes every attempt."""
    checks: tuple[Check, ...]
    """The checks for the equal candidate."""

    @property
    def blocking(self) -> tuple[str, ...]:
        """The checks that the equal candidate does not pass."""
        return tuple(check.name for check in self.checks if check.status != "pass")


def plan(baseline: RunCounts, rules: GateRules, *, rules_from: str = TOP_LEVEL) -> GatePlan:
    """Run the gate on two hypothetical candidates with as many repeats as the baseline.

    The rules on cost and duration are not applied, since the candidates' cost and duration are unknown.
    """
    rules = attrs.evolve(rules, max_cost_ratio=None, max_cost_usd_per_task=None, max_duration_ratio=None)
    equal = _judged(baseline, rules, lambda task: task.passed + task.missing)
    perfect = _judged(baseline, rules, lambda task: task.planned)
    possible: Possible = "never" if perfect.verdict != "pass" else "better_only"
    return GatePlan(
        possible="yes" if equal.verdict == "pass" else possible,
        suite=equal.suite,
        tasks=len(baseline.counted.tasks),
        repeats=baseline.manifest.repeats,
        baseline=equal.baseline,
        rules=rules,
        rules_from=rules_from,
        equal=equal.verdict,
        perfect=perfect.verdict,
        checks=equal.checks,
    )


def plan_warnings(baseline: RunCounts, rules: GateRules) -> Sequence[str]:
    """A warning for reports whose verdict is not a pass, if an equally good candidate could not pass either."""
    result = plan(baseline, rules)
    if result.possible == "yes":
        return ()
    problem = {
        "never": "no candidate can pass this gate on these tasks with this baseline",
        "better_only": "a candidate that is as good as this baseline cannot pass this gate on these tasks",
    }[result.possible]
    return (f"{problem}: {', '.join(result.blocking)} would not pass (see agentbench report gate --plan)",)


def plan_markdown(result: GatePlan) -> str:
    """The plan as Markdown, with the checks for a candidate that is as good as the baseline."""
    attempts = f"{result.repeats} attempt{'' if result.repeats == 1 else 's'} per task"
    rows = [(check.name, VERDICTS[check.status], escape_markdown(check.why)) for check in result.checks]
    parts = (
        f"# Gate plan: {_HEADINGS[result.possible]}",
        f"Suite {escape_markdown(result.suite)}, rules: {escape_markdown(result.rules_from)}. Baseline: "
        f"{escape_markdown(result.baseline.variant)}, run {escape_markdown(result.baseline.run_id)}, with "
        f"{result.tasks} task{'' if result.tasks == 1 else 's'} and {attempts}.",
        f"Verdict for a candidate with the same passes as the baseline: {VERDICTS[result.equal]}. Verdict for a "
        f"candidate that solves every task in every attempt: {VERDICTS[result.perfect]}.",
        "## Checks for an equally good candidate",
        markdown_table(("check", "status", "why"), rows),
    )
    return "\n\n".join(parts) + "\n"


def _judged(baseline: RunCounts, rules: GateRules, passed: Callable[[TaskCounts], int]) -> GateReport:
    return decide(baseline, attrs.evolve(baseline, tasks=tuple(_as(task, passed) for task in baseline.tasks)), rules)


def _as(task: TaskCounts, passed: Callable[[TaskCounts], int]) -> TaskCounts:
    """The task with a score for every attempt, without labels, failure reasons or effort; unchanged if invalid."""
    if task.invalid_throughout:
        return task
    clean = attrs.evolve(task, scored=task.planned, passed=passed(task), unscored=0, not_recorded=0, effort=Effort())
    return attrs.evolve(clean, labels={}, reasons={}, unscored_reasons={}, suspected=0, suspected_passed=0)
