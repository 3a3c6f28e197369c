"""The mechanic with a shell: it translates its tool calls to shell commands, and the transcript back to tool calls.

Each call has exactly one command, so commands can be translated back. The agent's other tools are not used. If an agent
offers only a shell, its instructions may also name the command that ends the conversation.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from typing import Any

from agentbench_mechanic.failure_output import command_in
from agentbench_mechanic.shell_tools import Observation, ShellTool, poll, unwrapped, with_polls, wrapped
from agentbench_mechanic.sub_agents import role_of
from agentbench_mechanic.transcript import Exchange, Reply, Transcript

_SECONDS = 20.0
"""Maximum seconds of one search, since some agents stop commands after 30 seconds."""
_TOOLS = ("list_files", "read_file", "apply_patch", "run")
_LIST = "find . -name '*.py' -not -path './.*' -type f"
_READ = "cat -- "
_REFUSED = 125
"""Exit code for a patch that does not apply. Test runners do not use this code."""
_APPLY = f"GIT_CEILING_DIRECTORIES=\"${{PWD%/*}}\" git apply <<'END' || exit {_REFUSED}\n"
"""The variable hides a repository that contains the workspace, because git would silently skip the patch there."""
_PATCH = re.compile(re.escape(_APPLY) + r"(.*?)^END\n", re.DOTALL | re.MULTILINE)
_END = re.compile(r"`(echo [A-Z_]+)`")


def shell_in(transcript: Transcript) -> ShellTool | None:
    """The shell to use; ``None`` if there is none, or if the agent offers AgentBench's own tools."""
    if "unified_diff" in transcript.properties("apply_patch") or role_of(transcript):
        return None
    return ShellTool.among(transcript)


def from_shell(transcript: Transcript, shell: ShellTool) -> Transcript:
    """The transcript with commands translated back to tool calls."""
    failing = command_in(transcript.text)
    exchanges = tuple(_exchange(one, shell, failing) for one in with_polls(transcript, shell))
    texts = [one.text_after for one in exchanges if one.tool == "apply_patch"]
    return dataclasses.replace(
        transcript,
        text="\n\n".join([transcript.text, *texts]),
        exchanges=exchanges,
        tools={name: {} for name in _TOOLS},
        search_seconds=_SECONDS,
    )


def to_shell(reply: Reply, transcript: Transcript, shell: ShellTool) -> Reply:
    """The reply as a shell command. A reply without a call becomes the command that ends the conversation, if any."""
    if waiting := poll(transcript):
        return Reply.call("Waiting for the command.", *waiting)
    if reply.calls:
        (call,) = reply.calls
        command = wrapped(_command(call.tool, call.arguments, command_in(transcript.text)))
    elif end := _END.search(transcript.text):
        command = end[1]
    else:
        return reply
    return Reply.call(reply.text, shell.name, shell.arguments(command))


def _command(tool: str, arguments: Mapping[str, Any], failing: str) -> str:
    if tool == "list_files":
        return _LIST
    if tool == "read_file":
        return _READ + shlex.quote(arguments["path"])
    if tool == "apply_patch":  # and run the failing command
        return f"{_APPLY}{arguments['unified_diff']}END\n{failing}"
    return str(arguments["command"])


def _exchange(one: Exchange, shell: ShellTool, failing: str) -> Exchange:
    command = unwrapped(shell.command(one.arguments))
    observed = Observation.of(one.result)
    code, output, complete = observed.code, observed.output, observed.complete
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
    return Exchange("run", {"command": command}, result, one.text_after)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
