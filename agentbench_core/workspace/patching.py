"""Parse unified diffs written by models or people; strict only where safety requires strictness.

``git apply`` and ``patch`` must not run on the host, since both can be made to read or write outside the tree.
Accepted: git's headers or bare ``---``/``+++`` lines, new and deleted files, quoted names, timestamps, wrong line
counts and wrong line numbers. Rejected: paths that leave the tree, links, submodules, other modes, renames, copies,
binary patches, combined diffs, ed scripts, and text that is not part of a patch.
"""

from __future__ import annotations

import re
from typing import Literal, NoReturn

import attrs

from agentbench_core.workspace.diffing import unified_diff
from agentbench_core.workspace.hunks import BadPatchError, FilePatch, Hunk, Line, PatchConflict
from agentbench_core.workspace.paths import NOTHING, QUOTED, common_name, components, file_of_git_line, unquoted
from agentbench_core.workspace.placing import Applied, apply_hunks

__all__ = [
    "Applied",
    "BadPatchError",
    "FilePatch",
    "Hunk",
    "Line",
    "PatchConflict",
    "apply_hunks",
    "parse_patch",
    "unified_diff",
]

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_MODES = {"100644": False, "100755": True}
_REFUSED = {
    "rename from ": "a rename; delete the old file and create the new one",
    "rename to ": "a rename; delete the old file and create the new one",
    "copy from ": "a copy; create the new file with its content",
    "copy to ": "a copy; create the new file with its content",
    "GIT binary patch": "a binary patch; only text can be changed",
    "Binary files ": "a binary patch; only text can be changed",
    "diff --cc ": "a combined diff of a merge; use a plain unified diff",
    "diff --combined ": "a combined diff of a merge; use a plain unified diff",
    "@@@ ": "a combined diff of a merge; use a plain unified diff",
}


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Parse a unified diff.

    Lines end with ``\\n``; a carriage return before it belongs to the line. If the line counts of
    a hunk are wrong, they are ignored, and the hunk ends at the next header.

    Raises:
        BadPatchError: the text is not a patch, or has rejected content; the message names the line.
        PathEscapeError: a name in it leads outside the tree or into ``.git``.
    """
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadPatchError(
            f"the patch contains a character that cannot be encoded as UTF-8, at {error.start}"
        ) from None
    patches = _Reader(text).read()
    if not patches:
        raise BadPatchError("the patch is empty: it has no '---' and '+++' lines")
    seen: set[str] = set()
    for patch in patches:
        if patch.path in seen:
            raise BadPatchError(
                f"{patch.path!r} occurs twice in the patch; put all its hunks under one header, in order"
            )
        seen.add(patch.path)
    return tuple(patches)


@attrs.define
class _Header:
    """The header of one file."""

    git_line: str = ""
    old: str = ""
    new: str = ""
    created: bool = False
    deleted: bool = False
    executable: bool | None = None


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        self._at = 0

    def read(self) -> list[FilePatch]:
        patches: list[FilePatch] = []
        while self._skip_blank():
            patches.append(self._file())
        return patches

    # --- position ------------------------------------------------------------------------------------------------

    def _line(self, ahead: int = 0) -> str:
        """The current line, or one ``ahead`` of it, without its carriage return; empty after the end."""
        at = self._at + ahead
        return self._lines[at].removesuffix("\r") if at < len(self._lines) else ""

    def _skip_blank(self) -> bool:
        while self._at < len(self._lines) and not self._line().strip():
            self._at += 1
        return self._at < len(self._lines)

    def _fail(self, problem: str) -> NoReturn:
        raise BadPatchError(f"line {self._at + 1} of the patch: {problem}")

    # --- headers -------------------------------------------------------------------------------------------------

    def _file(self) -> FilePatch:
        header = _Header()
        if self._line().startswith("diff --git "):
            header.git_line = self._line()
            self._at += 1
            self._extended(header)
        self._refuse_special()
        if self._line().startswith("--- "):
            self._names(header)
        elif not header.git_line:
            self._fail(f"{_short(self._line())} is not part of a unified diff; expected 'diff --git' or '---'")
        return self._finish(header, self._hunks())

    def _refuse_special(self) -> None:
        for start, what in _REFUSED.items():
            if self._line().startswith(start):
                self._fail(f"this is {what}")

    def _extended(self, header: _Header) -> None:
        """Read git's lines between ``diff --git`` and ``---`` into the header."""
        while self._at < len(self._lines):
            self._refuse_special()
            line = self._line()
            if line.startswith("new mode "):
                header.executable = self._mode(line)
            elif line.startswith("new file mode "):
                header.created, header.executable = True, self._mode(line)
            elif line.startswith(("old mode ", "deleted file mode ")):
                header.deleted |= line.startswith("deleted")
                self._mode(line)
            elif match := re.fullmatch(r"index [0-9a-f]+\.\.[0-9a-f]+(?: (\d+))?", line):
                if match[1]:
                    self._mode(line)
            elif not line.startswith(("similarity index ", "dissimilarity index ")):
                return
            self._at += 1

    def _mode(self, line: str) -> bool:
        mode = line.rpartition(" ")[2]
        if mode not in _MODES:
            self._fail(f"mode {mode!r} is not allowed; files are 100644 or 100755 (no links, no submodules)")
        return _MODES[mode]

    def _names(self, header: _Header) -> None:
        header.old = self._name()
        self._at += 1
        if not self._line().startswith("+++ "):
            self._fail("expected '+++ ' and the name of the new file")
        header.new = self._name()
        self._at += 1

    def _name(self) -> str:
        """The name on a ``---`` or ``+++`` line: quoted, or up to a tab, which a timestamp may follow."""
        rest = self._line()[4:]
        if not rest.startswith('"'):
            return rest.partition("\t")[0]
        match = QUOTED.match(rest)
        if match is None:
            self._fail("the quoted name has no closing quote")
        try:
            return unquoted(match[1])
        except ValueError as error:
            self._fail(f"the quoted name {match[0]}: {error}")

    def _finish(self, header: _Header, hunks: tuple[Hunk, ...]) -> FilePatch:
        named = common_name(header.old, header.new) if header.old else None
        from_git = file_of_git_line(header.git_line) if header.git_line else None
        if header.old and named is None:
            self._fail(f"renames are not supported, but {header.old!r} and {header.new!r} differ")
        if named and from_git and named != from_git:
            self._fail(f"the headers contain two different file names, {from_git!r} and {named!r}")
        path = named or from_git
        if not path:
            self._fail("the header must contain exactly one file name")
        components(path)
        kind: Literal["create", "modify", "delete"] = "modify"
        if header.created or header.old == NOTHING:
            kind = "create"
        elif header.deleted or header.new == NOTHING:
            kind = "delete"
        self._check(header, kind, hunks)
        return FilePatch(path, kind, hunks, None if kind == "delete" else header.executable)

    def _check(self, header: _Header, kind: str, hunks: tuple[Hunk, ...]) -> None:
        if header.created and (header.deleted or header.old not in ("", NOTHING)):
            self._fail("a new file needs '--- /dev/null'")
        if header.deleted and (kind == "create" or header.new not in ("", NOTHING)):
            self._fail("a deleted file needs '+++ /dev/null'")
        if not hunks and (header.old or (kind == "modify" and header.executable is None)):
            self._fail("the file has no hunks ('@@ -1,3 +1,4 @@')")
        if kind == "create" and any(hunk.before for hunk in hunks):
            self._fail("a new file may only have added lines")
        if kind == "delete" and any(hunk.after for hunk in hunks):
            self._fail("a deleted file may only have removed lines")

    # --- hunks ---------------------------------------------------------------------------------------------------

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while self._at < len(self._lines):
            self._refuse_special()
            if not self._line().startswith("@@"):
                break
            hunks.append(self._hunk())
            while not self._line() and self._at < len(self._lines):
                self._at += 1
        return tuple(hunks)

    def _hunk(self) -> Hunk:
        header = self._line()
        match = _HUNK.match(header)
        if match is None:
            self._fail(f"{_short(header)} is not a hunk header; expected '@@ -1,3 +1,4 @@'")
        self._at += 1
        old, new = (1 if count is None else int(count) for count in (match[2], match[4]))
        end = self._end_by_counts(old, new)
        if end is None:
            end = self._end_by_headers()
        lines = self._body(end)
        if not lines:
            self._fail("the hunk is empty")
        self._at = end
        return Hunk(match[0], int(match[1]), lines)

    def _end_by_counts(self, old: int, new: int) -> int | None:
        """The end of the hunk if its counts are right, else None."""
        at = self._at
        while old > 0 or new > 0:
            if at >= len(self._lines):
                return None
            sign = self._lines[at][:1]
            if sign not in ("", "\r", " ", "-", "+", "\\"):
                return None
            old -= sign in ("", "\r", " ", "-")
            new -= sign in ("", "\r", " ", "+")
            at += 1
        if old < 0 or new < 0:
            return None
        if self._lines[at : at + 1] and self._lines[at].startswith("\\"):
            at += 1
        after = at
        while after < len(self._lines) and not self._lines[after].strip():
            after += 1
        return at if self._is_boundary(after) else None

    def _end_by_headers(self) -> int:
        at = self._at
        while at < len(self._lines) and not self._is_boundary(at):
            if self._lines[at][:1] not in ("", "\r", " ", "-", "+", "\\"):
                self._at = at
                self._fail(f"{_short(self._lines[at])} is not a hunk line; hunk lines start with ' ', '-' or '+'")
            at += 1
        while at > self._at and not self._lines[at - 1].strip("\r"):
            at -= 1
        return at

    def _is_boundary(self, at: int) -> bool:
        """Whether this is the end, another hunk or another file. ``--- x`` alone may be a removed ``-- x``."""
        following = self._lines[at : at + 3]
        if not following or following[0].startswith(("@@ -", "diff --git ")):
            return True
        starts = ("--- ", "+++ ", "@@ -")
        return len(following) == 3 and all(map(str.startswith, following, starts))

    def _body(self, end: int) -> tuple[Line, ...]:
        lines: list[Line] = []
        for at in range(self._at, end):
            line = self._lines[at]
            if line.startswith("\\"):
                if not lines:
                    self._at = at
                    self._fail("'\\ No newline at end of file' must follow a line")
                lines[-1] = attrs.evolve(lines[-1], text=lines[-1].text.removesuffix("\n"))
            else:
                lines.append(_hunk_line(line))
        for side in ("+", "-"):  # lines of the old file, then of the new one
            texts = [line.text for line in lines if line.sign != side]
            if not all(text.endswith("\n") for text in texts[:-1]):
                self._fail("'\\ No newline at end of file' may only follow the last line of a file")
        return tuple(lines)


def _hunk_line(line: str) -> Line:
    match line[:1]:
        case "-":
            return Line("-", f"{line[1:]}\n")
        case "+":
            return Line("+", f"{line[1:]}\n")
        case " ":
            return Line(" ", f"{line[1:]}\n")
    return Line(" ", f"{line}\n")  # an empty context line that lost its space


def _short(line: str) -> str:
    return repr(line if len(line) <= 60 else f"{line[:60]}...")
