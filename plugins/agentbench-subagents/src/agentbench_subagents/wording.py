"""What the router and its sub-agents are told. Pure functions over what is known."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from agentbench_core import CommandRun
from agentbench_subagents.reports import CandidateFile, PatchReport, SearchReport, Snippet, TestReport

_OUTPUT = 6000  # characters of a command's output
_FINDINGS = 20_000  # characters of all that was found
_WORDS = 2000  # characters of a summary, a reason, an explanation
_DIFF = 6000  # characters of a diff


@attrs.frozen(kw_only=True)
class Change:
    """A diff that is in the workspace."""

    diff: str
    undo: str
    """The diff that takes it back."""
    found: CommandRun
    """What the command did with it."""


@attrs.frozen(kw_only=True)
class Known:
    """What sub-agents have found out so far."""

    command: str
    instruction: str
    """With what the command printed at the beginning."""
    first: CommandRun
    """What it did then. Where it passed, hidden tests judge."""
    findings: SearchReport | None = None
    changes: tuple[Change, ...] = ()
    taken_back: tuple[str, ...] = ()
    """Diffs that are no longer in the workspace."""
    advice: str = ""
    """The tester's, about the latest output."""

    @property
    def last(self) -> CommandRun:
        """What the command does now."""
        return self.changes[-1].found if self.changes else self.first

    @property
    def before(self) -> CommandRun:
        """What it did before the last change."""
        return self.changes[-2].found if len(self.changes) > 1 else self.first


def router_opening(known: Known) -> str:
    """The router's first message."""
    return f"{_told(known)}\n\nDecide what is done first, by calling `decide`."


def assignment(known: Known, task: str) -> str:
    """What a searcher or a patcher gets: the failure, the state of things, and its task."""
    parts = [_told(known)]
    if known.taken_back:
        parts.append(f"This was tried, and taken back since it did not help:\n\n{_joined(known.taken_back)}")
    if known.changes:
        made = _joined([change.diff for change in known.changes])
        parts.append(f"These changes have been made already, and are in the files:\n\n{made}")
        parts.append(f"With them `{known.command}` prints:\n\n{_printed(known.last)}")
    if known.findings is not None:
        parts.append(f"Found so far:\n\n{findings(known.findings)}")
    if known.advice:
        parts.append(f"Advice from somebody who read the latest output: {shortened(known.advice, _WORDS)}")
    parts.append(f"Your task: {shortened(task, _WORDS)}")
    return "\n\n".join(parts)


def judgement(known: Known, task: str) -> str:
    """What a tester gets: the outputs before and after the last change."""
    parts = [f"The command is `{known.command}`.{_passing(known)}"]
    if known.changes:
        parts.append(f"Before the last change it printed:\n\n{_printed(known.before)}")
        parts.append(f"The change:\n\n{shortened(known.changes[-1].diff, _DIFF)}")
        parts.append(f"Now it prints:\n\n{_printed(known.last)}")
    else:
        parts.append(f"Nothing has been changed yet. It prints:\n\n{_printed(known.last)}")
    parts.append(f"Your task: {shortened(task, _WORDS)}")
    return "\n\n".join(parts)


def findings(report: SearchReport) -> str:
    """A searcher's report as others read it: the first of its files, if they are too many."""
    shown = [shortened(report.summary, _WORDS)] if report.summary else []
    room = _FINDINGS - sum(map(len, shown))
    for number, file in enumerate(report.files):
        shown.append(shortened(_found(file), max(room, _WORDS)))
        room -= len(shown[-1])
        if room <= 0 and number + 1 < len(report.files):
            shown.append(f"[... {len(report.files) - number - 1} more files]")
            break
    return "\n".join(shown) or "nothing"


def _found(file: CandidateFile) -> str:
    lines = [f"{file.path}: {shortened(file.why, _WORDS)}"]
    for snippet in file.snippets:
        lines += [_place(snippet), snippet.text.rstrip()]
    return "\n".join(lines)


def _place(snippet: Snippet) -> str:
    if snippet.first_line is None:
        return "not found in what was read of it, as it stands here:"
    return f"from line {snippet.first_line}:"


def patched(report: PatchReport, known: Known, alike: int) -> str:
    """What the router is told after a patch. ``alike``: changes in a row that left the failure as it was."""
    again = f", {alike} times in a row" if alike > 1 else ""
    state = "passes" if known.last.passed else "still fails" + (f", in the same way as before{again}," if alike else "")
    why = f" ({shortened(report.explanation, _WORDS)})" if report.explanation else ""
    return f"The diff was applied{why}. `{known.command}` {state} with it. It prints:\n\n{_printed(known.last)}"


def undone(known: Known) -> str:
    """What the router is told when the last change was taken back."""
    still = f"{len(known.changes)} of those before are still in the files" if known.changes else "no other was made"
    return f"The last change was taken back; {still}. `{known.command}` printed then:\n\n{_printed(known.last)}"


def judged(report: TestReport) -> str:
    """What the router is told of a tester's report."""
    return f"verdict: {report.verdict}\nadvice: {shortened(report.advice, _WORDS)}"


def failed(role: str, reason: str) -> str:
    """What the router is told of a role that handed in nothing."""
    return f"The {role} ended without a result: {shortened(reason, _WORDS)}"


def shortened(text: str, most: int) -> str:
    """Text of about ``most`` characters: of a longer one, the beginning and, twice as long, the end."""
    if len(text) <= most:
        return text
    return f"{text[: most // 3]}\n[...]\n{text[-2 * most // 3 :]}"


def _told(known: Known) -> str:
    return f"{known.instruction.rstrip()}{_passing(known)}"


def _passing(known: Known) -> str:
    """What must be said where nothing that can be seen fails."""
    if not known.first.passed:
        return ""
    return (
        f"\n\n`{known.command}` passes as things are. Tests that nobody sees here judge the repair: go by what the "
        "task asks for, and keep the command passing."
    )


def _printed(rerun: CommandRun) -> str:
    return shortened(rerun.output.strip(), _OUTPUT)


def _joined(diffs: Iterable[str]) -> str:
    return shortened("\n".join(diff.rstrip() for diff in diffs), _DIFF)
