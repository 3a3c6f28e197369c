"""The rules of a fair task, and what to do about each."""

from __future__ import annotations

import enum

import attrs


class Rule(enum.StrEnum):
    """What a fair task holds to. Auditors have rules of their own beside these."""

    SETUP = "setup"
    BASELINE_FAILS = "baseline_fails"
    BASELINE_IN_TIME = "baseline_in_time"
    BASELINE_RUNS = "baseline_runs"
    EMPTY_PATCH_FAILS = "empty_patch_fails"
    EMPTY_PATCH_IN_TIME = "empty_patch_in_time"
    FAIL_TO_PASS = "fail_to_pass"  # noqa: S105 - a list of tests, no password
    PASS_TO_PASS = "pass_to_pass"  # noqa: S105 - another list of tests
    ORACLE_APPLIES = "oracle_applies"
    ORACLE_MAY_EDIT = "oracle_may_edit"
    ORACLE_CHANGES = "oracle_changes"
    ORACLE_PASSES = "oracle_passes"
    ORACLE_IN_TIME = "oracle_in_time"
    CHECKED = "checked"


_LATE = "Raise environment.timeout_sec; or, if the bug is that it hangs, set validation.failing_timeout_ok."

REMEDIES = {
    Rule.SETUP: "Correct repo or setup in task.yaml.",
    Rule.BASELINE_FAILS: "failing_command must fail because of the bug: do validation.files and repo.commit show it?",
    Rule.BASELINE_IN_TIME: _LATE,
    Rule.BASELINE_RUNS: "Correct failing_command, or install what it needs in setup.commands.",
    Rule.EMPTY_PATCH_FAILS: "passing_command must fail as long as the bug is there.",
    Rule.EMPTY_PATCH_IN_TIME: _LATE,
    Rule.FAIL_TO_PASS: "Take out of fail_to_pass what passes today; an empty list is filled by --write.",
    Rule.PASS_TO_PASS: "Take out of pass_to_pass what does not pass today; an empty list is filled by --write.",
    Rule.ORACLE_APPLIES: "Correct the oracle: every call must succeed on the prepared tree.",
    Rule.ORACLE_MAY_EDIT: "Keep the oracle to what agents may edit, or correct editable_globs or protected_globs.",
    Rule.ORACLE_CHANGES: "The oracle must change files that agents may edit.",
    Rule.ORACLE_PASSES: "Correct the oracle, or the tests that it does not pass.",
    Rule.ORACLE_IN_TIME: "Raise environment.timeout_sec, or make the tests faster.",
    Rule.CHECKED: "What comes after this is not known: correct what broke, and validate again.",
}
"""What to do about each rule that is broken."""


@attrs.frozen(kw_only=True)
class Note:
    """What breaks no rule, and should be known; and what to do about it."""

    reason: str
    remedy: str


NOT_PROVEN = Note(reason="no reference solution: not proven solvable", remedy="Add one: oracle.patch or oracle.script.")
"""Of a task without an oracle: what can be checked without one is checked."""

NOT_AUDITED = Note(
    reason="no auditor is in use: whether agents can reach the solution is not known",
    remedy="Install agentbench-integrity, or name an auditor: --set auditors=[NAME].",
)
"""Of every task where no plugin audits."""


@attrs.frozen(kw_only=True)
class Problem:
    """A rule that does not hold, why, what to do about it, and the end of what was printed."""

    rule: str
    reason: str
    remedy: str
    output: str = ""
