"""Upload the ``repair`` package to a sandbox as text, with shell commands."""

from __future__ import annotations

import ast
import base64
import functools
import importlib.resources
import json
import re
import shlex
import zlib

_UNPACK = """\
{python} - <<'END'
import base64, json, os, tempfile, zlib
directory = os.path.join(tempfile.gettempdir(), "mechanic")
packed = open(directory + ".packed").read()
os.makedirs(os.path.join(directory, "repair"), exist_ok=True)
for name, text in json.loads(zlib.decompress(base64.b85decode(packed))).items():
    with open(os.path.join(directory, "repair", name), "w") as file:
        file.write(text)
END
"""
_PACKED = '"${TMPDIR:-/tmp}/mechanic.packed"'
_RUN = 'PYTHONPATH="${{TMPDIR:-/tmp}}/mechanic" {python} -m repair --seconds {seconds} --skip {skip}{tests}'
_PYTHON = re.compile(r"(?:\S*/)?python[0-9.]*")
_WITH_VALUE = ("-p", "-k", "-m", "-c", "-o", "-n", "-W", "-r")
"""Short pytest options whose value is the next argument."""
_BYTES_PER_TOKEN = 3
"""The size of a part in bytes per token of the longest response. Four bytes would leave no room for other text."""


@functools.cache
def packed() -> str:
    """The ``repair`` package as compressed ASCII text, without comments and docstrings."""
    files = {}
    for entry in importlib.resources.files("agentbench_mechanic.repair").iterdir():
        if entry.name.endswith(".py"):
            files[entry.name] = _stripped(entry.read_text(encoding="utf-8"))
    text = json.dumps(dict(sorted(files.items())), ensure_ascii=True)
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def _stripped(text: str) -> str:
    """A program without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            retained = [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
            node.body = retained or [ast.Pass()]  # type: ignore[attr-defined]  # `body` was read above
    return ast.unparse(tree)


def upload_commands(max_tokens: int) -> list[str]:
    """Shell commands that upload the ``repair`` package, each short enough for a response of ``max_tokens``."""
    text, size = packed(), max(max_tokens * _BYTES_PER_TOKEN, 500)
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    return [f"printf %s '{part}' {'>>' if number else '>'} {_PACKED}" for number, part in enumerate(parts)]


def search_command(command: str, seconds: float, skip: int, *, unpack: bool) -> str:
    """The shell command that searches for a fix for ``command``. With ``unpack``, it first unpacks the upload."""
    words = _split(command)
    python = next((word for word in words if _PYTHON.fullmatch(word)), "python3")
    tests = "".join(f" {shlex.quote(word)}" for word in _tests(words))
    run = _RUN.format(python=python, seconds=seconds, skip=skip, tests=tests)
    return (_UNPACK.format(python=python) if unpack else "") + run


def _tests(words: list[str]) -> list[str]:
    """The arguments of pytest without options and their values; empty if ``pytest`` is not one of the words."""
    after = words[words.index("pytest") + 1 :] if "pytest" in words else []
    pairs = zip(["", *after], after, strict=False)
    return [word for before, word in pairs if not word.startswith("-") and before not in _WITH_VALUE]


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []
