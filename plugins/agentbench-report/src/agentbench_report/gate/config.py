"""``gate.yaml``: what a candidate must keep to, per suite. Read as strictly as everything that people write."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from agentbench_core import InputError, did_you_mean, load, option, read_yaml

Policy = Literal["fail", "inconclusive", "ignore"]

LABELS: Mapping[str, Policy] = {
    "tamper_confirmed": "fail",
    "tamper_suspected": "inconclusive",
    "leak_suspected": "inconclusive",
    "oracle": "inconclusive",
    "adversary": "inconclusive",
    "touched_protected": "ignore",
    "weak_verdict": "ignore",
    "under_pressure": "ignore",
}
"""What a label means for the verdict when ``gate.yaml`` does not say; other labels are ignored."""

TOP_LEVEL = "top level"

_OTHER_LABELS = ("flaky", "dropped_link", "dropped_not_editable", "oom", "pids", "disk", "odd_files")
"""More labels that attempts may have (docs/failures.md)."""

_NEAR = 0.85
"""``custom_dev`` is near ``custom-dev``, ``custom-heldout`` is not: suites of one pack have like names."""


@attrs.frozen(kw_only=True)
class GateRules:
    """What is asked of a candidate on one suite."""

    margin: float | None = option(
        None,
        help="the loss of pass rate that is still accepted, between 0 and 1: 0.05 is 5 points; the candidate must be "
        "shown to lose less",
        minimum=0,
        maximum=0.99,
    )
    max_heldout_drop: float | None = option(
        None,
        help="how far the observed pass rate may drop at most, between 0 and 1; instead of `margin`, or beside it",
        minimum=0,
        maximum=0.99,
    )
    min_pairs: int = option(help="tasks with a score in both runs, at least", minimum=1)
    alpha: float = option(
        0.05, help="about how often a candidate that is worse by the margin may pass", minimum=0.0001, maximum=0.49
    )
    min_paired_share: float = option(
        0.95, help="share of all tasks of both runs that have a score in both, at least", minimum=0, maximum=1
    )
    max_infrastructure_share: float = option(
        0.05, help="share of planned attempts without a score, in each run, at most", minimum=0, maximum=1
    )
    min_pass_rate: float = option(
        0.1, help="pass rate over all tasks of a run, in each run, at least", minimum=0, maximum=1
    )
    max_agent_error_share: float = option(
        0.1, help="share of planned attempts that end as `AGENT_ERROR`, in each run, at most", minimum=0, maximum=1
    )
    labels: Mapping[str, Policy] = option(
        attrs.Factory(dict),
        help="what a label of an attempt means for the verdict, by its name",
    )
    max_cost_ratio: float | None = option(None, help="cost of an attempt, candidate to baseline, at most", minimum=0)
    max_cost_usd_per_task: float | None = option(
        None, help="US dollars that an attempt of the candidate costs on average, at most", minimum=0
    )
    max_duration_ratio: float | None = option(
        None, help="duration of an attempt, candidate to baseline, at most", minimum=0
    )
    inconclusive: Literal["fail", "pass"] = option(
        "fail", help="exit code of an inconclusive gate: that of a fail (1) or that of a pass (0)"
    )

    @property
    def tested_loss(self) -> float:
        """The loss that the test is made for: of ``margin``, or without one of ``max_heldout_drop``, where it decides
        nothing."""
        return self.margin if self.margin is not None else self.max_heldout_drop or 0.0


@attrs.frozen(kw_only=True)
class _Everywhere(GateRules):
    """The whole file: rules for every suite, and what is otherwise for some."""

    suites: Mapping[str, Mapping[str, Any]] = option(attrs.Factory(dict), help="rules by the name of a suite")


@attrs.frozen(kw_only=True)
class GateConfig:
    """A gate file that has been checked as a whole, also for suites that nobody asks for."""

    where: str
    everywhere: Mapping[str, Any]
    suites: Mapping[str, Mapping[str, Any]]

    def rules(self, suite: str) -> GateRules:
        """The rules of one suite: its own before those of the whole file.

        Raises InputError when a required one is in neither: ``min_pairs``, and ``margin`` or ``max_heldout_drop``.
        """
        own = self.suites.get(suite, {})
        merged = {**self.everywhere, **own}
        merged["labels"] = {**LABELS, **self.everywhere.get("labels", {}), **own.get("labels", {})}
        bounded = any(merged.get(key) is not None for key in ("margin", "max_heldout_drop"))
        lacking = ["no margin"] if not bounded else []
        lacking += ["no min_pairs"] if "min_pairs" not in merged else []
        if lacking:
            nearest = did_you_mean(suite, self.suites)
            raise InputError(
                f"{self.where}: {' and '.join(lacking)} for the suite {suite!r}{nearest}",
                remedy="Give it for every suite, at the top of the file, or below suites. There is no good default: "
                "choose it before you look (docs/gate.md). A suite that is too small for a margin can have "
                "max_heldout_drop instead.",
            )
        return load(merged, GateRules, where=self.where)

    def rules_of_both(self, baseline: str, candidate: str) -> GateRules:
        """The rules for runs of two suites by these names, which should be one.

        Raises InputError when they are not the same rules: then either run could choose what is asked of it.
        """
        found = self.rules(candidate)
        if baseline != candidate and found != self.rules(baseline):
            raise InputError(
                f"which rules? The baseline is of the suite {baseline!r}, the candidate of {candidate!r}, and "
                f"{self.where} asks something else of each",
                remedy="Hold runs of one suite against each other, or give both suites the same rules.",
            )
        return found

    def source(self, suite: str) -> str:
        """Where the rules of a suite stand."""
        return f"suites.{suite}" if suite in self.suites else TOP_LEVEL

    def near_misses(self, suites: Collection[str], labels: Collection[str]) -> Iterator[str]:
        """Names that are almost those of the runs' suites, and almost labels: probably slips, with no effect.

        ``labels`` are those that the runs have.
        """
        for suite in sorted(set(suites) - set(self.suites)):
            for meant in _near(suite, self.suites):
                yield f"{self.where} has rules for the suite {meant!r}, and none of them hold for {suite!r}"
        known = {*LABELS, *_OTHER_LABELS, *labels}
        named = [self.everywhere, *self.suites.values()]
        for label in sorted({label for rules in named for label in rules.get("labels", {})} - known):
            for meant in _near(label, known):
                yield f"{self.where} has a policy for the label {label!r}, which no attempt has: is {meant!r} meant?"


def _near(name: str, known: Collection[str]) -> list[str]:
    folded = {one.casefold(): one for one in known}
    return [folded[one] for one in difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=_NEAR)]


_PLACEHOLDERS: Mapping[str, Any] = {"min_pairs": 1}
"""Stand for required keys while one place of the file is checked: they may be in the other."""


def read_gate_config(path: Path) -> GateConfig:
    """Read and check a gate file. Raises InputError with line, or key and nearest known name."""
    data = read_yaml(path)
    if not isinstance(data, Mapping):
        raise InputError(f"{path}: expected a mapping of rules, found {data!r}"[:200], remedy="See docs/gate.md.")
    top = load({**_PLACEHOLDERS, **data}, _Everywhere, where=str(path))
    for suite, own in top.suites.items():
        load({**_PLACEHOLDERS, **own}, GateRules, where=f"{path}: suites.{suite}")
    everywhere = {key: value for key, value in data.items() if key != "suites"}
    return GateConfig(where=str(path), everywhere=everywhere, suites=top.suites)
