"""Normalize program output: remove everything that differs between two equal runs.

Tested programs control this text, so every rule takes linear time: a match only starts at the start of a run of
characters, and never backtracks (possessive quantifiers).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

NORMALIZER_VERSION = "4"
"""Incremented when the rules of :func:`normalize_output` change; a replay records which rules it used."""

_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_START = r"(?:(?<!\w)|(?<=\\[nrt]))"  # the start of a word, also after a newline that JSON has escaped
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
"""Temporary directories, and how many path parts precede the files in them: on macOS, two generated ones and ``T``."""
_LEADS = frozenset(("", "n", "r", "t"))  # before an absolute path: nothing, or the second half of an escape
_GENERATED = re.compile(r"tmp(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{10})\b")
_OURS = re.compile(r"agentbench-(?:[a-z]++-)*+[a-z0-9_]{8}")
_NUMBERED = re.compile(r"[\w.]++(?:-[a-z]\w*+)*+-\d++")
_CHOSEN = re.compile(r"[a-z_.-]*+")


def _path(match: re.Match[str], *, every: bool) -> str:
    """A path without generated names. ``every``: treat all names directly in a temporary directory as generated."""
    first, *parts = match[0].split("/")
    if first not in _LEADS and not (first[0] == "-" and len(first) == 2):
        return match[0]
    if ours := max((index for index, part in enumerate(parts, 1) if _OURS.fullmatch(part)), default=0):
        numbered = len(parts) > ours and _NUMBERED.fullmatch(parts[ours])
        first, parts = f"{first}<temporary>", parts[ours + 1 if numbered else ours :]
    root = next((len(root) + more for root, more in _ROOTS if tuple(parts[: len(root)]) == root), len(parts))
    name = parts[root] if root < len(parts) else ""
    if name and (every or _GENERATED.match(name) or not _CHOSEN.fullmatch(name)):
        first, parts = f"{first.removesuffix('<temporary>')}<temporary>", parts[root + 1 :]
    return "/".join([first, *parts])


# --- addresses, process ids, and durations of test runners -------------------------------------------------------

_GENERATED_NAMES: Sequence[_Rule] = (
    (re.compile(_START + _GENERATED.pattern), "<temporary>"),
    (re.compile(rf"{_START}pytest-\d++\b"), "pytest-<n>"),
)
_RUNNER_RULES: Sequence[_Rule] = (
    # Addresses of objects: long hex numbers, or any hex number after "at"; in decimal for id() and thread idents
    (re.compile(r"\b0x[0-9a-fA-F]{10,16}\b|(?<=\bat )0x[0-9a-fA-F]{6,16}\b"), "<address>"),
    (re.compile(r"\b(?:139|140|9[345])\d{12}\b"), "<address>"),
    # Process ids: pid=12, PID 12, subprocess 12, process 12: and ==12==, but not: process 12 items
    (re.compile(r"(?i)\b(pids?|pid is)([ =:]{1,3}+)\d++"), r"\1\2<id>"),
    (re.compile(r"(?i)\b(process|thread)([ =:]{1,3}+)\d++(?! [a-z])"), r"\1\2<id>"),
    (re.compile(r"\b(subprocess )\d++"), r"\1<id>"),
    (re.compile(r"(?m)^==\d++=="), "==<id>=="),
    # The last line of pytest, padded to the screen width; its list of slow tests; unittest, go test, cargo test
    (re.compile(r"\bin \d++\.\d{2,3}s\b(?: \(\d++:\d\d:\d\d\))?"), "in <duration>"),
    (re.compile(r"(?m)^=++ ([\w ,]++<duration>) =++$"), r"=== \1 ==="),
    (re.compile(r"(?m)^\d++\.\d\ds (setup|call|teardown)\b"), r"<duration> \1"),
    (re.compile(r"(?m)^( *+--- (?:PASS|FAIL|SKIP): \S++ )\(\d++\.\d\ds\)"), r"\1(<duration>)"),
    (re.compile(r"(?m)^((?:ok  |FAIL)\t\S++\t)\d++\.\d{3}s$"), r"\1<duration>"),
)

# --- everything that may differ ----------------------------------------------------------------------------------

_LASTING = frozenset(("duration", "elapsed", "took", "runtime", "latency", "uptime"))
_TIMED = frozenset(("time", "timestamp", "seconds", "sec", "secs", "ms", "date", "at"))
_WORDS = re.compile(r"[A-Z]?[a-z]++")


def _field(match: re.Match[str]) -> str:
    """A number in JSON or in a repr, replaced if its name indicates a duration or a time."""
    words = {word.lower() for word in _WORDS.findall(match["name"])}
    if words & _LASTING or ("." in match["number"] and words & _TIMED):
        return f"{match['head']}<duration>"
    return match[0]


_MOMENTS: Sequence[_Rule] = (
    # Times: 2025-12-15T18:05:12.123+01:00, 20251215T180512Z, Mon Dec 15 18:05:12 UTC 2025, Dec 15 18:05, 18:05:12
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
    # Durations: 0.12s, 3 ms, 1.5 seconds, 2m 3s, "elapsed_ms": 12
    (
        re.compile(rf"{_START}(?:\d++m ?)?{_NUMBER} ?(?:ns|us|µs|ms|s|sec|secs|seconds?|minutes?)\b(?: \(<time>\))?"),
        "<duration>",
    ),
    (re.compile(rf"(?P<head>(?P<quote>[\"'])(?P<name>\w++)(?P=quote): ?)(?P<number>{_NUMBER}(?:e-?\d++)?)"), _field),
    (re.compile(rf"\b{_NUMBER} ?(?:[kKMG]i?)?(?:B|bytes)/s\b"), "<speed>"),
    # Random numbers chosen by a system or a runner
    (re.compile(r"(?i)\b(process|thread)([ =:]{1,3}+)\d++"), r"\1\2<id>"),
    (re.compile(r"(\(Thread-[^\s(),]++(?: \([^\s()]*+\))?, started (?:daemon )?)\d++"), r"\1<id>"),
    (re.compile(r"(?<![\w.:])((?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[?::1\]?)(?::|[\"'], ?))\d{5}\b"), r"\1<port>"),
    (re.compile(r"(?i)(seed[ =:]{1,3}+)\d++"), r"\1<seed>"),
    (re.compile(r"\b(Chunk ID: )[0-9a-f]{6}\b"), r"\1<id>"),
    (re.compile(r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    # Rulers, whose length depends on the text next to them
    (re.compile(r"([=_-])\1{2,}+"), r"\1\1\1"),
)

_NARROW: Sequence[_Rule] = ((_PATH, functools.partial(_path, every=False)), *_GENERATED_NAMES, *_RUNNER_RULES)
_BROAD: Sequence[_Rule] = ((_PATH, functools.partial(_path, every=True)), *_GENERATED_NAMES, *_RUNNER_RULES, *_MOMENTS)

_CUT = re.compile(
    r"\n?\[(?:\.\.\. \d++ [a-z]++ left out \.\.\.|\d++ characters of output dropped[^\[\]\n]*+)\]\n?|\n\[\.\.\.\]\n"
)
"""Markers of output truncated by the harness or an agent."""
_GRAIN = 512
_EDGE = 32


def normalize_failure(text: str) -> str:
    """``text`` without details that differ between runs of a program, to compare failures.

    Removes addresses, process ids, generated names of temporary files, and test durations printed by test runners.
    Other durations and dates are kept, since they may show a change in the program. Takes linear time.
    """
    return _apply(_NARROW, text)


def normalize_output(text: str) -> str:
    """``text`` without details that may differ between two equal attempts, to match recorded requests.

    Removes, in addition to :func:`normalize_failure`: times (an ISO date alone is kept, since data contains such
    dates), durations, speeds, loopback ports above 9999, seeds, UUIDs, names directly in a temporary directory, and the
    length of rulers. So ``90 s`` equals ``5400 s``, and ``/tmp/a/x`` equals ``/tmp/b/x``.

    If the middle of a text was omitted, the position of the cut depends on the length of everything removed here. Text
    next to the cut is removed in large pieces, so differences are rare but possible, mostly between two cuts in
    one text. Decisions based on lengths, such as how much to omit, are not normalized. Takes linear time.
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
