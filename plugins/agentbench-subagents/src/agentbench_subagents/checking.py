"""What a searcher reports, held against what the files say."""

from __future__ import annotations

import posixpath

import attrs

from agentbench_core import Budget, Toolbox, ToolCall, ToolResult, ToolSpec
from agentbench_subagents.reports import CandidateFile, SearchReport, Snippet

_COMPARED = 200
"""Lines of a snippet that are looked for."""

_THERE = {"not_text"}
"""Errors of ``read_file`` for files that exist."""


@attrs.frozen
class Looking:
    """Implements ``Toolbox`` by another one, and remembers what ``read_file`` gave."""

    inner: Toolbox
    budget: Budget
    """From which calls are paid."""
    _read: dict[str, dict[int, str]] = attrs.field(factory=dict)
    _refused: dict[str, str] = attrs.field(factory=dict)

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
            self._read.setdefault(_plain(str(call.arguments["path"])), {}).update(enumerate(lines, start=first))
        return result

    def unknown(self, report: SearchReport) -> str:
        """Which files of a report are not there, and why; empty if all are.

        Files that the searcher has not read are read, as long as it has steps.
        """
        problems = {file.path: self._problem(_plain(file.path)) for file in report.files}
        return "; ".join(f"{path!r} cannot be read: {problem}" for path, problem in problems.items() if problem)

    def checked(self, report: SearchReport, not_read: str) -> SearchReport:
        """The report with the line numbers of snippets as they are in the files; none if a file does not contain them.

        ``not_read`` is the note on files that nobody has read.
        """
        return attrs.evolve(report, files=tuple(self._checked(file, not_read) for file in report.files))

    def _problem(self, path: str) -> str:
        can = any(spec.name == "read_file" for spec in self.specs) and self.budget.steps_left != 0
        if can and path not in self._read and path not in self._refused:
            result = self.call(ToolCall(tool="read_file", arguments={"path": path}))
            there = result.ok or result.error_type in _THERE
            self._refused[path] = "" if there else f"{result.error_type}: {result.error_message}"
        return self._refused.get(path, "")

    def _checked(self, file: CandidateFile, not_read: str) -> CandidateFile:
        path = _plain(file.path)
        lines = self._read.get(path)
        why = file.why + not_read if lines is None else file.why
        snippets = tuple(attrs.evolve(each, first_line=_place(each, lines or {})) for each in file.snippets)
        return attrs.evolve(file, path=path, why=why, snippets=snippets)


def _plain(path: str) -> str:
    return posixpath.normpath(path)


def _place(snippet: Snippet, lines: dict[int, str]) -> int | None:
    """Where the lines of a snippet stand, white space at their ends aside: next to where it says."""
    text = [line.rstrip() for line in snippet.text.splitlines()]
    blank = next((number for number, line in enumerate(text) if line), len(text))
    wanted = text[blank:][:_COMPARED]
    while wanted and not wanted[-1]:
        wanted.pop()
    places = [
        number - blank
        for number in lines
        if wanted and all(lines.get(number + n, "").rstrip() == line for n, line in enumerate(wanted))
    ]
    return min(places, key=lambda place: abs(place - (snippet.first_line or 1)), default=None)
