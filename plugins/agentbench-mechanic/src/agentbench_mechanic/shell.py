"""The mechanic where a shell is all that there is: it thinks in tools of its own, and types what they would do.

Each of its calls has one way to be typed, by which it is known again: so a conversation over a shell reads as one over
those tools. An agent that offers only a shell also says by which command it wants to be told of the end.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from agentbench_mechanic.failure_output import command_in
from agentbench_mechanic.transcript import Exchange, Reply, Transcript

_SHELL = "bash"
_TOOLS = ("list_files", "read_file", "apply_patch", "run")
_LIST = "find . -name '*.py' -not -path './.*' -type f"
_READ = "cat -- "
_REFUSED = 125
"""Exit code of a patch that does not fit; programs that judge have no use for it."""
_APPLY = f"GIT_CEILING_DIRECTORIES=\"${{PWD%/*}}\" git apply <<'END' || exit {_REFUSED}\n"
"""Inside of somebody else's repository, git would leave out what lies in none of its directories."""
_PATCH = re.compile(re.escape(_APPLY) + r"(.*?)^END\n", re.DOTALL | re.MULTILINE)
_END = re.compile(r"`(echo [A-Z_]+)`")


def only_a_shell(transcript: Transcript) -> bool:
    """Whether the one tool on offer runs commands, and nobody runs the failing command but the mechanic."""
    return list(transcript.tools) == [_SHELL] and "command" in transcript.properties(_SHELL)


def understood(transcript: Transcript) -> Transcript:
    """The same conversation as one with tools: what was typed is read as the call that it stands for."""
    exchanges = tuple(
        _understood(one, command_in(transcript.words)) for one in transcript.exchanges if one.tool == _SHELL
    )
    heard = [one.words_after for one in exchanges if one.tool == "apply_patch"]
    return dataclasses.replace(
        transcript,
        words="\n\n".join([transcript.words, *heard]),
        exchanges=exchanges,
        tools={name: {} for name in _TOOLS},
    )


def typed(reply: Reply, transcript: Transcript) -> Reply:
    """What to say over a shell: a command for a call, and where there is none the one that ends it all."""
    if reply.calls:
        (call,) = reply.calls
        return Reply.call(
            reply.text, _SHELL, {"command": _typed(call.tool, call.arguments, command_in(transcript.words))}
        )
    end = _END.search(transcript.words)
    return Reply.call(reply.text, _SHELL, {"command": end[1]}) if end else reply


def _typed(tool: str, given: Mapping[str, Any], failing: str) -> str:
    if tool == "list_files":
        return _LIST
    if tool == "read_file":
        return _READ + shlex.quote(given["path"])
    if tool == "apply_patch":  # and see at once what comes of it
        return f"{_APPLY}{given['unified_diff']}END\n{failing}"
    return str(given["command"])


def _understood(one: Exchange, failing: str) -> Exchange:
    command = one.argument("command")
    code, output, whole = _observed(one.result)
    if command == _LIST:
        paths = "".join(f"\n  {line.removeprefix('./')}" for line in output.splitlines())
        return Exchange("list_files", {"glob": "**/*.py"}, f"paths:{paths}", one.words_after)
    if command.startswith(_READ):
        path = "".join(_words(command.removeprefix(_READ))[:1])
        text = f"text:\n{output.rstrip()}\ntotal_lines: {len(output.splitlines())}\nomitted_chars: {int(not whole)}"
        return Exchange("read_file", {"path": path}, text if code == 0 else f"error: {output}", one.words_after)
    if patch := _PATCH.match(command):
        result = f"error: {output}" if code in (_REFUSED, None) else "changed_files:"
        state = "passes" if code == 0 else "still fails"
        heard = "" if result.startswith("error") else f"`{failing}` {state} with this change. It prints:\n\n{output}"
        return Exchange("apply_patch", {"unified_diff": patch[1]}, result, "\n\n".join([heard, one.words_after]))
    result = f"error: {output}" if code is None else f"exit_code: {code}\nstdout:\n{output}"
    return Exchange("run", one.arguments, result, one.words_after)


def _observed(result: str) -> tuple[int | None, str, bool]:
    """Exit code, output, and whether that is all of it; no code where the command did not come to its end."""
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return None, result, True
    if not isinstance(found, Mapping) or type(code := found.get("returncode")) is not int:
        return None, result, True
    parts = [str(found[name]) for name in ("output", "output_head", "output_tail") if name in found]
    return code if code >= 0 else None, "\n".join(parts), "output" in found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
