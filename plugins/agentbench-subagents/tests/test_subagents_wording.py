"""What the roles are told."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from agentbench_subagents.reports import CandidateFile, PatchReport, SearchReport, Snippet
from agentbench_subagents.wording import Known, assignment, findings, judgement, patched, shortened

KNOWN = Known(command="make test", instruction="It fails.\n")


def test_an_assignment_grows_with_what_is_known() -> None:
    assert assignment(KNOWN, "look") == "It fails.\n\nYour task: look"
    found = SearchReport(files=(CandidateFile(path="a.py", why="sums"),))
    known = attrs.evolve(KNOWN, output="1 failed\n", findings=found, applied=("+x",), advice="no")
    assert assignment(known, "look") == (
        "It fails.\n\n"
        "These changes have been made already, and are in the files:\n\n+x\n\n"
        "With them `make test` prints:\n\n1 failed\n\n"
        "Found so far:\n\na.py: sums\n\n"
        "Advice from somebody who read the latest output: no\n\n"
        "Your task: look"
    )


def test_a_judgement_before_and_after_a_change() -> None:
    assert judgement(KNOWN, "2 failed\n", "judge") == (
        "The command is `make test`.\n\nNothing has been changed yet. It prints:\n\n2 failed\n\nYour task: judge"
    )
    known = Known(command="make test", instruction="", output="1 failed\n", applied=("+x", "+y"))
    assert judgement(known, "2 failed\n", "judge") == (
        "The command is `make test`.\n\nBefore the last change it printed:\n\n2 failed\n\nThe change:\n\n+y\n\n"
        "Now it prints:\n\n1 failed\n\nYour task: judge"
    )


def test_findings_with_their_lines() -> None:
    snippets = (Snippet(first_line=3, text="x = 1\ny = 2\n"), Snippet(first_line=9, text="z = 3"))
    report = SearchReport(files=(CandidateFile(path="a.py", why="sums", snippets=snippets),), summary="It sums.")
    assert findings(report) == "It sums.\na.py: sums\nfrom line 3:\nx = 1\ny = 2\nfrom line 9:\nz = 3"
    assert findings(SearchReport(files=())) == "nothing"


def test_what_came_of_a_patch() -> None:
    report = PatchReport(unified_diff="", explanation="it was off by one")
    assert patched(report, "make", "1 failed\n", passes=False, alike=2) == (
        "The diff was applied (it was off by one). `make` still fails, in the same way as before, 2 times in a row, "
        "with it. It prints:\n\n1 failed"
    )
    assert patched(PatchReport(unified_diff=""), "make", "", passes=True, alike=0) == (
        "The diff was applied. `make` passes with it. It prints:\n\n"
    )


@given(st.text(max_size=300), st.integers(3, 100))
def test_shortened_text_keeps_both_ends(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= max(len(text), most + len("\n[...]\n") + 1)
    assert short == text or (text.startswith(short.partition("\n[...]\n")[0]) and text[-1] == short[-1])
    if len(text) <= most:
        assert short == text
