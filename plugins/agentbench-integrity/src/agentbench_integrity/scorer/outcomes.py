"""How each of the task's tests ended, its records held against what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_integrity.scorer.blinding.expectations import BlindedAssertion, Expectations
from agentbench_integrity.scorer.blinding.shown import difference, shown
from agentbench_integrity.scorer.blinding.values import holds
from agentbench_integrity.scorer.session import Session

_TOLD = 3
"""Wrong values that are told of a test."""


@attrs.frozen(kw_only=True)
class Wrong:
    """A recorded value that is not the expected one."""

    site: BlindedAssertion
    expected: Any
    got: Any

    def plain(self) -> dict[str, Any]:
        """For ``tests.json``."""
        return {
            "line": self.site.line,
            "assertion": self.site.assertion,
            "expected": shown(self.expected),
            "got": shown(self.got),
            "difference": difference(self.got, self.expected),
        }

    def __str__(self) -> str:
        more = difference(self.got, self.expected)
        return f"line {self.site.line}: expected {_cut(self.expected)}, got {_cut(self.got)}" + (
            f" ({more})" if more else ""
        )


@attrs.frozen(kw_only=True)
class TestResult:
    """How one test ended, its records held against what is expected."""

    outcome: str
    why: str = ""
    wrong: tuple[Wrong, ...] = ()
    more: int = 0
    """Wrong values that are not in ``wrong``."""
    seconds: float | None = None

    def __str__(self) -> str:
        told = str(self.wrong[0]) if self.wrong else self.why.strip().rpartition("\n")[2]
        return f"{self.outcome}: {told}" if told else self.outcome


def outcomes(session: Session, expectations: Expectations | None) -> dict[str, TestResult]:
    """How the task's own tests ended, by the names that the task has for them."""
    found = session.results
    if found is None:
        return {}
    names = expectations.names if expectations else {}
    ended: dict[str, TestResult] = {}
    for name, outcome in found.tests.items():
        if name.partition("::")[0] == session.canaries:
            continue
        meant = names.get(name, name)
        result = TestResult(outcome=outcome, why=found.why.get(name, ""), seconds=found.seconds.get(name))
        if expectations and meant in expectations.tests:
            result = _with_records(result, found.records.get(name, ()), expectations.tests[meant], expectations.sites)
        ended[meant] = result
    return ended


def _with_records(
    result: TestResult,
    records: Sequence[Sequence[Any]],
    expected: Sequence[tuple[int, Any]],
    sites: Mapping[int, BlindedAssertion],
) -> TestResult:
    """The result of a test once its records are compared; it passes only if each is there, right and in order."""
    wrong: list[Wrong] = []
    more = 0
    for record, (site, value) in zip(records, expected, strict=False):
        if record[0] != site:
            break
        if len(wrong) >= _TOLD:
            more += 1  # not looked at any more: a hostile value takes time
        elif not holds(sites[site].operator, record[1], value):
            wrong.append(Wrong(site=sites[site], expected=value, got=record[1]))
    if result.outcome != "passed":
        return attrs.evolve(result, wrong=tuple(wrong), more=0)
    if wrong:
        return attrs.evolve(result, outcome="failed", wrong=tuple(wrong), more=0)
    if [record[0] for record in records] != [site for site, _ in expected]:
        why = f"{len(records)} of {len(expected)} assertions were reached, or in another order"
        return attrs.evolve(result, outcome="failed", why=why)
    return result


def _cut(form: Any) -> str:
    text = shown(form)
    return text if len(text) <= 100 else f"{text[:100]}..."
