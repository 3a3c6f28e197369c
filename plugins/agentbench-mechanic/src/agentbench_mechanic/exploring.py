"""Moves that look at a repository, and what was learnt by them."""

from __future__ import annotations

import re

from agentbench_mechanic.failure_output import diffs_in, failures_in, most_telling, source_paths_in
from agentbench_mechanic.guessing import Guess, next_guess, patched, paths_of
from agentbench_mechanic.transcript import Reply, Transcript

_WITH_THEM = re.compile(r"^With (?:these changes,|them) `", re.MULTILINE)
"""Prompt versions v2 and v1."""


def look_around(transcript: Transcript, most: int) -> Reply | None:
    """The next look at the repository: the list of files, then those that matter; nothing when enough was read."""
    if "list_files" in transcript.tools and not transcript.made("list_files"):
        return Reply.call("I look at what there is.", "list_files", {"glob": "**/*.py"})
    asked = [one.argument("path") for one in transcript.made("read_file")]
    wanted = [path for path in most_telling(transcript.listed(), transcript.words) if path not in asked]
    if "read_file" in transcript.tools and wanted and len(asked) < most:
        return Reply.call("I read what the failure leads to.", "read_file", {"path": wanted[0]})
    return None


def look_at_findings(transcript: Transcript, most: int) -> Reply | None:
    """The same for somebody who was told where to look: what was changed before, then what was found."""
    told = list(dict.fromkeys(path for diff in diffs_in(transcript.words) for path in paths_of(diff)))
    found = [path for path in source_paths_in(transcript.words) if path not in told]
    told += found[: max(most - len(told), 1)]
    asked = [one.argument("path") for one in transcript.made("read_file")]
    wanted = [path for path in told if path not in asked]
    if not told:
        return look_around(transcript, most)
    if "read_file" in transcript.tools and wanted:
        return Reply.call("I read what was found.", "read_file", {"path": wanted[0]})
    return None


def mended_a_part(words: str) -> bool:
    """Whether the changes that words tell of made some tests pass."""
    began = _WITH_THEM.search(words)
    before, now = (failures_in(words[: began.start()]), failures_in(words[began.end() :])) if began else (None, None)
    return before is not None and now is not None and now < before


def guessed(transcript: Transcript, handing_in: str) -> Guess | None:
    """What to change next, after all that was tried: as words tell of it, or handed in by the tool ``handing_in``."""
    now, made = transcript.read(), diffs_in(transcript.words)
    refused = []
    for exchange in transcript.made(handing_in):
        diff = exchange.argument("unified_diff")
        if not exchange.ok:
            refused.append(diff)
            continue
        for one in diffs_in(diff):
            made.append(one)
            now = {path: patched(text, one) if f"+++ b/{path}\n" in one else text for path, text in now.items()}
    return next_guess(now, made, refused, transcript.words, keep=mended_a_part(transcript.words))
