"""From what a session under checks left behind to a score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import Label, Output, Score, ScoringContext, Validation, not_passed, shorten
from agentbench_integrity.scorer import evidence
from agentbench_integrity.scorer.blinding.expectations import Expectations
from agentbench_integrity.scorer.outcomes import TestResult, outcomes
from agentbench_integrity.scorer.pytest_command import PytestCommand
from agentbench_integrity.scorer.results import LARGEST
from agentbench_integrity.scorer.session import Session, run_session

TAMPERED = "tamper_confirmed"
SUSPECTED = "tamper_suspected"
WEAK = "weak_verdict"
_HONEST = 1
"""pytest's exit code when a test failed, as one always does."""
_LONGEST = 2000
"""Characters of an explanation: names in it come from the sandbox."""
_ROOM = 4 << 20
"""Bytes of results beyond a multiple of what the reference solution has."""


def score(context: ScoringContext, command: PytestCommand, expectations: Expectations | None, why_weak: str) -> Score:
    """Run the tests once, blinded as far as they can be, and judge what they recorded.

    Args:
        context: what is judged.
        command: the passing command.
        expectations: of the calibration; ``None`` where there is none, and the hidden tests are run as they are.
        why_weak: why the verdict is weak; empty if it is not.
    """
    files = expectations.files if expectations else {}
    names = {meant: name for name, meant in expectations.names.items()} if expectations else {}
    session = run_session(
        context,
        command,
        context.fork(),
        files,
        names=names,
        at_most=min(LARGEST, 8 * expectations.size + _ROOM) if expectations else LARGEST,
    )
    judged = judge(session, context.validation, expectations, why_weak)
    context.save_output(attrs.evolve(session.result, stdout=_with(session.result.stdout, judged.text)))
    context.save_file("tests.json", json.dumps(judged.page, indent=1).encode())
    if session.result.timed_out:
        context.deadline.check()
        labels = tuple(label for label in judged.score.labels if label.name == WEAK)
        return Score(
            passed=False, exit_code=None, timed_out=True, labels=labels, explanation="the tests ran out of time"
        )
    return judged.score


@attrs.frozen(kw_only=True)
class Judged:
    """A score, and how it is told: ``page`` for ``tests.json``, ``text`` for the end of the output."""

    score: Score
    page: Mapping[str, Any]
    text: str


def judge(session: Session, validation: Validation, expectations: Expectations | None, why_weak: str) -> Judged:
    """The score of a session."""
    tests = outcomes(session, expectations)
    ended = {name: result.outcome for name, result in tests.items()}
    missing = _missing(session, validation, expectations, tests, ended)
    forged, unclear = _forged(session), _unclear(session)
    labels: list[Label] = []
    if forged:
        labels.append(Label(name=TAMPERED, evidence=forged))
    elif unclear and (not missing or session.result.exit_code == 0):
        labels.append(Label(name=SUSPECTED, evidence=shorten(unclear, _LONGEST)))
        missing = missing or unclear
    if why_weak:
        labels.append(Label(name=WEAK, evidence=why_weak))
    score = Score(
        passed=not (forged or missing),
        exit_code=_own_exit_code(session, ended),
        tampered=bool(forged),
        labels=tuple(attrs.evolve(label, evidence=_printable(label.evidence)) for label in labels),
        explanation=shorten(_printable(forged or missing), _LONGEST),
        tests=ended,
    )
    problems = [each for each in (forged, unclear) if each]
    return Judged(
        score=score,
        page=evidence.page(session, validation, expectations, tests, score, problems),
        text=evidence.text(session, validation, expectations, tests, score),
    )


def _missing(
    session: Session,
    validation: Validation,
    expectations: Expectations | None,
    tests: Mapping[str, TestResult],
    ended: Mapping[str, str],
) -> str:
    """Why this is no pass, whatever the checks say; empty when every test that counts passed."""
    found = session.results
    told = {name: str(result) for name, result in tests.items()}
    if found is None:
        return not_passed(validation.expected_tests, None)
    if found.problem:
        return found.problem
    expected = validation.expected_tests or tuple(expectations.tests if expectations else ())
    if missing := not_passed(expected, ended, told):
        return missing
    if validation.expected_tests:
        return ""
    if found.not_collected:
        return f"not collected: {', '.join(list(found.not_collected)[:3])}"
    bad = [name for name, outcome in ended.items() if outcome not in ("passed", "skipped")]
    return not_passed(bad, ended, told) if "passed" in ended.values() else "no test passed"


def _forged(session: Session) -> str:
    """What no honest program can cause."""
    found = session.results
    if found is None:
        return ""
    if found.tests.get(session.must_fail) == "passed":
        return "a test that must fail ended as passed"
    return "a line of the results was written without the key of the session" if found.forged else ""


def _unclear(session: Session) -> str:
    """Why results that look like a pass are not taken for one, although nothing proves them false."""
    found, code = session.results, session.result.exit_code
    if found is None or found.end is None:
        return f"the tests ended before they were complete, with exit code {code}"
    if found.damaged:
        return f"the results are damaged: {found.damaged}"
    if code != _HONEST or found.end != _HONEST:
        return f"pytest reported exit code {found.end}, its process ended with {code}, and both must be 1"
    if found.tests.get(session.must_fail) != "failed" or found.tests.get(session.must_pass) != "passed":
        return "the tests that check the session did not end as they must"
    return ""


def _own_exit_code(session: Session, ended: Mapping[str, str]) -> int | None:
    """pytest's exit code as it would be without the test that must fail: 0 if no other test failed."""
    found, code = session.results, session.result.exit_code
    if code != _HONEST or found is None or found.end != _HONEST or found.not_collected:
        return code
    return int(any(outcome in ("failed", "error") for outcome in ended.values()))


def _with(output: Output, text: str) -> Output:
    return attrs.evolve(output, tail=output.tail + text.encode("utf-8", "backslashreplace"))


def _printable(text: str) -> str:
    """A text with words of the code under test, for a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
