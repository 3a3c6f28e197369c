"""The messages to the router and its sub-agents."""

import attrs
from hypothesis import given, strategies as st

from agentbench_core import CommandRun
from agentbench_subagents.prompt_text import Change, Known, PromptText, messages_of, shortened
from agentbench_subagents.reports import CandidateFile, PatchReport, SearchReport, Snippet

TEXT = PromptText(messages_of("v2"))


def ran(output: str, *, passed: bool = False) -> CommandRun:
    return CommandRun(passed=passed, output=output, digest=output)


def change(diff: str, output: str, *, passed: bool = False) -> Change:
    return Change(diff=diff, undo="", run=ran(output, passed=passed))


KNOWN = Known(command="make test", instruction="It fails.\n", first=ran("2 failed\n"))


def test_an_assignment_has_everything_that_is_known() -> None:
    assert TEXT.assignment(KNOWN, "look") == "It fails.\n\nYour task: look"
    found = SearchReport(files=(CandidateFile(path="a.py", why="sums"),))
    known = attrs.evolve(KNOWN, changes=(change("+x", "1 failed\n"),), findings=found, reverted=("+z",), advice="no")
    assert TEXT.assignment(known, "look") == (
        "It fails.\n\n"
        "These changes were tried and reverted, because they did not help:\n\n+z\n\n"
        "These changes have already been made:\n\n+x\n\n"
        "With these changes, `make test` prints:\n\n1 failed\n\n"
        "Findings so far:\n\na.py: sums\n\n"
        "Advice from the tester, based on the latest output: no\n\n"
        "Your task: look"
    )


def test_an_evaluation_before_and_after_a_change() -> None:
    assert TEXT.evaluation(KNOWN, "judge") == (
        "The command is `make test`.\n\nNo changes have been made yet. Output:\n\n2 failed\n\nYour task: judge"
    )
    known = attrs.evolve(KNOWN, changes=(change("+x", "3 failed\n"), change("+y", "1 failed\n")))
    assert TEXT.evaluation(known, "judge") == (
        "The command is `make test`.\n\nOutput before the last change:\n\n3 failed\n\nThe change:\n\n+y\n\n"
        "Output now:\n\n1 failed\n\nYour task: judge"
    )


def test_all_roles_read_that_hidden_tests_decide_if_the_command_passes_from_the_start() -> None:
    known = attrs.evolve(KNOWN, first=ran("ok\n", passed=True))
    for message in (TEXT.router_opening(known), TEXT.assignment(known, "look"), TEXT.evaluation(known, "judge")):
        assert "`make test` already passes. Hidden tests decide" in message
    assert "already passes" not in TEXT.router_opening(KNOWN)


def test_findings_with_their_lines() -> None:
    snippets = (Snippet(first_line=3, text="x = 1\ny = 2\n"), Snippet(first_line=9, text="z = 3"))
    report = SearchReport(files=(CandidateFile(path="a.py", why="sums", snippets=snippets),), summary="It sums.")
    assert TEXT.findings(report) == "It sums.\na.py: sums\nfrom line 3:\nx = 1\ny = 2\nfrom line 9:\nz = 3"
    assert TEXT.findings(SearchReport(files=())) == "no findings"


def test_lines_that_are_not_in_the_file_are_marked() -> None:
    file = CandidateFile(path="a.py", why="sums", snippets=(Snippet(text="x = 1"),))
    assert TEXT.findings(SearchReport(files=(file,))) == ("a.py: sums\nnot found in the lines that were read:\nx = 1")


def test_of_many_findings_the_first_are_shown() -> None:
    long = (Snippet(first_line=1, text="x" * 6000),)
    files = tuple(CandidateFile(path=f"{number}.py", why="sums", snippets=long) for number in range(9))
    shown = TEXT.findings(SearchReport(files=files, summary="It sums."))
    assert [number for number in range(9) if f"{number}.py" in shown] == [0, 1, 2, 3]
    assert shown.endswith("\n[... 5 more files]")
    assert len(shown) < 22_500


def test_the_outcome_of_a_patch() -> None:
    report = PatchReport(unified_diff="", explanation="it was off by one")
    known = attrs.evolve(KNOWN, command="make", changes=(change("+x", "1 failed\n"),))
    start = "The diff was applied (it was off by one). `make` still fails"
    assert TEXT.applied(report, known, 0) == f"{start}. Output:\n\n1 failed"
    assert TEXT.applied(report, known, 1) == f"{start} in the same way. Output:\n\n1 failed"
    assert TEXT.applied(report, known, 2) == (f"{start} in the same way after 2 changes in a row. Output:\n\n1 failed")
    passing = attrs.evolve(KNOWN, command="make", changes=(change("+x", "", passed=True),))
    assert TEXT.applied(PatchReport(unified_diff=""), passing, 0) == (
        "The diff was applied. `make` passes with this change. Output:\n\n"
    )


def test_the_remaining_changes_after_a_revert() -> None:
    assert (
        TEXT.reverted(KNOWN)
        == "The last change was reverted; no changes remain. Without it, `make test` printed:\n\n2 failed"
    )
    known = attrs.evolve(KNOWN, changes=(change("+x", "1 failed\n"),))
    assert TEXT.reverted(known) == (
        "The last change was reverted; earlier changes that remain: 1. Without it, `make test` printed:\n\n1 failed"
    )


def test_merged_reports_have_each_file_once() -> None:
    """Newer ones first; earlier snippets stay; a report without files changes nothing."""
    one, two = (Snippet(first_line=number, text=f"x = {number}") for number in (1, 2))
    earlier = SearchReport(
        files=(
            CandidateFile(path="a.py", why="old", snippets=(one,)),
            CandidateFile(path="b.py", why="old", snippets=(one,)),
            CandidateFile(path="c.py", why="old"),
        ),
        summary="first",
    )
    newer = SearchReport(
        files=(CandidateFile(path="b.py", why="new"), CandidateFile(path="a.py", why="new", snippets=(two,)))
    )
    merged = newer.after(earlier)
    assert [(file.path, file.why, file.snippets) for file in merged.files] == [
        ("b.py", "new", (one,)),
        ("a.py", "new", (two,)),
        ("c.py", "old", ()),
    ]
    assert merged.summary == "first"
    assert SearchReport(files=(), summary="nothing here").after(earlier) == earlier


@given(st.text(max_size=300), st.integers(3, 100))
def test_shortened_text_keeps_both_ends(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= max(len(text), most + len("\n[...]\n") + 1)
    assert short == text or (text.startswith(short.partition("\n[...]\n")[0]) and text[-1] == short[-1])
    if len(text) <= most:
        assert short == text
