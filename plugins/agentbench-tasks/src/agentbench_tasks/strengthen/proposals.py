"""Proposed assertions: several calls with other inputs, and the values that the reference solution returns."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from agentbench_tasks.strengthen.calls import Call, Skipped
from agentbench_tasks.strengthen.observing import MISSING, Observed, Probe
from agentbench_tasks.strengthen.values import canonical, leaves, source_of

_MAX_VALUE = 400  # characters of one value
_MAX_TOGETHER = 6
"""Maximum number of calls in one assertion."""
_ENOUGH = 160
"""Number of characters of values at which no more calls are added to an assertion."""
_UNCHANGED = "its values are the same in the unfixed program"
_MIN_TO_SPLIT = 4
"""Minimum number of calls that are split between two test functions."""


@attrs.frozen(kw_only=True)
class Proposal:
    """A test function with one assertion, which the author can accept."""

    number: int  #: for the author, counted from 1
    call: Call  #: the call in a failing test that is repeated with other inputs
    sources: tuple[str, ...]  #: the expressions
    values: tuple[str, ...]  #: their values with the reference solution, as Python source
    unfixed: tuple[str, ...]  #: the results or exceptions of the unfixed program

    @property
    def name(self) -> str:
        """The name of the test function."""
        return f"test_strengthened_{self.number}"

    @property
    def code(self) -> str:
        """The test function."""
        body = [*self.call.imports, self.assertion]
        return f"def {self.name}() -> None:\n{textwrap.indent(chr(10).join(body), '    ')}\n"

    @property
    def assertion(self) -> str:
        """The assertion."""
        if len(self.sources) == 1:
            return f"assert {self.sources[0]} == {self.values[0]}"
        sources, values = ("".join(f"    {each},\n" for each in side) for side in (self.sources, self.values))
        return f"assert [\n{sources}] == [\n{values}]"


def make_proposals(probes: Sequence[Probe], limit: int) -> tuple[Sequence[Proposal], Sequence[Skipped]]:
    """Group calls into at most ``limit`` assertions, and explain why other calls have none."""
    by_call: dict[int, list[Probe]] = {}
    for probe in probes:
        by_call.setdefault(id(probe.call), []).append(probe)
    groups: list[list[Sequence[Probe]]] = []
    skipped: list[Skipped] = []
    for mine in by_call.values():
        usable, reason = _usable(mine)
        if usable:
            groups.append(_grouped(usable))
        else:
            skipped.append(Skipped(where=mine[0].call.where, reason=reason))
    in_turn = [each for row in itertools.zip_longest(*groups) for each in row if each][:limit]
    proposals = [
        Proposal(
            number=number,
            call=group[0].call,
            sources=tuple(probe.source for probe in group),
            values=tuple(source_of(probe.fixed[0].value) for probe in group),
            unfixed=tuple(probe.unfixed[0].text for probe in group),
        )
        for number, group in enumerate(in_turn, start=1)
    ]
    return proposals, skipped


def _usable(probes: Sequence[Probe]) -> tuple[Sequence[Probe], str]:
    """The calls of one kind that assertions can contain, or the most frequent reason why none can.

    If all values differ from the unfixed program's values by the same amount, calls whose values are the same in both
    programs are added: then it is not enough to add this amount to each value.
    """
    problems = Counter[str]()
    usable: dict[str, Probe] = {}
    unchanged: dict[str, Probe] = {}
    for probe in probes:
        if problem := _problem(probe):
            problems[problem] += 1
            if problem == _UNCHANGED:
                unchanged.setdefault(probe.fixed[0].key, probe)
        else:
            usable.setdefault(probe.fixed[0].key, probe)
    chosen = list(usable.values())
    if not chosen:
        problems[str(MISSING.value)] = 0  # a consequence of other problems, if there are others
        return (), problems.most_common(1)[0][0]
    if not _same_difference(chosen):
        return chosen, ""
    added = list(unchanged.values())
    if not added:
        return (), "all values differ from the unfixed program's values by the same amount, so they are easy to guess"
    return [probe for pair in zip(chosen, added, strict=False) for probe in pair], ""


def _problem(probe: Probe) -> str:
    """Why a call cannot be part of an assertion; empty if it can."""
    first = probe.fixed[0]
    if len({observed.key for observed in probe.fixed}) > 1:
        return "its values differ between runs"
    if first.kind == "raised":
        return "it raises an exception, and exceptions are not proposed"
    if first.kind == "problem":
        return str(first.value)
    if any(observed.kind == "problem" and not _is_about_value(observed) for observed in probe.unfixed):
        return "the unfixed program does not return"
    if all(leaf is None or isinstance(leaf, bool) for leaf in leaves(first.value)):
        return "its values are only True, False or None, which are easy to guess"
    if len(source_of(first.value)) > _MAX_VALUE:
        return "its values are too long to review"
    return _UNCHANGED if any(observed.key == first.key for observed in probe.unfixed) else ""


def _is_about_value(observed: Observed) -> bool:
    """Whether the call returned, but its value cannot be written."""
    return str(observed.value).startswith("its value")


def _same_difference(probes: Sequence[Probe]) -> bool:
    pairs = [(probe.fixed[0].value, probe.unfixed[0]) for probe in probes]
    if not all(_is_number(value) and _is_number(unfixed.value) for value, unfixed in pairs):
        return False
    return len({canonical(value - unfixed.value) for value, unfixed in pairs}) == 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _grouped(probes: Sequence[Probe]) -> list[Sequence[Probe]]:
    """One or two groups. Both contain small and large variations."""
    if len(probes) < _MIN_TO_SPLIT:
        return [_first_of(probes)]
    pairs = [probes[start : start + 2] for start in range(0, len(probes), 2)]
    halves = ([probe for pair in pairs[start::2] for probe in pair] for start in (0, 1))
    return [_first_of(half) for half in halves]


def _first_of(probes: Sequence[Probe]) -> Sequence[Probe]:
    """As many calls as an assertion needs."""
    chars = itertools.accumulate(len(source_of(probe.fixed[0].value)) for probe in probes)
    needed = 1 + sum(total < _ENOUGH for total in chars)
    return probes[: min(needed, _MAX_TOGETHER)]
