"""The result of calibration: the blinded files and the expected records of each test. It never leaves the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import Validation, quantity, shorten

VERSION = 5
"""Version of blinding. Increasing it causes all tasks to be calibrated again."""
_MIN_FUNCTIONS = 2
_MIN_WITNESSED = 0.25
"""Minimum share of fail-to-pass tests with a witness. Below it, most of them can be forged."""
_MAX_NAMED = 3
_MAX_CHARS = 2000  # characters


@attrs.frozen(kw_only=True)
class BlindedAssertion:
    """A blinded assertion.

    ``bits`` is the highest rating of its witnesses and ``safe`` the number of distinct safe values; see ``witnesses``.
    ``secret`` is the number of bits of the expected value that are not in the blinded file.
    """

    file: str
    line: int
    function: str
    operator: str
    assertion: str
    secret: float = 0.0
    witness: bool = False
    bits: float = 0.0
    safe: int = 0


@attrs.frozen(kw_only=True)
class Expectations:
    """The data for scoring a session of blinded tests."""

    version: int = VERSION
    files: Mapping[str, str]
    """Text of each blinded file, by path."""
    names: Mapping[str, str]
    """Maps the name of a test in the blinded file to its name in the task, where they differ."""
    tests: Mapping[str, tuple[tuple[int, Any], ...]]
    """Site and expected value of each record in order, by the test name in the task."""
    sites: Mapping[int, BlindedAssertion]
    left: Mapping[str, int]
    """Number of assertions that are not blinded, by reason."""
    size: int
    """Size of the result file with the reference solution, in bytes."""
    fail_to_pass: int = 0
    """Number of hidden tests that fail before the fix and pass with it; ``witnessed`` of them have a witness."""
    witnessed: int = 0

    @property
    def safe_functions(self) -> int:
        """Number of test functions with a safe witness."""
        return len({(site.file, site.function) for site in self.sites.values() if site.safe})


def dumped(expectations: Expectations) -> dict[str, Any]:
    """Convert to plain data for JSON."""
    plain: dict[str, Any] = attrs.asdict(expectations, recurse=True)
    plain["sites"] = {str(number): site for number, site in plain["sites"].items()}
    plain["tests"] = {name: [list(record) for record in records] for name, records in expectations.tests.items()}
    return plain


def loaded(plain: Mapping[str, Any]) -> Expectations | None:
    """Convert from plain data; ``None`` if it is damaged or has another version."""
    try:
        if plain["version"] != VERSION:
            return None
        return Expectations(
            files=dict(plain["files"]),
            names=dict(plain["names"]),
            tests={
                name: tuple((int(site), form) for site, form in records) for name, records in plain["tests"].items()
            },
            sites={int(number): BlindedAssertion(**site) for number, site in plain["sites"].items()},
            left={why: int(times) for why, times in plain["left"].items()},
            size=int(plain["size"]),
            fail_to_pass=int(plain["fail_to_pass"]),
            witnessed=int(plain["witnessed"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def summary(expectations: Expectations) -> tuple[str, ...]:
    """The lines that ``validate-tasks`` prints about a calibration."""
    sites = expectations.sites.values()
    witnesses = sum(site.witness for site in sites)
    safe = sum(site.safe for site in sites)
    total = len(expectations.sites) + sum(expectations.left.values())
    lines = [
        f"witnesses: {witnesses} ({safe} safe values in {expectations.safe_functions} test functions), "
        f"{expectations.witnessed} of {expectations.fail_to_pass} fail-to-pass tests; "
        f"{len(expectations.sites)} of {total} assertions blinded"
    ]
    if expectations.fail_to_pass and expectations.witnessed < _MIN_WITNESSED * expectations.fail_to_pass:
        share = f"{100 * expectations.witnessed / expectations.fail_to_pass:.0f}%"
        lines.append(f"warning: only {share} of the fail-to-pass tests have a witness; the others can be forged")
    return tuple(lines)


def weakness(validation: Validation, expectations: Expectations) -> str:
    """Why verdicts on the task can be forged, and how to fix it; empty if they are hard to forge."""
    if not validation.expected_tests:
        return (
            "the task lists no expected tests, so a test that does not run goes unnoticed "
            "(add them with: agentbench validate-tasks --write)"
        )
    functions = expectations.safe_functions
    if functions >= _MIN_FUNCTIONS:
        return ""
    weak = [site for site in expectations.sites.values() if site.witness and not site.safe]
    weak.sort(key=lambda site: -site.bits)
    assertions = "; ".join(f"{site.file}:{site.line}: {site.assertion}" for site in weak[:_MAX_NAMED])
    remedy = (
        f"make these compare larger exact values: {assertions}" if assertions else "add tests that compare exact values"
    )
    count = f"only {quantity(functions, 'test function')} compare{'s' * (functions == 1)}"
    found = count if functions else "no test function compares"
    need = f"{found} a value that cannot be guessed (at least {_MIN_FUNCTIONS} required)"
    return shorten(f"{need}; {remedy}", _MAX_CHARS)
