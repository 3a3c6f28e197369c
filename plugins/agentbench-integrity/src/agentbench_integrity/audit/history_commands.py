"""Commands that search for later versions of a project, in its history or in a release."""

from __future__ import annotations

import configparser
import posixpath
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence

from agentbench_core import ToolError, Workspace

_WORDS_MOST = 2000  # per command
_SHOWN = 120  # characters
_COMMANDS = re.compile(r"[;|&\n()`]+")
_END = re.compile(r"-?[ \t]*(?P<quote>['\"])(?P<word>\w+)(?P=quote)(?![^\s>])")
"""A quoted delimiter. If it is unquoted, the shell runs commands in the text."""
_MARKS = str.maketrans(dict.fromkeys("\"'[],", " "))
_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_EVERYTHING = ("--all", "--reflog", "-g", "--walk-reflogs", "--branches", "--remotes", "--tags", "--glob")
_ALWAYS = frozenset({"reflog", "fsck", "fetch", "pull", "ls-remote", "unpack-objects", "verify-pack", "show-index"})
_INSIDE = (".git/objects", ".git/logs", ".git/packed-refs", ".git/ORIG_HEAD")
_LATER = ("HEAD@{", "ORIG_HEAD", "FETCH_HEAD", "origin/", "upstream/")
_LEFT_OUT = frozenset({"-path", "-wholename", "-ipath", "-not", "!", "--exclude", "--exclude-dir", "--ignore"})
_OF_FILES = frozenset({"add", "commit", "rm", "mv", "ls-files", "status"})
"""Git subcommands whose arguments name files, not revisions."""
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack"})
"""After these words, a command name is only searched for, not run."""
_HERE = re.compile(r"://(?:localhost|127\.|0\.0\.0\.0|\[::1\])")
_FETCHING = frozenset({"download", "install", "wheel", "index", "add"})
_INSTALLERS = frozenset({"pip", "pip3", "pipx", "uv", "poetry", "pdm", "conda"})
_EDITABLE = frozenset({"-e", "--editable"})
_TELLING = ("git", *_INSTALLERS - {"pip3", "pipx"}, "://")
"""A command without any of these is harmless."""
_FILE_BYTES = 1 << 20


def find_history_command(text: str, names: Collection[str] = ()) -> str | None:
    """The first command in a text that searches for history, or for a release of a project in ``names``.

    This includes programs that start such a command. ``git log``, ``git diff`` and ``git status`` are harmless unless
    options such as ``--all`` or revisions such as ``origin/main`` make them show other commits.
    """
    for command in _commands(text):
        if not any(word in command for word in _TELLING):
            continue
        words = command.translate(_MARKS).split(None, _WORDS_MOST)[:_WORDS_MOST]
        searches = posixpath.basename(next(iter(words), "")) in _SEARCHES
        if _inside(words) or (not searches and (_git(words) or _release(words, names))):
            message = " ".join(words)
            return message if len(message) <= _SHOWN else f"{message[:_SHOWN]}..."
    return None


def _commands(text: str) -> Iterator[str]:
    """The commands that a shell would run, and pieces of programs in other languages, but no text written to a file."""
    end = ""
    for line in text.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        commands = _COMMANDS.split(line)
        yield from commands
        end = _end_of_file(commands[-1])


def _end_of_file(command: str) -> str:
    """The delimiter of the following text if it is written to a file: ``cat > notes.md <<'END'``."""
    before, _, after = command.partition("<<")
    end = _END.match(after)
    program = next(iter(before.split(None, 1)), "")
    return end["word"] if end and (program == "tee" or (program == "cat" and ">" in command)) else ""


def _git(words: Sequence[str]) -> bool:
    at = next((n for n, word in enumerate(words) if posixpath.basename(word) == "git"), None)
    if at is None:
        return False
    rest = list(words[at + 1 :])
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in _WITH_VALUE else rest[1:]
    if not rest:
        return False
    what, *arguments = rest
    if what in _ALWAYS:
        return True
    if what in _OF_FILES:
        return False
    if what == "clone" or what == "remote":
        return any("://" in each or each.startswith("git@") or each == "update" for each in arguments)
    if what == "cat-file":
        return "--batch-all-objects" in arguments
    if what in ("log", "rev-list", "shortlog", "show", "show-branch", "whatchanged") and any(
        each == flag or each.startswith(f"{flag}=") for each in arguments for flag in _EVERYTHING
    ):
        return True
    revisions = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(each.startswith(_LATER) for each in revisions)


def _inside(words: Sequence[str]) -> bool:
    for before, word in zip(("", *words), words, strict=False):
        if any(each in word for each in _INSIDE) and not word.startswith(("-", "!")) and before not in _LEFT_OUT:
            return True
    return False


def _release(words: Sequence[str], names: Collection[str]) -> bool:
    if not names:
        return False
    elsewhere = [_project(word) for word in words if "://" in word and not _HERE.search(word)]
    if any(re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", each) for each in elsewhere for name in names):
        return True
    installs = any(posixpath.basename(word) in _INSTALLERS for word in words) and not _FETCHING.isdisjoint(words)
    pairs = zip(("", *words), words, strict=False)
    return installs and any(_required(word) in names for before, word in pairs if before not in _EDITABLE)


def _required(word: str) -> str:
    """The project in a requirement; empty for a path."""
    return "" if "/" in word or word.startswith("-") else _project(re.split(r"[=<>!~@;]", word, maxsplit=1)[0])


def _project(name: str) -> str:
    return re.sub(r"[-_.]", "-", name).lower()


def project_names(tree: Workspace) -> frozenset[str]:
    """The project's names in pyproject.toml and setup.cfg. Unreadable files are ignored."""
    return frozenset(_project(name) for name in _names(tree) if name.strip())


def _names(tree: Workspace) -> Iterator[str]:
    try:
        described = tomllib.loads(_text(tree, "pyproject.toml"))
    except (ValueError, RecursionError):
        described = {}
    tool = described.get("tool")
    for section in (described.get("project"), tool.get("poetry") if isinstance(tool, dict) else None):
        if isinstance(section, dict) and isinstance(section.get("name"), str):
            yield section["name"]
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(_text(tree, "setup.cfg"))
    except (configparser.Error, ValueError):
        return
    yield parser.get("metadata", "name", fallback="")


def _text(tree: Workspace, path: str) -> str:
    try:
        return tree.read(path, limit=_FILE_BYTES).decode()
    except (ToolError, OSError, UnicodeDecodeError):
        return ""
