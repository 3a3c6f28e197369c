"""Whether a text contains parts of the solution or of the hidden tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from agentbench_tasks.mining.cleaning import code_lines

_LONG = 20  # characters of a line that alone proves that a text contains the solution
_SHORT = 8  # minimum characters of a line to be considered
_SHARE = 3  # a text that contains more than a third of the added lines contains the solution
_DOCUMENTS = re.compile(
    r".*\.(?:md|rst|txt|adoc|html|ipynb)|(?:.*/)?(?:changes|changelog|history|news|authors)[^/]*", re.I
)
_FILE = re.compile(r"\+\+\+ (?:b/)?([^\t]*)")
_COMMON = re.compile(
    r"(?:from|import|package|using|#include|@|#|//)[ \w\"'<].*|[\w.]+[,:;]?|return (?:self|None|True|False)"
)
"""Lines that many programs contain: imports, comments, decorators and single names."""
_ASSERTION = re.compile(r"assert\b.*|(?:self|cls)\.assert\w+\(.*|with (?:pytest|self)\.(?:raises|warns|assert\w+)\(.*")


@attrs.frozen(kw_only=True)
class Solution:
    """Lines of the reference solution and of the assertions in hidden tests, in normalized form."""

    added: frozenset[str]  #: lines of source code that, according to the patch, exist only after the fix
    assertions: frozenset[str]  #: lines of assertions

    @classmethod
    def of(cls, patch: str, hidden: Mapping[str, bytes]) -> Solution:
        """The lines of a unified diff and of hidden tests."""
        counts: Counter[str] = Counter()
        for sign, line in _changed_lines(patch):
            counts[line] += 1 if sign == "+" else -1_000_000  # moved lines and context exist before the fix
        tests = (line for data in hidden.values() for line in data.decode("utf-8", "replace").split("\n"))
        return cls(
            added=frozenset(line for line, count in counts.items() if count > 0),
            assertions=frozenset(
                line for line in map(_normalized, tests) if len(line) >= _LONG and _ASSERTION.fullmatch(line)
            ),
        )

    def found_in(self, text: str) -> str:
        """The parts of the solution or of the tests that a text contains, for a message; empty if there are none."""
        code = {_normalized(line.lstrip().removeprefix(">>>")) for line in code_lines(text)}
        code |= {_normalized(line[1:]) for line in code_lines(text) if line[:1] in ("+", "-")}
        found = self.added & code
        if any(len(line) >= _LONG for line in found):
            return f"a line that the fix adds: {_shown(max(found, key=len))}"
        if len(found) * _SHARE > len(self.added):
            return f"{len(found)} of {len(self.added)} lines that the fix adds"
        lines = code | {_normalized(line) for line in text.split("\n")}
        if asserted := sorted(self.assertions & lines):
            return f"an assertion of the hidden tests: {_shown(asserted[0])}"
        return ""


def _changed_lines(patch: str) -> Iterator[tuple[str, str]]:
    """The lines of hunks in source code that are long enough to be considered, each with its first character."""
    is_source, previous = True, ""
    for line in patch.split("\n"):
        if line.startswith("+++ ") and previous.startswith("--- "):
            match = _FILE.match(line)
            is_source = match is None or not _DOCUMENTS.fullmatch(match[1])
        elif line[:1] in ("+", "-", " ") and is_source and not line.startswith("--- "):
            content = _normalized(line[1:])
            if len(content) >= _SHORT and not _COMMON.fullmatch(content):
                yield line[0], content
        previous = line


def _normalized(line: str) -> str:
    """A line without differences in white space, and without a comma or semicolon at its end."""
    return " ".join(line.split()).rstrip(",;")


def _shown(line: str) -> str:
    return repr(line if len(line) <= 80 else f"{line[:77]}...")
