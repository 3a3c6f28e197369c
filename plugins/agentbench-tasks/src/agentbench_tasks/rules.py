"""The rules for valid tasks, and how to fix violations."""

from __future__ import annotations

import enum

import attrs


class Rule(enum.StrEnum):
    """Rules for every task. Auditors add their own."""

    SETUP = "setup"
    BASELINE_FAILS = "baseline_fails"
    BASELINE_IN_TIME = "baseline_in_time"
    BASELINE_RUNS = "baseline_runs"
    EMPTY_PATCH_FAILS = "empty_patch_fails"
    EMPTY_PATCH_IN_TIME = "empty_patch_in_time"
    FAIL_TO_PASS = "fail_to_pass"  # noqa: S105 - a list of tests, not a password
    PASS_TO_PASS = "pass_to_pass"  # noqa: S105 - another list of tests
    ORACLE_APPLIES = "oracle_applies"
    ORACLE_MAY_EDIT = "oracle_may_edit"
    ORACLE_CHANGES = "oracle_changes"
    ORACLE_PASSES = "oracle_passes"
    ORACLE_IN_TIME = "oracle_in_time"
    CHECKED = "checked"


_LATE = "Raise environment.timeout_sec, or set validation.failing_timeout_ok if the bug is a hang."

REMEDIES = {
    Rule.SETUP: "Correct repo or setup in task.yaml.",
    Rule.BASELINE_FAILS: "Make failing_command fail because of the bug: check validation.files and repo.commit.",
    Rule.BASELINE_IN_TIME: _LATE,
    Rule.BASELINE_RUNS: "Correct failing_command, or install its dependencies in setup.commands.",
    Rule.EMPTY_PATCH_FAILS: "Make passing_command fail without the fix.",
    Rule.EMPTY_PATCH_IN_TIME: _LATE,
    Rule.FAIL_TO_PASS: "Remove tests that already pass from fail_to_pass; --write fills an empty list.",
    Rule.PASS_TO_PASS: "Remove tests that do not pass from pass_to_pass; --write fills an empty list.",
    Rule.ORACLE_APPLIES: "Correct the reference solution: every call must succeed on the prepared tree.",
    Rule.ORACLE_MAY_EDIT: (
        "Limit the reference solution to files that agents may edit, or correct editable_globs or protected_globs."
    ),
    Rule.ORACLE_CHANGES: "The reference solution must change files that agents may edit.",
    Rule.ORACLE_PASSES: "Correct the reference solution, or the tests that it does not pass.",
    Rule.ORACLE_IN_TIME: "Raise environment.timeout_sec, or make the tests faster.",
    Rule.CHECKED: "Later checks did not run. Fix the failure and validate again.",
}
"""The remedy for each broken rule."""


@attrs.frozen(kw_only=True)
class Note:
    """Something that breaks no rule but is worth knowing, with its remedy."""

    reason: str
    remedy: str


NOT_PROVEN = Note(
    reason="no reference solution, so the task is not proven solvable",
    remedy="Add a reference solution: oracle.patch or oracle.script.",
)
"""The note on a task without a reference solution. Only checks that do not need one are run."""

NOT_AUDITED = Note(
    reason="no auditor is in use, so it is unknown whether agents can access the solution",
    remedy="Install agentbench-integrity, or select an auditor: --set auditors=[NAME].",
)
"""The note on every task if no auditor is in use."""


@attrs.frozen(kw_only=True)
class Problem:
    """A broken rule: reason, remedy, and the end of the output."""

    rule: str
    reason: str
    remedy: str
    output: str = ""
