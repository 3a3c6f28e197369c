"""The text of a mined task: its source, what is removed from it, and texts that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_tasks.mining.cleaning import LONGEST, clean
from agentbench_tasks.mining.description import describe_commit, describes, instruction
from agentbench_tasks.mining.discussions import Discussion
from agentbench_tasks.mining.values import Code, Commit, Description, RejectedError

ID, PARENT = "4f2a9c" + "0" * 34, "9be17d" + "0" * 34
EARLIER, LATER = "2024-05-01T12:00:00Z", "2024-05-03T12:00:00Z"
PATCH = """\
diff --git a/CHANGES.md b/CHANGES.md
--- a/CHANGES.md
+++ b/CHANGES.md
@@ -1 +1,2 @@
+- Fixed durations of less than one second in totals.
 - older
diff --git a/src/clock.py b/src/clock.py
--- a/src/clock.py
+++ b/src/clock.py
@@ -1,4 +1,6 @@
+import functools
 def total(parts, unit="s"):
-    return sum(round(part) for part in parts)
+    exact = sum(part * SCALE[unit] for part in parts)
+    return round(exact)
"""
HIDDEN = {"tests/test_clock.py": b"def test_total():\n    assert total([0.4, 0.4, 0.4]) == 1\n"}
DESCRIBED = "Totals of short durations are zero"


def commit(subject: str = "", body: str = "", merged: tuple[str, ...] = ()) -> Commit:
    return Commit(
        id=ID,
        parent=PARENT,
        date="2024-05-02T13:00:00Z",
        author_date="2024-05-02T12:00:00Z",
        author="Ann <ann@example.org>",
        subject=subject,
        body=body,
        merged=merged,
    )


def discussion(text: str = "", *, kind: Any = "issue", created: str = EARLIER, title: str = DESCRIBED) -> Discussion:
    return Discussion(number=12, kind=kind, title=title, body=text, created_at=created)


def described(given: Commit, discussions: dict[str, Discussion] | None = None) -> Description:
    return describe_commit(given, discussions or {}, patch=PATCH, hidden=HIDDEN)


def refused(given: Commit, discussions: dict[str, Discussion] | None = None) -> tuple[Code, str]:
    with pytest.raises(RejectedError) as error:
        described(given, discussions)
    return error.value.rejection.code, error.value.rejection.reason


# --- sources -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "Fixes #12",
        "fix totals\n\nCloses: #12",
        "Fix rounding of totals (#12)",
        "GH-12: round once",
        "Resolves https://forge.example/a/b/issues/12",
        "See #7 and fix issue #12",
    ],
)
def test_an_issue_that_the_message_names_comes_first(message: str) -> None:
    subject, _, body = message.partition("\n\n")
    found = described(commit(subject, body), {"#12": discussion("`total([0.4, 0.4, 0.4])` is 0.")})
    assert found == Description(text=f"{DESCRIBED}\n\n`total([0.4, 0.4, 0.4])` is 0.", source="issue")


def test_an_issue_that_the_commit_closes_comes_before_one_that_it_mentions() -> None:
    issues = {"#7": discussion(title="Something about the display of hours"), "#12": discussion()}
    assert described(commit("Round once", "Like #7 it was wrong. Fixes #12."), issues).text == DESCRIBED


def test_a_pull_request_that_is_older_than_the_fix_comes_second() -> None:
    both = {"#12": discussion(), "#13": discussion(kind="pull_request", title="Round totals once and correctly")}
    message = commit("Round once (#13)", "Fixes #12")
    assert described(message, both).source == "issue"
    assert described(message, {"#13": both["#13"]}) == Description(
        text="Round totals once and correctly", source="pull_request"
    )


@pytest.mark.parametrize("kind", ["issue", "pull_request"])
def test_a_discussion_that_is_younger_than_the_fix_is_not_used(kind: str) -> None:
    later = {"#12": discussion(kind=kind, created=LATER)}
    found = described(commit("Round totals only once (#12)"), later)
    assert found == Description(text="Round totals only once", source="commit_message")


def test_an_issue_of_another_repository_is_not_used() -> None:
    assert described(commit("Round totals only once, see other/project#12"), {"#12": discussion()}).source != "issue"


def test_the_number_of_a_merge_request_is_not_that_of_an_issue() -> None:
    message = commit("Merge branch 'short' into 'main'", f"{DESCRIBED}\n\nSee merge request group/clock!12", ("x",))
    assert described(message, {"#12": discussion(title="A different problem with hours")}).source == "merge"
    requests = {"!12": discussion(kind="pull_request", title="The text of the merge request")}
    assert described(message, requests).text == "The text of the merge request"


def test_the_body_of_a_merge_comes_before_the_messages_that_it_merges() -> None:
    merged = ("Round totals once", "wip", "Fix tests", "Round totals once", "Accept durations without unit")
    with_body = commit("Merge pull request #12 from ann/short", DESCRIBED, merged)
    assert described(with_body) == Description(text=DESCRIBED, source="merge")
    without = described(commit("Merge pull request #12 from ann/short", "", merged))
    assert without == Description(text="Round totals once\n\nAccept durations without unit", source="merged_commits")


def test_merged_commits_have_more_text_than_the_list_of_their_subjects() -> None:
    log = "* ann/short: (2 commits)\n  Round totals once\n  Accept durations without unit\n"
    merged = (f"Round totals once\n\n{DESCRIBED}", "Accept durations without unit")
    found = described(commit("Merge pull request #12 from ann/short", log, merged))
    assert found == Description(
        text=f"Round totals once\n\n{DESCRIBED}\n\nAccept durations without unit", source="merged_commits"
    )


def test_an_issue_that_only_a_merged_commit_names_is_used() -> None:
    assert described(commit("Merge branch 'short'", "", ("Fixes #12",)), {"#12": discussion()}).source == "issue"


def test_generic_items_of_a_squashed_message_are_removed() -> None:
    body = "* Totals of short durations were zero\n* fix tests\n* review comments\n* wip"
    assert described(commit("Round totals once (#12)", body)).text == (
        "Round totals once\n\n* Totals of short durations were zero"
    )


# --- refused texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "subject",
    [
        *("", "wip", "fix bug", "Fix tests", "update changelog", "review comments", "fix the bug in the code", "#12"),
        *("Merge branch 'main' into short", "Fix failing tests and update the changelog", "Fixes #12", "1.2.3 1.2.4 3"),
        *("Fix typo `total(parts)` `sum(parts)`", "Signed-off-by: Ann <ann@example.org>", "Address review comments"),
    ],
)
def test_text_without_a_request_is_refused(subject: str) -> None:
    code, reason = refused(commit(subject))
    assert code is Code.NO_DESCRIPTION
    assert reason.endswith(".")


@pytest.mark.parametrize(
    "subject",
    [
        *("Fix crash in parser", "Fix totals of short durations", "Allow None as a unit", "修复解析器崩溃的问题"),
        *("parse_date() raises for leap years", "feat(cli): support --quiet flag", "Fix `total()` rounding"),
    ],
)
def test_short_text_with_a_request_is_accepted(subject: str) -> None:
    assert described(commit(subject)).text == subject


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "I would fix it like this:\n\n```diff\n-    return sum(round(part) for part in parts)\n"
            "+    exact = sum(part * SCALE[unit] for part in parts)\n```",
            "contains a line that the fix adds: 'exact = sum(part * SCALE[unit] for part in parts)'.",
        ),
        ("It should be\n\n    exact = sum(part  *  SCALE[unit] for part in parts)", "a line that the fix adds"),
        ("Write `exact = sum(part * SCALE[unit] for part in parts)` instead.", "a line that the fix adds"),
        ("~~~\nexact = sum(part * SCALE[unit] for part in parts);\n", "a line that the fix adds"),
        ("It should be `return round(exact)`.", "1 of 2 lines that the fix adds"),
        ("Then this holds:\n\n```\nassert total([0.4, 0.4, 0.4]) == 1\n```", "an assertion of the hidden tests"),
        ("Then this holds:\nassert total([0.4, 0.4, 0.4]) == 1", "an assertion of the hidden tests"),
    ],
)
def test_a_text_that_contains_the_solution_is_refused(text: str, reason: str) -> None:
    """M06: or the hidden tests; the reason names what it contains."""
    code, found = refused(commit("Fixes #12"), {"#12": discussion(text)})
    assert code is Code.DESCRIPTION_REVEALS_FIX
    assert found.startswith("The text (issue) contains ")
    assert reason in found


@pytest.mark.parametrize(
    "text",
    [
        "`total` should sum `exact` parts of `SCALE[unit]` first, in `src/clock.py`.",
        "Now it is\n\n```python\ndef total(parts, unit='s'):\n    return sum(round(part) for part in parts)\n```",
        "```python\nimport functools\nprint(total([0.4]))\n```",
        "```\n- Fixed durations of less than one second in totals.\n```",
    ],
    ids=["names", "code before the fix", "imports", "changelog"],
)
def test_a_text_that_does_not_contain_the_solution_is_accepted(text: str) -> None:
    assert described(commit("Fixes #12"), {"#12": discussion(text)}).source == "issue"


def test_a_text_after_one_that_contains_the_solution_is_used() -> None:
    issue = discussion("Use `exact = sum(part * SCALE[unit] for part in parts)`.")
    found = described(commit("Totals of short durations are zero", "Fixes #12"), {"#12": issue})
    assert found == Description(text=DESCRIBED, source="commit_message")


# --- cleaning ----------------------------------------------------------------------------------------------------

CLEANED = {
    "number of a pull request": ("Fix totals of hours (#123)", "Fix totals of hours"),
    "closed issue in front": ("Fixed #31055 -- Allowed None as a unit.", "Allowed None as a unit."),
    "closed issue with colon": ("Fix #12: crash on empty input", "crash on empty input"),
    "closed issue at the end": ("fix: handle `None`, closes #12", "fix: handle `None`"),
    "closed issues on a line": ("Totals are wrong.\n\nCloses #1, #2 and #3.", "Totals are wrong."),
    "number in a sentence": ("The fix for #44 broke totals.", "The fix for [reference] broke totals."),
    "number at the end": ("This regressed in #12.", "This regressed in [reference]."),
    "hash in a sentence": ("Since abc1234 totals fail", "Since [reference] totals fail"),
    "hash in inline code": ("Since `abc1234` totals fail", "Since [reference] totals fail"),
    "hash that is data": ("UUID 12345678-1234-5678 and 0xdeadbeef1", "UUID 12345678-1234-5678 and 0xdeadbeef1"),
    "word that is not a hash": ("The defaced 20240101 facade", "The defaced 20240101 facade"),
    "other repository": ("Like owner/repo#12 it fails", "Like [reference] it fails"),
    "color": ("Colors such as #ffffff and #000000", "Colors such as #ffffff and #000000"),
    "address": ("See https://forge.example/a/b/issues/12#c1 for it", "See [reference] for it"),
    "link": ("As in [the report](https://forge.example/a/b/pull/3) of it", "As in the report of it"),
    "other address": ("See https://docs.example/x.html", "See https://docs.example/x.html"),
    "trailers": (
        "Totals are wrong\n\nSigned-off-by: A <a@b.c>\nCo-authored-by: B <b@b.c>\nChange-Id: I8473\nReviewed-by: C\n"
        "(cherry picked from commit 0123456789abcdef0123456789abcdef01234567)\n"
        "git-svn-id: svn://host/trunk@12 0f1e-22\nIssue: #12",
        "Totals are wrong",
    ),
    "not a trailer": ("Fix: totals are wrong\nNote: for hours", "Fix: totals are wrong\nNote: for hours"),
    "merge": ("Merge pull request #12 from a/b\n\nFix totals", "Fix totals"),
    "messages of a bot": (
        "Fix totals\n\n* [pre-commit.ci] auto fixes from pre-commit.com hooks\n\n"
        "for more information, see https://pre-commit.ci",
        "Fix totals",
    ),
    "backport": ("Backport #12 from `main` to `stable` branch (#13)\n\nFix totals", "Fix totals"),
    "backport with a title": ("Backport PR #12: fix totals", "Backport [reference]: fix totals"),
    "conflicts": ("Fix totals\n\n# Conflicts:\n#\tsrc/clock.py\n#\tsrc/day.py\n", "Fix totals"),
    "comment": ("Totals <!-- describe\nthem --> are wrong <!-- more", "Totals  are wrong"),
    "template": (
        "## Summary\n\nTotals are wrong\n\n## Logs\n\n_No response_\n\n## Checklist\n\n- [x] tests\n- [ ] changelog\n",
        "## Summary\n\nTotals are wrong",
    ),
    "mentions": ("Thanks @ann!\nTotals are wrong, cc @bob @carl-x\n@dan found it", "Totals are wrong\nfound it"),
    "not mentions": ("a@b.org, @app.route('/'), `@cache`", "a@b.org, @app.route('/'), `@cache`"),
    "images": ("[![ok](https://ci/ok.svg)](https://ci) ![x](y.png) <img src='z'>Totals", "Totals"),
    "control characters": ("To\x1b[31mtals\u202e are\u200b\x00 wrong\x1b\r\nnow", "Totals are wrong\nnow"),
    "code block": (
        "Totals:\n\n```\n@cache  # see #12\nx = 'abc1234'\n```",
        "Totals:\n\n```\n@cache  # see #12\nx = 'abc1234'\n```",
    ),
    "entries of a changelog": (
        "**Fixes**:\n\n* [522](https://forge.example/a/b/pull/522) Fix `Any`\n* #51 `Any` is typed\n* #52 is like [9](https://forge.example/a/b/pull/9)",
        "**Fixes**:\n\n* Fix `Any`\n* `Any` is typed\n* [reference] is like [reference]",
    ),
    "references in markup": (
        "Fix totals :issue:`26`\n\n- `#12 <https://forge.example/a/12>`_: fix days (:pr:`3`)\n- Since {gh}`4`, no\n",
        "Fix totals\n\n- fix days\n- Since [reference], no",
    ),
    "rule at the end": ("Fix totals\n\n---------\n\nCo-authored-by: B <b@b.c>", "Fix totals"),
}


@pytest.mark.parametrize("case", CLEANED)
def test_a_text_is_cleaned(case: str) -> None:
    text, expected = CLEANED[case]
    assert clean(text) == expected


def test_the_ids_of_the_commits_are_removed_from_code() -> None:
    """M06: of the fix and of its parent, also abbreviated."""
    assert clean(f"Run\n\n```\npip install pkg@{ID}\ngit show {PARENT[:8]}\n```", ids=(ID, PARENT)) == (
        "Run\n\n```\npip install pkg@\ngit show\n```"
    )


@pytest.mark.parametrize("filler", ["Some words of a paragraph. " * 20 + "\n\n", "x = 1\n", "word"])
def test_a_long_text_is_cut(filler: str) -> None:
    text = clean("Totals are wrong\n\n```\n" * (filler == "x = 1\n") + filler * (20_000 // len(filler)))
    assert LONGEST // 2 < len(text) <= LONGEST
    assert text.endswith("\n\n[...]")
    assert text.count("```") % 2 == 0


@given(st.text(max_size=300) | st.text(alphabet="#@![]()`~<>-/ab1 \n\t:.,", max_size=300))
def test_any_text_can_be_cleaned(text: str) -> None:
    """M06: cleaning never raises, and never leaves control characters."""
    cleaned = clean(text)
    describes(cleaned)
    assert not any(letter < " " and letter not in "\n\t" for letter in cleaned)
    assert len(cleaned) <= LONGEST + len("[reference]") * 300


SLOW = [
    *(
        " ",
        "\t \t",
        "`",
        "```\n",
        "```a\n",
        "~~~~x\n`",
        "#1 ",
        "#1,",
        "# a\n",
        "#1 and ",
        "fixes ",
        "(",
        "[",
        "![",
        "[](",
    ),
    *(
        "a/",
        "a/b#1 ",
        "a.b/c@",
        "@a ",
        "cc @a ",
        "https://a/issues/",
        "<!--",
        "<a ",
        "-",
        "a-",
        "a-by:\n",
        "abcde1",
        "\n",
        ":pr:`1`",
        "{pr}`",
        "`#1 <",
        "- #1 A\n",
        "- #1,",
    ),
    *("\x00", "* ", "- [ ] x\n", "conflicts:\n ", "Merge a", "see also ", "1", "_", ", ", "a1b2c3d4 "),
]


def seconds(what: Callable[[], object]) -> float:
    """The fastest of three runs, in processor time of this thread."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        what()
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize("part", SLOW)
def test_cleaning_takes_linear_time(part: str) -> None:
    """M03: four times the text takes far less than sixteen times as long."""
    small, large = (part * (size // len(part)) for size in (16_000, 64_000))
    assert seconds(lambda: clean(large)) < 10 * seconds(lambda: clean(small)) + 0.05


# --- instructions ------------------------------------------------------------------------------------------------


def test_the_instruction_tells_how_the_change_is_checked() -> None:
    text = instruction(
        Description(text=DESCRIBED, source="issue"),
        public_command="python -m pytest -q tests/test_clock.py",
        new_names=(),
    )
    assert text == (
        f"{DESCRIBED}\n\nHidden tests check your change; you cannot see or run them. The tests that you can see do not "
        "cover the problem: the command `python -m pytest -q tests/test_clock.py` passes before your change, and must "
        "still pass after it."
    )


def test_the_instruction_lists_names_that_only_the_fix_introduces() -> None:
    described = Description(text=DESCRIBED, source="issue")
    text = instruction(described, public_command="pytest", new_names=("exact_total", "scale"))
    assert "They use names that do not exist yet: `exact_total`, `scale`." in text
