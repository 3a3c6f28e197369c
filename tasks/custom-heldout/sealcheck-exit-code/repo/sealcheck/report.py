"""What is printed, and with which code the program ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sealcheck.verify import Finding, State

UNREADABLE = 2
_CODES = {State.OK: 0, State.CHANGED: 1, State.MISSING: 2}


def exit_code(findings: Iterable[Finding]) -> int:
    """The highest code of any finding, 0 without one."""
    return max((_CODES[finding.state] for finding in findings), default=0)


def line(manifest: str, finding: Finding) -> str:
    """One finding."""
    return f"{manifest}: {finding.state.value} {finding.name}"


def summary(findings: Iterable[Finding]) -> str:
    """How many of each."""
    counts = Counter(finding.state for finding in findings)
    files = "1 file" if counts.total() == 1 else f"{counts.total()} files"
    return f"{files}: " + ", ".join(f"{counts[state]} {state.value}" for state in State)
