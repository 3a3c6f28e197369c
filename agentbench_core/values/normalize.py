"""What differs between two equal runs of a program, taken out of its output.

Programs under test choose this text, so every rule takes time in proportion to its length: a match begins only where
a run of characters begins, and what it has read it never gives back (possessive repeats).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

NORMALIZER_VERSION = "2"
"""Changes with the rules of :func:`steady`: a replay says which rules it compared by."""

_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_START = r"(?:(?<!\w)|(?<=\\[nrt]))"  # of a word, also after a line feed that JSON has written as two characters
_NUMBER = r"\d++(?:\.\d++)?"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d++)?)?"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

# --- paths -------------------------------------------------------------------------------------------------------

_PATH = re.compile(r"(?<![^\s'\"<>:,;=()\[\]{}|`\\])[^\s'\"<>:,;=()\[\]{}|`\\/]*+/[^\s'\"<>:,;=()\[\]{}|`\\]*+")
"""A word with a slash, as a whole."""
_ROOTS = (
    *(((*name.split("/"),), 0) for name in ("tmp", "var/tmp", "dev/shm", "private/tmp", "private/var/tmp")),
    *(((*name.split("/"),), 3) for name in ("var/folders", "private/var/folders")),
)
"""Temporary directories, also below ours, and how many made-up names belong to them: macOS has two and a T."""
_LEADS = frozenset(("", "n", "r", "t"))  # before an absolute path: nothing, or a line feed's second half
_MADE_UP = re.compile(r"tmp(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{10})\b")
_OURS = re.compile(r"agentbench-(?:[a-z]++-)*+[a-z0-9_]{8}")
_NUMBERED = re.compile(r"[\w.]++(?:-[a-z]\w*+)*+-\d++")
_CHOSEN = re.compile(r"[a-z_.-]*+")


def _path(match: re.Match[str], *, every: bool) -> str:
    """A path without names that somebody made up. ``every``: whatever lies right in a temporary directory is one."""
    lead, *parts = match[0].split("/")
    if lead not in _LEADS and not (lead[0] == "-" and len(lead) == 2):
        return match[0]
    if ours := max((index for index, part in enumerate(parts, 1) if _OURS.fullmatch(part)), default=0):
        numbered = len(parts) > ours and _NUMBERED.fullmatch(parts[ours])
        lead, parts = f"{lead}<temporary>", parts[ours + 1 if numbered else ours :]
    root = next((len(root) + more for root, more in _ROOTS if tuple(parts[: len(root)]) == root), len(parts))
    name = parts[root] if root < len(parts) else ""
    if name and (every or _MADE_UP.match(name) or not _CHOSEN.fullmatch(name)):
        lead, parts = f"{lead.removesuffix('<temporary>')}<temporary>", parts[root + 1 :]
    return "/".join([lead, *parts])


# --- where things lie, and what a test runner counts -------------------------------------------------------------

_MADE_UP_NAMES: Sequence[_Rule] = (
    (re.compile(_START + _MADE_UP.pattern), "<temporary>"),
    (re.compile(rf"{_START}pytest-\d++\b"), "pytest-<n>"),
)
_PLACES: Sequence[_Rule] = (
    # Where an object lies: 64 bits in hex, or said to be a place; in decimal as id() and thread idents are
    (re.compile(r"\b0x[0-9a-fA-F]{10,16}\b|(?<=\bat )0x[0-9a-fA-F]{6,16}\b"), "<address>"),
    (re.compile(r"\b(?:139|140|9[345])\d{12}\b"), "<address>"),
    # Which process it was: pid=12, PID 12, subprocess 12, process 12: and ==12==, but not: process 12 items
    (re.compile(r"(?i)\b(pids?|pid is)([ =:]{1,3}+)\d++"), r"\1\2<id>"),
    (re.compile(r"(?i)\b(process|thread)([ =:]{1,3}+)\d++(?! [a-z])"), r"\1\2<id>"),
    (re.compile(r"\b(subprocess )\d++"), r"\1<id>"),
    (re.compile(r"(?m)^==\d++=="), "==<id>=="),
    # The last line of pytest, whose ends fill the screen; its list of slow tests; unittest, go test, cargo test
    (re.compile(r"\bin \d++\.\d{2,3}s\b(?: \(\d++:\d\d:\d\d\))?"), "in <duration>"),
    (re.compile(r"(?m)^=++ ([\w ,]++<duration>) =++$"), r"=== \1 ==="),
    (re.compile(r"(?m)^\d++\.\d\ds (setup|call|teardown)\b"), r"<duration> \1"),
    (re.compile(r"(?m)^( *+--- (?:PASS|FAIL|SKIP): \S++ )\(\d++\.\d\ds\)"), r"\1(<duration>)"),
    (re.compile(r"(?m)^((?:ok  |FAIL)\t\S++\t)\d++\.\d{3}s$"), r"\1<duration>"),
)

# --- whatever differs ----------------------------------------------------------------------------------------------

_LASTING = frozenset(("duration", "elapsed", "took", "runtime", "latency", "uptime"))
_TIMED = frozenset(("time", "timestamp", "seconds", "sec", "secs", "ms", "date", "at"))
_WORDS = re.compile(r"[A-Z]?[a-z]++")


def _field(match: re.Match[str]) -> str:
    """A number in JSON or in a repr, by its name: how long something took, or when it was."""
    words = {word.lower() for word in _WORDS.findall(match["name"])}
    if words & _LASTING or ("." in match["number"] and words & _TIMED):
        return f"{match['head']}<duration>"
    return match[0]


_MOMENTS: Sequence[_Rule] = (
    # A moment: 2025-12-15T18:05:12.123+01:00, 20251215T180512Z, Mon Dec 15 18:05:12 UTC 2025, Dec 15 18:05, 18:05:12
    (re.compile(rf"{_START}\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?:Z|[+-]\d{{2}}:?\d{{2}})?"), "<moment>"),
    (re.compile(rf"{_START}20\d{{6}}[T_-]\d{{6}}Z?\b"), "<moment>"),
    (re.compile(rf"\b{_WEEKDAY},? \d{{1,2}} {_MONTH} \d{{4}} {_CLOCK}(?: [A-Z]{{3,4}}\b| [+-]\d{{4}})?"), "<moment>"),
    (
        re.compile(
            rf"\b(?:{_WEEKDAY} )?{_MONTH} {{1,2}}\d{{1,2}} {{1,2}}"
            rf"(?:{_CLOCK}(?: [A-Z]{{3,4}}\b)?(?: \d{{4}}\b)?|\d{{4}}\b)"
        ),
        "<moment>",
    ),
    (re.compile(r"(?<![\d:.])\d{1,2}:\d{2}:\d{2}(?:[.,]\d++)?(?![\d:])"), "<time>"),
    (re.compile(r"\b1[6-9]\d{8}\.\d++|\b1[6-9]\d{17}\b"), "<moment>"),
    # How long something took: 0.12s, 3 ms, 1.5 seconds, 2m 3s, "elapsed_ms": 12
    (
        re.compile(rf"{_START}(?:\d++m ?)?{_NUMBER} ?(?:ns|us|µs|ms|s|sec|secs|seconds?|minutes?)\b(?: \(<time>\))?"),
        "<duration>",
    ),
    (re.compile(rf"(?P<head>(?P<quote>[\"'])(?P<name>\w++)(?P=quote): ?)(?P<number>{_NUMBER}(?:e-?\d++)?)"), _field),
    (re.compile(rf"\b{_NUMBER} ?(?:[kKMG]i?)?(?:B|bytes)/s\b"), "<speed>"),
    # Numbers that a system or a runner draws
    (re.compile(r"(?i)\b(process|thread)([ =:]{1,3}+)\d++"), r"\1\2<id>"),
    (re.compile(r"(\(Thread-[^\s(),]++(?: \([^\s()]*+\))?, started (?:daemon )?)\d++"), r"\1<id>"),
    (re.compile(r"(?<![\w.:])((?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[?::1\]?)(?::|[\"'], ?))\d{5}\b"), r"\1<port>"),
    (re.compile(r"(?i)(seed[ =:]{1,3}+)\d++"), r"\1<seed>"),
    (re.compile(r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    # Lines that are as long as what is beside them leaves room for
    (re.compile(r"([=_-])\1{2,}+"), r"\1\1\1"),
)

_NARROW: Sequence[_Rule] = ((_PATH, functools.partial(_path, every=False)), *_MADE_UP_NAMES, *_PLACES)
_BROAD: Sequence[_Rule] = ((_PATH, functools.partial(_path, every=True)), *_MADE_UP_NAMES, *_PLACES, *_MOMENTS)

_CUT = re.compile(
    r"\n?\[(?:\.\.\. \d++ [a-z]++ left out \.\.\.|\d++ characters of output dropped[^\]\n]*+)\]\n?|\n\[\.\.\.\]\n"
)
"""Where the harness, or an agent, has left out the middle of an output."""
_GRAIN = 512
_EDGE = 32


def normalize_failure(text: str) -> str:
    """``text`` without what differs whenever a program is run: is it the same failure?

    Goes: addresses, process ids, made-up names of temporary files, and how long a test runner says that tests took.
    What else a program prints stays, its own durations and dates too, since a change of the program may show there.
    Takes time in proportion to the length.
    """
    return _apply(_NARROW, text)


def normalize_output(text: str) -> str:
    """``text`` without whatever may differ between two equal attempts: was this asked before?

    Goes, besides what :func:`unplaced` takes: moments and times of day (a date alone stays: data has them), durations,
    speeds, ports of loopback above 9999, seeds, UUIDs, the names right in a temporary directory, the length of rulers.
    So texts that differ in these alone are one: ``90 s`` and ``5400 s``, ``/tmp/a/x`` and ``/tmp/b/x``.

    Where a text says that its middle was left out, what was cut depends on the length of all that is gone here. The
    text beside it is taken away in large pieces, so that it differs seldom; it can still differ, mostly between two
    such places in one text. What was decided by lengths (how much of a conversation was dropped) is not made equal.
    Takes time in proportion to the length.
    """
    text = _apply(_BROAD, text)
    first, *rest = _CUT.split(text)
    if not rest:
        return text
    *between, last = rest
    head = max(0, len(first) - _EDGE) // _GRAIN * _GRAIN
    tail = max(0, len(last) - _EDGE) // _GRAIN * _GRAIN
    return "\n[cut]\n".join([first[:head], *between, last[len(last) - tail :]])


def _apply(rules: Sequence[_Rule], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
