"""Whether a gate can pass at all, by the baseline alone: asked before a candidate is run, and told after one, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from agentbench_report.counts import RunCounts, TaskCounts
from agentbench_report.gate.config import TOP_LEVEL, GateRules
from agentbench_report.gate.decision import decide
from agentbench_report.gate.report import Check, GateReport, Side, Status
from agentbench_report.gate.text import VERDICTS
from agentbench_report.text import markdown_table, plain

Possible = Literal["yes", "better_only", "never"]
"""``yes``: a candidate that is just as good passes; ``better_only``: it does not, one that solves every task does."""

_HEADINGS = {"yes": "can pass", "better_only": "only a better candidate can pass", "never": "can never pass"}


@attrs.frozen(kw_only=True)
class GatePlan:
    """What a gate would say of two candidates that are complete and without labels."""

    possible: Possible
    suite: str
    tasks: int
    """Of the baseline that are not quarantined."""
    repeats: int
    baseline: Side
    rules: GateRules
    rules_from: str
    equal: Status
    """Of a candidate that solves just what the baseline solves, and what the baseline has no result of."""
    perfect: Status
    """Of a candidate that solves every task in every attempt."""
    checks: tuple[Check, ...]
    """Those of the equal candidate, in which the perfect one's differ only where it is better."""

    @property
    def blocking(self) -> tuple[str, ...]:
        """The checks that the equal candidate does not pass."""
        return tuple(check.name for check in self.checks if check.status != "pass")


def plan(baseline: RunCounts, rules: GateRules, *, rules_from: str = TOP_LEVEL) -> GatePlan:
    """Ask the gate of two candidates that nobody has run. With repeats they have as many as the baseline.

    What an attempt may cost and take is left out: nobody knows what theirs would.
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


def out_of_reach(baseline: RunCounts, rules: GateRules) -> Sequence[str]:
    """A warning where a candidate that is as good as its baseline does not pass; for a report that is no pass."""
    found = plan(baseline, rules)
    if found.possible == "yes":
        return ()
    who = {
        "never": "no candidate can pass this gate on these tasks with this baseline",
        "better_only": "a candidate that is as good as this baseline cannot pass this gate on these tasks",
    }[found.possible]
    return (f"{who}: {', '.join(found.blocking)} would not pass (see agentbench report gate --plan)",)


def plan_markdown(found: GatePlan) -> str:
    """Whether it can pass, of whom, and the checks of a candidate that is as good as the baseline."""
    attempts = f"{found.repeats} attempt{'' if found.repeats == 1 else 's'} each"
    rows = [(check.name, VERDICTS[check.status], plain(check.why)) for check in found.checks]
    parts = (
        f"# Gate plan: {_HEADINGS[found.possible]}",
        f"Suite {plain(found.suite)}, rules: {plain(found.rules_from)}. The baseline is "
        f"{plain(found.baseline.variant)}, run {plain(found.baseline.run_id)}: {found.tasks} tasks, {attempts}.",
        f"A candidate that solves what the baseline solves would be: {VERDICTS[found.equal]}. One that solves every "
        f"task in every attempt: {VERDICTS[found.perfect]}.",
        "## Checks of a candidate that is as good",
        markdown_table(("check", "status", "why"), rows),
    )
    return "\n\n".join(parts) + "\n"


def _judged(baseline: RunCounts, rules: GateRules, passed: Callable[[TaskCounts], int]) -> GateReport:
    return decide(baseline, attrs.evolve(baseline, tasks=tuple(_as(task, passed) for task in baseline.tasks)), rules)


def _as(task: TaskCounts, passed: Callable[[TaskCounts], int]) -> TaskCounts:
    """A task with a score for every attempt, and nothing that speaks against one."""
    if task.invalid_throughout:
        return task
    clean = attrs.evolve(task, scored=task.planned, passed=passed(task), unscored=0, not_recorded=0)
    return attrs.evolve(clean, labels={}, reasons={}, unscored_reasons={}, suspected=0, suspected_passed=0)
