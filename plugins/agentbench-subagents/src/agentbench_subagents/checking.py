"""Checks the report of a searcher against the files."""

from __future__ import annotations

import posixpath

import attrs

from agentbench_core import Budget, Toolbox, ToolCall, ToolResult, ToolSpec
from agentbench_subagents.reports import CandidateFile, SearchReport, Snippet

_MAX_LINES = 200
"""Maximum number of lines of a snippet that are compared."""

_EXISTS = {"not_text"}
"""Errors of ``read_file`` for files that exist."""


@attrs.frozen
class RecordingTools:
    """Implements ``Toolbox`` by delegation, and records the results of ``read_file``."""

    inner: Toolbox
    budget: Budget
    """The budget to which calls are charged."""
    _lines: dict[str, dict[int, str]] = attrs.field(factory=dict)
    _errors: dict[str, str] = attrs.field(factory=dict)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """See the contract."""
        return self.inner.specs

    def call(self, call: ToolCall) -> ToolResult:
        """See the contract."""
        result = self.inner.call(call)
        if call.tool == "read_file" and result.ok:
            first = call.arguments.get("start_line") or 1
            lines = str(result.fields.get("text", "")).splitlines()
            self._lines.setdefault(_normalized(str(call.arguments["path"])), {}).update(enumerate(lines, start=first))
        return result

    def unreadable(self, report: SearchReport) -> str:
        """The files of a report that do not exist, with the errors; empty if all exist.

        Reads files that the searcher has not read, as long as it has steps.
        """
        problems = {file.path: self._problem(_normalized(file.path)) for file in report.files}
        return "; ".join(f"{path!r} cannot be read: {problem}" for path, problem in problems.items() if problem)

    def checked(self, report: SearchReport, not_read: str) -> SearchReport:
        """The report with corrected line numbers of snippets; snippets that a file does not contain have none.

        ``not_read`` is added to the reason for a file that was not read.
        """
        return attrs.evolve(report, files=tuple(self._checked(file, not_read) for file in report.files))

    def _problem(self, path: str) -> str:
        can_read = any(spec.name == "read_file" for spec in self.specs) and self.budget.steps_left != 0
        if can_read and path not in self._lines and path not in self._errors:
            result = self.call(ToolCall(tool="read_file", arguments={"path": path}))
            exists = result.ok or result.error_type in _EXISTS
            self._errors[path] = "" if exists else f"{result.error_type}: {result.error_message}"
        return self._errors.get(path, "")

    def _checked(self, file: CandidateFile, not_read: str) -> CandidateFile:
        path = _normalized(file.path)
        lines = self._lines.get(path)
        why = file.why + not_read if lines is None else file.why
        snippets = tuple(attrs.evolve(each, first_line=_first_line(each, lines or {})) for each in file.snippets)
        return attrs.evolve(file, path=path, why=why, snippets=snippets)


def _normalized(path: str) -> str:
    return posixpath.normpath(path)


def _first_line(snippet: Snippet, lines: dict[int, str]) -> int | None:
    """The occurrence of a snippet nearest to the reported line, ignoring trailing whitespace; ``None`` if absent."""
    text = [line.rstrip() for line in snippet.text.splitlines()]
    blank = next((number for number, line in enumerate(text) if line), len(text))
    wanted = text[blank:][:_MAX_LINES]
    while wanted and not wanted[-1]:
        wanted.pop()
    matches = [
        number - blank
        for number in lines
        if wanted and all(lines.get(number + n, "").rstrip() == line for n, line in enumerate(wanted))
    ]
    return min(matches, key=lambda match: abs(match - (snippet.first_line or 1)), default=None)
