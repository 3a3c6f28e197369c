"""What calibration found out: the blinded files, and what each test must record. Only the host has this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import Validation, shorten

VERSION = 5
"""Of blinding as a whole: with another one, tasks are calibrated again."""
_FEWEST_FUNCTIONS = 2
_SHARE = 0.25
"""Of the tests that a fix must turn: with fewer witnessed ones, most of them can be forged."""
_NAMED = 3
_LONGEST = 2000  # characters


@attrs.frozen(kw_only=True)
class BlindedAssertion:
    """A blinded assertion. ``bits`` is the most that one of its witnesses is worth; see ``witnesses``.

    ``safe`` counts its different expected values that are safe, and ``secret`` is how many bits of what is expected are
    not in the blinded file.
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
    """By which a session of blinded tests is judged."""

    version: int = VERSION
    files: Mapping[str, str]
    """Text of each blinded file, by its path."""
    names: Mapping[str, str]
    """The task's name of a test, by the name that it has in the blinded file; those that are the same are left out."""
    tests: Mapping[str, tuple[tuple[int, Any], ...]]
    """By the task's name of a test: the site and the expected value of each record, in order."""
    sites: Mapping[int, BlindedAssertion]
    left: Mapping[str, int]
    """How many assertions are not blinded, by reason."""
    size: int
    """Bytes of results with the reference solution."""
    fail_to_pass: int = 0
    """How many tests fail before the fix and pass with it; ``witnessed`` of them record a value that tells."""
    witnessed: int = 0

    @property
    def safe_functions(self) -> int:
        """Test functions with a witness that nobody guesses."""
        return len({(site.file, site.function) for site in self.sites.values() if site.safe})


def dumped(expectations: Expectations) -> dict[str, Any]:
    """As JSON, in an order that is good to read."""
    plain: dict[str, Any] = attrs.asdict(expectations, recurse=True)
    plain["sites"] = {str(number): site for number, site in plain["sites"].items()}
    plain["tests"] = {name: [list(each) for each in records] for name, records in expectations.tests.items()}
    return plain


def loaded(plain: Mapping[str, Any]) -> Expectations | None:
    """From JSON; ``None`` if it is of another version, or damaged."""
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
    """What ``validate-tasks`` shows of a calibration."""
    sites = expectations.sites.values()
    witnesses = sum(site.witness for site in sites)
    safe = sum(site.safe for site in sites)
    total = len(expectations.sites) + sum(expectations.left.values())
    lines = [
        f"witnesses: {witnesses} ({safe} safe values in {expectations.safe_functions} test functions), "
        f"{expectations.witnessed} of {expectations.fail_to_pass} fail-to-pass tests; "
        f"{len(expectations.sites)} of {total} assertions blinded"
    ]
    if expectations.fail_to_pass and expectations.witnessed < _SHARE * expectations.fail_to_pass:
        share = f"{100 * expectations.witnessed / expectations.fail_to_pass:.0f} %"
        lines.append(f"warning: only {share} of the fail-to-pass tests have a witness; the others can be forged")
    return tuple(lines)


def weakness(validation: Validation, expectations: Expectations) -> str:
    """What the task leaves open for a forger, with a remedy; empty if nothing."""
    if not validation.expected_tests:
        return "the task names no tests, so one that was not run is not missed (validate-tasks --write names them)"
    functions = expectations.safe_functions
    if functions >= _FEWEST_FUNCTIONS:
        return ""
    weak = [site for site in expectations.sites.values() if site.witness and not site.safe]
    weak.sort(key=lambda site: -site.bits)
    named = "; ".join(f"{site.file}:{site.line}: {site.assertion}" for site in weak[:_NAMED])
    remedy = f"; let these compare larger exact values: {named}" if named else "; add tests that compare exact values"
    need = f"{functions} test functions compare a value that cannot be guessed, and {_FEWEST_FUNCTIONS} must at least"
    return shorten(f"{need}{remedy}", _LONGEST)
