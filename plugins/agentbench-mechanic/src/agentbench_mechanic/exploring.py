"""Replies that read the repository, and guesses based on the files read."""

from __future__ import annotations

import re

from agentbench_mechanic.failure_output import diffs_in, failures_in, most_relevant, source_paths_in
from agentbench_mechanic.guessing import Guess, next_guess, patched, paths_of
from agentbench_mechanic.transcript import Reply, Transcript

_WITH_CHANGES = re.compile(r"^With (?:these changes,|them) `", re.MULTILINE)
"""Matches the texts of prompt versions v2 and v1."""


def explore(transcript: Transcript, max_files: int) -> Reply | None:
    """List the files, then read the most relevant ones; ``None`` if none are left or ``max_files`` have been read."""
    if "list_files" in transcript.tools and not transcript.calls_of("list_files"):
        return Reply.call("Listing the files.", "list_files", {"glob": "**/*.py"})
    requested = [one.argument("path") for one in transcript.calls_of("read_file")]
    wanted = [path for path in most_relevant(transcript.listed_paths(), transcript.text) if path not in requested]
    if "read_file" in transcript.tools and wanted and len(requested) < max_files:
        return Reply.call("Reading the files related to the failure.", "read_file", {"path": wanted[0]})
    return None


def explore_findings(transcript: Transcript, max_files: int) -> Reply | None:
    """Read the files changed by earlier diffs, then the files in the findings; ``None`` if none are left."""
    paths = list(dict.fromkeys(path for diff in diffs_in(transcript.text) for path in paths_of(diff)))
    findings = [path for path in source_paths_in(transcript.text) if path not in paths]
    paths += findings[: max(max_files - len(paths), 1)]
    requested = [one.argument("path") for one in transcript.calls_of("read_file")]
    wanted = [path for path in paths if path not in requested]
    if not paths:
        return explore(transcript, max_files)
    if "read_file" in transcript.tools and wanted:
        return Reply.call("Reading the findings.", "read_file", {"path": wanted[0]})
    return None


def fixed_a_part(text: str) -> bool:
    """Whether a text states that fewer tests fail with the applied changes than before."""
    match = _WITH_CHANGES.search(text)
    before, now = (failures_in(text[: match.start()]), failures_in(text[match.end() :])) if match else (None, None)
    return before is not None and now is not None and now < before


def guess_from(transcript: Transcript, patch_tool: str) -> Guess | None:
    """The next change to try, after the changes in the text and the changes submitted with ``patch_tool``."""
    now, applied = transcript.read(), diffs_in(transcript.text)
    refused = []
    for exchange in transcript.calls_of(patch_tool):
        diff = exchange.argument("unified_diff")
        if not exchange.ok:
            refused.append(diff)
            continue
        for one in diffs_in(diff):
            applied.append(one)
            now = {path: patched(text, one) if f"+++ b/{path}\n" in one else text for path, text in now.items()}
    return next_guess(now, applied, refused, transcript.text, keep=fixed_a_part(transcript.text))
