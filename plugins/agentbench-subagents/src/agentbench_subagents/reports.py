"""What sub-agents hand in: one typed value each, offered to the model as the arguments of one tool."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class Decision:
    """What the router wants next."""

    action: Literal["search", "patch", "undo", "test", "stop"] = option(
        help="search: find the code; patch: change it; undo: take back the last change; "
        "test: judge the latest output of the command; stop: end"
    )
    task: str = option(
        help="what the sub-agent shall do, and what you suspect: it sees the failure, the findings and the changes so "
        "far, and nothing else of this; for undo and stop, the reason"
    )


@attrs.frozen(kw_only=True)
class Snippet:
    """Some lines of a file, as they are."""

    first_line: int | None = option(None, help="number of the first line, from 1, as far as known", minimum=1)
    text: str = option(help="the lines, copied exactly")


@attrs.frozen(kw_only=True)
class CandidateFile:
    """A file that may have to change, or that explains the failure."""

    path: str = option(help="relative to the root of the repository")
    why: str = option(help="what it has to do with the failure")
    snippets: tuple[Snippet, ...] = option((), help="the lines that matter")


@attrs.frozen(kw_only=True)
class SearchReport:
    """What the searcher found."""

    files: tuple[CandidateFile, ...] = option(help="the most likely place of the defect first")
    summary: str = option("", help="what seems to be the cause")

    def after(self, earlier: SearchReport) -> SearchReport:
        """Both reports as one: each file once, what is newer first; one that names no file changes nothing."""
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
    """What the patcher made."""

    unified_diff: str = option(
        help="with '---' and '+++' lines, '@@' headers, and context lines exactly as in the file"
    )
    explanation: str = option("", help="why this mends the cause, in a sentence or two")


@attrs.frozen(kw_only=True)
class TestReport:
    """What the tester makes of a command's output."""

    __test__ = False  # pytest would collect it

    verdict: Literal["passes", "progress", "same", "worse"] = option(
        help="the latest output, held against the one before"
    )
    advice: str = option(help="what to do next, and where")
