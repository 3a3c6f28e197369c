"""``gate.yaml``: the rules of the gate for each suite."""

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
"""The default policies for labels. Other labels are ignored unless ``gate.yaml`` sets a policy."""

TOP_LEVEL = "top level"

_OTHER_LABELS = ("flaky", "dropped_link", "dropped_not_editable", "oom", "pids", "disk", "odd_files")
"""Other known labels of attempts (docs/failures.md)."""

_SIMILARITY = 0.85
"""The minimum similarity of names. ``custom_dev`` is similar to ``custom-dev``, but ``custom-heldout`` is not."""


@attrs.frozen(kw_only=True)
class GateRules:
    """The rules for one suite."""

    margin: float | None = option(
        None,
        help="accepted loss in pass rate, between 0 and 1 (0.05 is 5 pp); the data must show that the loss is smaller",
        minimum=0,
        maximum=0.99,
    )
    max_heldout_drop: float | None = option(
        None,
        help="maximum drop in the observed pass rate, between 0 and 1; replaces or complements `margin`",
        minimum=0,
        maximum=0.99,
    )
    min_pairs: int = option(help="minimum number of tasks with a score in both runs", minimum=1)
    alpha: float = option(
        0.05,
        help="approximate probability that the gate passes a candidate that is worse by exactly the margin",
        minimum=0.0001,
        maximum=0.49,
    )
    min_paired_share: float = option(
        0.95, help="minimum share of all tasks in either run that have a score in both runs", minimum=0, maximum=1
    )
    max_infrastructure_share: float = option(
        0.05, help="maximum share of planned attempts without a score, in each run", minimum=0, maximum=1
    )
    min_pass_rate: float = option(0.1, help="minimum pass rate across all tasks, in each run", minimum=0, maximum=1)
    max_agent_error_share: float = option(
        0.1, help="maximum share of planned attempts that end as `AGENT_ERROR`, in each run", minimum=0, maximum=1
    )
    labels: Mapping[str, Policy] = option(attrs.Factory(dict), help="effect of a label on the verdict, by label name")
    max_cost_ratio: float | None = option(
        None, help="maximum ratio of the cost per attempt, candidate to baseline", minimum=0
    )
    max_cost_usd_per_task: float | None = option(
        None, help="maximum average cost of a candidate attempt, in US dollars", minimum=0
    )
    max_duration_ratio: float | None = option(
        None, help="maximum ratio of the duration per attempt, candidate to baseline", minimum=0
    )
    inconclusive: Literal["fail", "pass"] = option(
        "fail", help="exit code of an inconclusive gate: 1 for fail, 0 for pass"
    )

    @property
    def tested_loss(self) -> float:
        """The loss to test for: ``margin``, or otherwise ``max_heldout_drop``, for which the test is not decisive."""
        return self.margin if self.margin is not None else self.max_heldout_drop or 0.0


@attrs.frozen(kw_only=True)
class _GateFile(GateRules):
    """The whole file: rules for all suites, and overrides for some."""

    suites: Mapping[str, Mapping[str, Any]] = option(attrs.Factory(dict), help="rules by suite name")


@attrs.frozen(kw_only=True)
class GateConfig:
    """A gate file. All of its sections have been checked."""

    path: str
    defaults: Mapping[str, Any]
    suites: Mapping[str, Mapping[str, Any]]

    def rules(self, suite: str) -> GateRules:
        """The rules of one suite, merged over the defaults of the file.

        Raises:
            InputError: ``min_pairs`` is missing, or both ``margin`` and ``max_heldout_drop`` are.
        """
        overrides = self.suites.get(suite, {})
        merged = {**self.defaults, **overrides}
        merged["labels"] = {**LABELS, **self.defaults.get("labels", {}), **overrides.get("labels", {})}
        bounded = any(merged.get(key) is not None for key in ("margin", "max_heldout_drop"))
        missing = ["no margin"] if not bounded else []
        missing += ["no min_pairs"] if "min_pairs" not in merged else []
        if missing:
            nearest = did_you_mean(suite, self.suites)
            raise InputError(
                f"{self.path} sets {' and '.join(missing)} for the suite {suite!r}{nearest}",
                remedy="Set each missing rule at the top level or under suites. There are no defaults: choose values "
                "before you look at results (docs/gate.md). If the suite is too small for a margin, set "
                "max_heldout_drop instead.",
            )
        return load(merged, GateRules, where=self.path)

    def rules_of_both(self, baseline: str, candidate: str) -> GateRules:
        """The rules for runs of the suites ``baseline`` and ``candidate``, which are normally the same suite.

        Raises:
            InputError: the suites have different rules.
        """
        rules = self.rules(candidate)
        if baseline != candidate and rules != self.rules(baseline):
            raise InputError(
                f"the baseline is a run of the suite {baseline!r} and the candidate is a run of "
                f"{candidate!r}, but {self.path} has different rules for these suites",
                remedy="Compare runs of the same suite, or define the same rules for both suites.",
            )
        return rules

    def source(self, suite: str) -> str:
        """The section of the file with the rules of a suite."""
        return f"suites.{suite}" if suite in self.suites else TOP_LEVEL

    def near_misses(self, suites: Collection[str], labels: Collection[str]) -> Iterator[str]:
        """Warnings about names in the file that are similar to ``suites`` or ``labels`` and are probably typos.

        ``suites`` and ``labels`` come from the runs.
        """
        for suite in sorted(set(suites) - set(self.suites)):
            for similar in _similar(suite, self.suites):
                yield f"{self.path} has rules for the suite {similar!r}, which do not apply to {suite!r}"
        known = {*LABELS, *_OTHER_LABELS, *labels}
        sections = [self.defaults, *self.suites.values()]
        for label in sorted({label for rules in sections for label in rules.get("labels", {})} - known):
            for similar in _similar(label, known):
                hint = f"(did you mean {similar!r}?)"
                yield f"{self.path} has a policy for the label {label!r}, but no attempt has it {hint}"


def _similar(name: str, known: Collection[str]) -> list[str]:
    folded = {other.casefold(): other for other in known}
    matches = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=_SIMILARITY)
    return [folded[match] for match in matches]


_PLACEHOLDERS: Mapping[str, Any] = {"min_pairs": 1}
"""Placeholders for required keys while one section is checked, since another section may contain them."""


def read_gate_config(path: Path) -> GateConfig:
    """Read and check a gate file.

    Raises:
        InputError: the file is invalid; the message contains the line, or the key and the nearest known name.
    """
    data = read_yaml(path)
    if not isinstance(data, Mapping):
        raise InputError(f"{path}: expected a mapping of rules, found {data!r}"[:200], remedy="See docs/gate.md.")
    gate_file = load({**_PLACEHOLDERS, **data}, _GateFile, where=str(path))
    for suite, overrides in gate_file.suites.items():
        load({**_PLACEHOLDERS, **overrides}, GateRules, where=f"{path}: suites.{suite}")
    defaults = {key: value for key, value in data.items() if key != "suites"}
    return GateConfig(path=str(path), defaults=defaults, suites=gate_file.suites)
