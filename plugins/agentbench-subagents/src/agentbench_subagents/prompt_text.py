"""The messages to the router and its sub-agents, and to models that must submit a report."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Iterable, Mapping

import attrs

from agentbench_core import CommandRun
from agentbench_subagents.reports import CandidateFile, PatchReport, SearchReport, Snippet, TestReport

_OUTPUT = 6000  # maximum characters of a command's output
_FINDINGS = 20_000  # maximum characters of all findings
_WORDS = 2000  # maximum characters of a summary, a reason or an explanation
_DIFF = 6000  # maximum characters of a diff


@attrs.frozen
class Messages:
    """Templates of the messages to models, by name."""

    templates: Mapping[str, str]

    def __call__(self, name: str, **values: object) -> str:
        """A message with its placeholders filled in."""
        return self.templates[name].format(**values)


@functools.cache
def messages_of(version: str) -> Messages:
    """The messages of a prompt version: ``prompts/messages_VERSION.toml``."""
    file = importlib.resources.files("agentbench_subagents") / "prompts" / f"messages_{version}.toml"
    return Messages(tomllib.loads(file.read_text(encoding="utf-8")))


@attrs.frozen(kw_only=True)
class Change:
    """A diff that has been applied."""

    diff: str
    undo: str
    """The diff that reverts it."""
    run: CommandRun
    """The result of the failing command after the change."""


@attrs.frozen(kw_only=True)
class Known:
    """The state of the repair: what sub-agents have reported and changed so far."""

    command: str
    instruction: str
    """The instruction, which includes the initial output of the command."""
    first: CommandRun
    """The initial result of the command. If the command passes, hidden tests decide."""
    findings: SearchReport | None = None
    changes: tuple[Change, ...] = ()
    reverted: tuple[str, ...] = ()
    """Diffs that are no longer in the workspace."""
    advice: str = ""
    """The tester's advice about the latest output."""

    @property
    def last(self) -> CommandRun:
        """The latest result of the command."""
        return self.changes[-1].run if self.changes else self.first

    @property
    def before(self) -> CommandRun:
        """The result before the last change."""
        return self.changes[-2].run if len(self.changes) > 1 else self.first


@attrs.frozen
class PromptText:
    """The messages of the ``subagents`` agent."""

    messages: Messages

    def router_opening(self, known: Known) -> str:
        """The router's first message."""
        return f"{self._failure(known)}\n\n{self.messages('first_decision')}"

    def assignment(self, known: Known, task: str) -> str:
        """The message to a searcher or a patcher: the failure, the state of the repair, and its task."""
        parts = [self._failure(known)]
        if known.reverted:
            parts.append(self.messages("reverted_changes", diffs=_joined(known.reverted)))
        if known.changes:
            parts.append(self.messages("changes", diffs=_joined([change.diff for change in known.changes])))
            output = _output(known.last)
            parts.append(self.messages("output_with_changes", command=known.command, output=output))
        if known.findings is not None:
            parts.append(self.messages("findings", findings=self.findings(known.findings)))
        if known.advice:
            parts.append(self.messages("advice", advice=shortened(known.advice, _WORDS)))
        parts.append(self._task(task))
        return "\n\n".join(parts)

    def evaluation(self, known: Known, task: str) -> str:
        """The message to a tester: the outputs before and after the last change."""
        parts = [f"{self.messages('command', command=known.command)}{self._already_passes(known)}"]
        if known.changes:
            parts.append(self.messages("output_before", output=_output(known.before)))
            parts.append(self.messages("last_change", diff=shortened(known.changes[-1].diff, _DIFF)))
            parts.append(self.messages("output_now", output=_output(known.last)))
        else:
            parts.append(self.messages("output_without_changes", output=_output(known.last)))
        parts.append(self._task(task))
        return "\n\n".join(parts)

    def findings(self, report: SearchReport) -> str:
        """A searcher's report as shown to others, with only the first files if there are many."""
        shown = [shortened(report.summary, _WORDS)] if report.summary else []
        room = _FINDINGS - sum(map(len, shown))
        for number, file in enumerate(report.files):
            shown.append(shortened(self._file(file), max(room, _WORDS)))
            room -= len(shown[-1])
            if room <= 0 and number + 1 < len(report.files):
                shown.append(f"[... {len(report.files) - number - 1} more files]")
                break
        return "\n".join(shown) or self.messages("no_findings")

    def applied(self, report: PatchReport, known: Known, same_failures: int) -> str:
        """The result of a patch, for the router. ``same_failures``: consecutive changes with the same failure."""
        why = f" ({shortened(report.explanation, _WORDS)})" if report.explanation else ""
        state = "passes" if known.last.passed else ("fails", "fails_again", "fails_repeatedly")[min(same_failures, 2)]
        return self.messages(
            "applied",
            why=why,
            command=known.command,
            state=self.messages(state, times=same_failures),
            output=_output(known.last),
        )

    def reverted(self, known: Known) -> str:
        """The result of reverting the last change, for the router."""
        remaining = "changes_remain" if known.changes else "no_changes_remain"
        return self.messages(
            "reverted",
            remaining=self.messages(remaining, count=len(known.changes)),
            command=known.command,
            output=_output(known.last),
        )

    def evaluated(self, report: TestReport) -> str:
        """A tester's report, for the router."""
        return f"verdict: {report.verdict}\nadvice: {shortened(report.advice, _WORDS)}"

    def failed(self, role: str, reason: str) -> str:
        """The message to the router about a role that submitted no report."""
        return f"The {role} ended without a result: {shortened(reason, _WORDS)}"

    def _failure(self, known: Known) -> str:
        return f"{known.instruction.rstrip()}{self._already_passes(known)}"

    def _already_passes(self, known: Known) -> str:
        """The note if no visible test fails."""
        return f"\n\n{self.messages('already_passes', command=known.command)}" if known.first.passed else ""

    def _task(self, task: str) -> str:
        return self.messages("task", task=shortened(task, _WORDS))

    def _file(self, file: CandidateFile) -> str:
        lines = [f"{file.path}: {shortened(file.why, _WORDS)}"]
        for snippet in file.snippets:
            lines += [self._heading(snippet), snippet.text.rstrip()]
        return "\n".join(lines)

    def _heading(self, snippet: Snippet) -> str:
        if snippet.first_line is None:
            return self.messages("lines_not_found")
        return f"from line {snippet.first_line}:"


def shortened(text: str, most: int) -> str:
    """Text of about ``most`` characters: for longer text, the beginning and an end that is twice as long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 3]}\n[...]\n{text[-2 * most // 3 :]}"


def _output(run: CommandRun) -> str:
    return shortened(run.output.strip(), _OUTPUT)


def _joined(diffs: Iterable[str]) -> str:
    return shortened("\n".join(diff.rstrip() for diff in diffs), _DIFF)
