"""What the router and its sub-agents are told. Pure functions over what is known."""

from __future__ import annotations

import attrs

from agentbench_subagents.reports import PatchReport, SearchReport, TestReport

_OUTPUT = 6000  # characters of a command's output
_FINDINGS = 20_000  # characters of all that was found
_WORDS = 2000  # characters of a summary, a reason, an explanation
_DIFF = 6000  # characters of a diff


@attrs.frozen(kw_only=True)
class Known:
    """What sub-agents have found out so far."""

    command: str
    instruction: str
    output: str = ""
    """What the command printed last; empty as long as that is in the instruction."""
    findings: SearchReport | None = None
    applied: tuple[str, ...] = ()
    """Diffs that are in the workspace, in order."""
    advice: str = ""
    """The tester's, about the latest output."""


def router_opening(known: Known) -> str:
    """The router's first message."""
    return f"{known.instruction.rstrip()}\n\nDecide what is done first, by calling `decide`."


def assignment(known: Known, task: str) -> str:
    """What a searcher or a patcher gets: the failure, the state of things, and its task."""
    parts = [known.instruction.rstrip()]
    if known.applied:
        parts.append(
            "These changes have been made already, and are in the files:\n\n" + shortened(_joined(known), _DIFF)
        )
    if known.output:
        parts.append(f"With them `{known.command}` prints:\n\n{shortened(known.output.strip(), _OUTPUT)}")
    if known.findings is not None:
        parts.append(f"Found so far:\n\n{findings(known.findings)}")
    if known.advice:
        parts.append(f"Advice from somebody who read the latest output: {shortened(known.advice, _WORDS)}")
    parts.append(f"Your task: {shortened(task, _WORDS)}")
    return "\n\n".join(parts)


def judgement(known: Known, before: str, task: str) -> str:
    """What a tester gets: the outputs before and after the last change."""
    now = shortened((known.output or before).strip(), _OUTPUT)
    parts = [f"The command is `{known.command}`."]
    if known.output:
        parts.append(f"Before the last change it printed:\n\n{shortened(before.strip(), _OUTPUT)}")
        parts.append(f"The change:\n\n{shortened(known.applied[-1], _DIFF)}" if known.applied else "")
        parts.append(f"Now it prints:\n\n{now}")
    else:
        parts.append(f"Nothing has been changed yet. It prints:\n\n{now}")
    parts.append(f"Your task: {shortened(task, _WORDS)}")
    return "\n\n".join(part for part in parts if part)


def findings(report: SearchReport) -> str:
    """A searcher's report as others read it."""
    lines = [shortened(report.summary, _WORDS)] if report.summary else []
    for file in report.files:
        lines.append(f"{file.path}: {shortened(file.why, _WORDS)}")
        lines += [f"from line {snippet.first_line}:\n{snippet.text.rstrip()}" for snippet in file.snippets]
    return shortened("\n".join(lines), _FINDINGS) or "nothing"


def patched(report: PatchReport, command: str, output: str, *, passes: bool, alike: int) -> str:
    """What the router is told after a patch."""
    again = f", in the same way as before, {alike} times in a row," if alike else ""
    state = "passes" if passes else f"still fails{again}"
    why = f" ({shortened(report.explanation, _WORDS)})" if report.explanation else ""
    printed = shortened(output.strip(), _OUTPUT)
    return f"The diff was applied{why}. `{command}` {state} with it. It prints:\n\n{printed}"


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


def _joined(known: Known) -> str:
    return "\n".join(diff.rstrip() for diff in known.applied)
