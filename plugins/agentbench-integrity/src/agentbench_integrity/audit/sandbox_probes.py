"""Probes of a sandbox that an agent could run itself: with a shell, and the git and grep of the image.

Each returns ``None``, which means unknown, if the image lacks the tools or the probe times out.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence

import attrs

from agentbench_core import Deadline, Sandbox

_LACKING = 42
_DONE = "\1done"
_FILE = "\1"

_HISTORY = """
command -v git >/dev/null && command -v sed >/dev/null && command -v sort >/dev/null || exit 42
git() { command git -c safe.directory='*' -c core.fsmonitor=false "$@" 2>/dev/null; }
objects() { git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' | sed -n "s/^$1 //p"; }
objects commit | head -n 1000 | sed 's/^/commit /'
{ git ls-tree -r HEAD | sed -n 's/^[0-9]* [a-z]* \\([0-9a-f]*\\).*/\\1/p;p'; objects blob; } |
  sort | uniq -u | sed -n 's/^\\([0-9a-f]\\{40,64\\}\\)$/blob \\1/p' | head -n 1000
printf '\\1done\\n'
"""
"""Ids in the tree are printed twice, and all blob ids once more. An id printed only once is not in the tree."""

_OBJECT_FILES = """
test -e .git || { printf '\\1done\\n'; exit 0; }
command -v find >/dev/null || exit 42
find .git/objects -type f 2>/dev/null | head -n 5000
test -f .git/objects/info/alternates && echo .git/objects/info/alternates
printf '\\1done\\n'
"""

_REPOSITORIES = """
command -v git >/dev/null && command -v find >/dev/null || exit 42
git() { command git -c safe.directory='*' -c core.fsmonitor=false "$@" 2>/dev/null; }
here="$(pwd -P)/.git"
PLACES -name '*.git' -print 2>/dev/null | grep -vxF -e "$here" | head -n 50 | while IFS= read -r place; do
  git --git-dir="$place" cat-file --batch-all-objects --batch-check='%(objectname)' | grep -xF "$@" |
    while read -r id; do git ls-tree -r HEAD | grep -qF "$id" || printf '%s %s\\n' "$id" "$place"; done
done
printf '\\1done\\n'
"""

_TEXTS = """
command -v grep >/dev/null && command -v find >/dev/null && command -v xargs >/dev/null || exit 42
LC_ALL=C; export LC_ALL
{
  PLACES -type f -size -257 -print0 2>/dev/null | xargs -0 grep -lF "$@" -- 2>/dev/null
  PLACES -type f -size +256 -print0 2>/dev/null | xargs -0 grep -lIF "$@" -- 2>/dev/null
} | head -n 100 | while IFS= read -r file; do
  printf '\\1%s\\n' "$file"
  grep -aohF "$@" -- "$file" 2>/dev/null | sort -u | head -n 400
done
printf '\\1done\\n'
"""
"""Files larger than 128 KiB (256 blocks) are searched only if they are text, since most of an image is binaries."""

_NETWORK = """
test -d /sys/class/net || exit 42
for device in /sys/class/net/*; do
  read -r flags < "$device/flags" && printf 'device %s %s\\n' "${device##*/}" "$flags"
done
command -v python3 >/dev/null && python3 -c '
import socket, time
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    began = time.monotonic()
    try:
        with socket.socket(family, socket.SOCK_STREAM) as out:
            out.settimeout(3)
            out.connect((address, 80))
        print("connect", address, "was accepted")
    except OSError as error:
        if time.monotonic() - began > 1:
            print("connect", address, "was not refused immediately")
' 2>/dev/null
printf '\\1done\\n'
"""
"""The addresses are reserved for documentation."""

_EVERYWHERE = r"find / \( -path /proc -o -path /sys -o -path /dev \) -prune -o"
_OWN_PLACES = 'find "$PWD" "$HOME" "${TMPDIR:-$HOME}" "${OWN:-$HOME}"'
_OWN = f'OWN="${{VIRTUAL_ENV:-}}"; test "$OWN" = {shlex.quote(sys.prefix)} && OWN=\n'
"""Set OWN to the virtual environment, unless it is the harness's, which is used by tasks that have none."""
_UP = 1  # IFF_UP


@attrs.frozen(kw_only=True)
class Objects:
    """The ids that git can read: of commits, and of blobs that are not files of the checked-out commit."""

    blobs: tuple[str, ...]
    commits: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Probe:
    """Probes one sandbox.

    ``everywhere``: the sandbox has its own file system. Otherwise only the workspace, HOME, the directory of temporary
    files and the virtual environment are searched.
    """

    sandbox: Sandbox
    deadline: Deadline
    everywhere: bool

    def objects(self) -> Objects | None:
        """The objects in the workspace's repository."""
        lines = self._ask(_HISTORY)
        if lines is None:
            return None
        results = [line.split() for line in lines]
        return Objects(
            blobs=tuple(line[1] for line in results if line[:1] == ["blob"]),
            commits=tuple(line[1] for line in results if line[:1] == ["commit"]),
        )

    def object_files(self) -> tuple[str, ...] | None:
        """Files in the workspace's ``.git`` where git stores objects."""
        lines = self._ask(_OBJECT_FILES)
        return None if lines is None else tuple(lines)

    def repositories_with(self, blobs: Sequence[str]) -> Mapping[str, str] | None:
        """The blobs in other repositories that are not in the workspace's commit, with the path to one of these."""
        lines = self._ask(self._in_places(_REPOSITORIES), *_patterns(blobs)) if blobs else ()
        if lines is None:
            return None
        answers = (line.partition(" ") for line in lines)  # the middle of a long output is omitted
        return {blob: path for blob, _, path in answers if path and blob in blobs}

    def texts(self, wanted: Sequence[str]) -> Mapping[str, frozenset[str]] | None:
        """The files that contain some of these lines, each with the lines that it contains."""
        lines = self._ask(self._in_places(_TEXTS), *_patterns(wanted)) if wanted else ()
        if lines is None:
            return None
        results: dict[str, set[str]] = {}
        file = ""
        for line in lines:
            if line.startswith(_FILE):
                file = line.removeprefix(_FILE)
            else:
                results.setdefault(file, set()).add(line)
        return {file: frozenset(texts) for file, texts in results.items()}

    def variables(self) -> str | None:
        """The environment of commands."""
        lines = self._ask("env; printf '\\1done\\n'")
        return None if lines is None else "\n".join(lines)

    def network(self) -> tuple[str, ...] | None:
        """Descriptions of the available network; empty if there is none, as expected."""
        lines = self._ask(_NETWORK)
        if lines is None:
            return None
        messages = []
        for line in lines:
            what, name, *rest = line.split()
            if what == "device" and name != "lo" and int(rest[0], 16) & _UP:
                messages.append(f"device {name}")
            elif what == "connect":
                messages.append(f"a connection to {name} {' '.join(rest)}")
        return tuple(messages)

    def _in_places(self, script: str) -> str:
        if self.everywhere:
            return script.replace("PLACES", _EVERYWHERE)
        return _OWN + script.replace("PLACES", _OWN_PLACES)

    def _ask(self, script: str, *arguments: str) -> Sequence[str] | None:
        command = ["/bin/sh", "-c", script, "sh", *arguments]
        result = self.sandbox.exec(command, deadline=self.deadline)
        lines = result.stdout.text.split("\n")[:-1]
        return lines[:-1] if result.exit_code != _LACKING and lines[-1:] == [_DONE] else None


def _patterns(texts: Sequence[str]) -> list[str]:
    return [argument for text in texts for argument in ("-e", text)]
