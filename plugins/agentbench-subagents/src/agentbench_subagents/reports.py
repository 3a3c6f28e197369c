"""The reports of sub-agents: one typed value each, which the model submits as the arguments of one tool."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class Decision:
    """The router's next action."""

    action: Literal["search", "patch", "undo", "test", "stop"] = option(
        help="search: find the code; patch: change it; undo: revert the last change; "
        "test: evaluate the latest output of the command; stop: end the repair"
    )
    task: str = option(
        help="what the sub-agent should do, and what you suspect: it sees the failure, the findings and the changes, "
        "but not this conversation; for undo and stop, the reason"
    )


@attrs.frozen(kw_only=True)
class Snippet:
    """Some lines of a file."""

    first_line: int | None = option(None, help="number of the first line, starting at 1, if known", minimum=1)
    text: str = option(help="the lines, copied exactly")


@attrs.frozen(kw_only=True)
class CandidateFile:
    """A file that may have to change, or that explains the failure."""

    path: str = option(help="relative to the root of the repository")
    why: str = option(help="how it relates to the failure")
    snippets: tuple[Snippet, ...] = option((), help="the relevant lines")


@attrs.frozen(kw_only=True)
class SearchReport:
    """The searcher's findings."""

    files: tuple[CandidateFile, ...] = option(help="the most likely location of the defect first")
    summary: str = option("", help="the suspected cause")

    def after(self, earlier: SearchReport) -> SearchReport:
        """Both reports as one: each file once, newer files first. A report without files changes nothing."""
        if not self.files:
            return earlier
        files: dict[str, CandidateFile] = {}
        for file in (*self.files, *earlier.files):
            newer = files.get(file.path)
            if newer is None or not newer.snippets:
                files[file.path] = attrs.evolve(newer or file, snippets=file.snippets)
        return SearchReport(files=tuple(files.values()), summary=self.summary or earlier.summary)


@attrs.frozen(kw_only=True)
class PatchReport:
    """The patcher's change."""

    unified_diff: str = option(
        help="with '---' and '+++' lines, '@@' headers, and context lines exactly as in the file"
    )
    explanation: str = option("", help="why this fixes the cause, in one or two sentences")


@attrs.frozen(kw_only=True)
class TestReport:
    """The tester's evaluation of a command's output."""

    __test__ = False  # pytest would collect it

    verdict: Literal["passes", "progress", "same", "worse"] = option(
        help="the latest output, compared with the previous output"
    )
    advice: str = option(help="what to do next, and where")
