"""The mechanic with only a shell: it translates its tool calls to shell commands, and the transcript back.

Each call has exactly one command, so commands can be translated back. The instruction of an agent that offers only a
shell also names the command that ends the conversation.
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
"""Exit code of a patch that does not apply; test runners do not use it."""
_APPLY = f"GIT_CEILING_DIRECTORIES=\"${{PWD%/*}}\" git apply <<'END' || exit {_REFUSED}\n"
"""The variable hides a repository around the workspace, in which git would silently skip the files of the patch."""
_PATCH = re.compile(re.escape(_APPLY) + r"(.*?)^END\n", re.DOTALL | re.MULTILINE)
_END = re.compile(r"`(echo [A-Z_]+)`")


def has_only_a_shell(transcript: Transcript) -> bool:
    """Whether the only offered tool is a shell. In that case, the agent does not rerun the failing command."""
    return list(transcript.tools) == [_SHELL] and "command" in transcript.properties(_SHELL)


def from_shell(transcript: Transcript) -> Transcript:
    """The transcript with commands translated back to tool calls."""
    exchanges = tuple(_exchange(one, command_in(transcript.text)) for one in transcript.exchanges if one.tool == _SHELL)
    texts = [one.text_after for one in exchanges if one.tool == "apply_patch"]
    return dataclasses.replace(
        transcript,
        text="\n\n".join([transcript.text, *texts]),
        exchanges=exchanges,
        tools={name: {} for name in _TOOLS},
    )


def to_shell(reply: Reply, transcript: Transcript) -> Reply:
    """The reply as a shell command; a reply without a call becomes the command that ends the conversation."""
    if reply.calls:
        (call,) = reply.calls
        return Reply.call(
            reply.text, _SHELL, {"command": _command(call.tool, call.arguments, command_in(transcript.text))}
        )
    end = _END.search(transcript.text)
    return Reply.call(reply.text, _SHELL, {"command": end[1]}) if end else reply


def _command(tool: str, arguments: Mapping[str, Any], failing: str) -> str:
    if tool == "list_files":
        return _LIST
    if tool == "read_file":
        return _READ + shlex.quote(arguments["path"])
    if tool == "apply_patch":  # and run the failing command
        return f"{_APPLY}{arguments['unified_diff']}END\n{failing}"
    return str(arguments["command"])


def _exchange(one: Exchange, failing: str) -> Exchange:
    command = one.argument("command")
    code, output, complete = _observation(one.result)
    if command == _LIST:
        paths = "".join(f"\n  {line.removeprefix('./')}" for line in output.splitlines())
        return Exchange("list_files", {"glob": "**/*.py"}, f"paths:{paths}", one.text_after)
    if command.startswith(_READ):
        path = "".join(_split(command.removeprefix(_READ))[:1])
        text = f"text:\n{output.rstrip()}\ntotal_lines: {len(output.splitlines())}\nomitted_chars: {int(not complete)}"
        return Exchange("read_file", {"path": path}, text if code == 0 else f"error: {output}", one.text_after)
    if patch := _PATCH.match(command):
        result = f"error: {output}" if code in (_REFUSED, None) else "changed_files:"
        state = "passes" if code == 0 else "still fails"
        message = "" if result.startswith("error") else f"`{failing}` {state} with this change. Output:\n\n{output}"
        return Exchange("apply_patch", {"unified_diff": patch[1]}, result, "\n\n".join([message, one.text_after]))
    result = f"error: {output}" if code is None else f"exit_code: {code}\nstdout:\n{output}"
    return Exchange("run", one.arguments, result, one.text_after)


def _observation(result: str) -> tuple[int | None, str, bool]:
    """Exit code (``None``: unknown, or the command did not finish), output, and whether the output is complete."""
    try:
        observation = json.loads(result)
    except (ValueError, RecursionError):
        return None, result, True
    if not isinstance(observation, Mapping) or type(code := observation.get("returncode")) is not int:
        return None, result, True
    parts = [str(observation[name]) for name in ("output", "output_head", "output_tail") if name in observation]
    return code if code >= 0 else None, "\n".join(parts), "output" in observation


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
