"""The shell tools of other agents: their arguments, and the format of their results.

A tool is recognized by its name and schema. Agents present exit codes and output in different ways, wait for a limited
time, and truncate long output. Each command therefore limits its own output and prints its own exit code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentbench_mechanic.sub_agents import minimal_arguments
from agentbench_mechanic.transcript import Exchange, Transcript

_NAMES = ("bash", "shell", "shell_command", "exec_command", "local_shell", "exec")
"""Lowercase, without a namespace."""
_ARGUMENTS = ("command", "cmd")
_POLL = "write_stdin"
"""The tool that waits for a command that ``exec_command`` left running."""
_OPTIONS: Mapping[str, Any] = {
    "description": "Run a command of the mechanic",
    "login": False,  # a login shell may have a different PATH
    "timeout": 120_000,
    "timeout_ms": 120_000,
    "yield_time_ms": 30_000,
}
"""Arguments that are set if the tool accepts them. All times are in milliseconds."""

_MOST = 9000
"""The maximum number of characters of output. The strictest known agent truncates output at 10,000."""
_OMITTED = "[mechanic: output omitted]"
_BEGIN = "[mechanic: output]\n"
"""Separates the output from text that the agent adds before it."""
_BEFORE = "text=$( {\n"
_AFTER = f"""
}} 2>&1 ); code=$?
if [ ${{#text}} -gt {_MOST} ]; then
text="$(printf %s "$text" | head -c {_MOST // 3})
{_OMITTED}
$(printf %s "$text" | tail -c {_MOST // 2})"
fi
printf '[mechanic: output]\\n%s\\n[mechanic: exit code %s]\\n' "$text" $code
(exit $code)"""
_EXIT_CODE = re.compile(r"\n?\[mechanic: exit code (\d+)\]")
_SESSION = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)

_CODE = """\
let done = await tools.exec_command({arguments}), output = done.output;
while (done.session_id !== undefined) {{
  done = await tools.write_stdin({{session_id: done.session_id, yield_time_ms: 30000}});
  output += done.output;
}}
text(output);
"""
"""A program for agents that offer JavaScript instead of a shell."""
_CODE_ARGUMENTS = re.compile(r"exec_command\((\{.*\})\), output")


@dataclass(frozen=True)
class ShellTool:
    """A tool that runs shell commands."""

    name: str
    argument: str
    """The argument with the command."""
    form: Literal["text", "words", "code"]
    """A string, a list of words, or a program that calls ``exec_command``."""
    schema: Mapping[str, Any]

    @classmethod
    def among(cls, transcript: Transcript) -> ShellTool | None:
        """The first offered shell tool, if any."""
        for name, schema in transcript.tools.items():
            properties = transcript.properties(name)
            short = name.rpartition(".")[2].lower()
            if short not in _NAMES:
                continue
            if short == "exec" and list(properties) == ["input"]:
                return cls(name, "input", "code", schema)
            for argument in _ARGUMENTS:
                if isinstance(one := properties.get(argument), Mapping):
                    return cls(name, argument, "words" if one.get("type") == "array" else "text", schema)
        return None

    def arguments(self, command: str) -> dict[str, Any]:
        """The arguments of a call that runs a command, unchanged."""
        if self.form == "code":
            options = {name: _OPTIONS[name] for name in ("login", "yield_time_ms")}
            return {"input": _CODE.format(arguments=json.dumps({"cmd": command, **options}))}
        offered = self.schema.get("properties", {})
        options = {name: value for name, value in _OPTIONS.items() if name in offered}
        value: object = ["bash", "-c", command] if self.form == "words" else command
        return {**minimal_arguments(self.schema), **options, self.argument: value}

    def command(self, arguments: Mapping[str, Any]) -> str:
        """The command that a call ran; empty if its arguments do not have the form of :meth:`arguments`."""
        value = arguments.get(self.argument)
        if self.form == "code" and isinstance(value, str) and (match := _CODE_ARGUMENTS.search(value)):
            try:
                value = json.loads(match[1]).get("cmd")
            except ValueError:
                return ""
        if self.form == "words" and isinstance(value, list):
            value = value[-1] if value else ""
        return value if isinstance(value, str) else ""


@dataclass(frozen=True)
class Observation:
    """The result of a command."""

    code: int | None
    """The exit code; ``None`` if it is unknown or the command did not finish."""
    output: str
    complete: bool
    """Whether the output is complete."""

    @classmethod
    def of(cls, result: str) -> Observation:
        """Parse a tool's result: JSON with ``returncode`` and ``output``, or any text with the command's own marker."""
        observed = _from_json(result) or cls(None, result, complete=True)
        marks = list(_EXIT_CODE.finditer(observed.output))
        if not marks:
            return observed
        output = observed.output[: marks[-1].start()].replace("\r\n", "\n")
        output = output.partition(_BEGIN)[2] if _BEGIN in output else output
        return cls(int(marks[-1][1]), output, observed.complete and _OMITTED not in output)


def _from_json(result: str) -> Observation | None:
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping) or type(code := value.get("returncode")) is not int:
        return None
    parts = [str(value[name]) for name in ("output", "output_head", "output_tail") if name in value]
    return Observation(code if code >= 0 else None, "\n".join(parts), "output" in value)


def wrapped(command: str) -> str:
    """A command that limits its output and then prints its exit code."""
    return f"{_BEFORE}{command}{_AFTER}"


def unwrapped(command: str) -> str:
    """The original command of a wrapped command; other commands are returned unchanged."""
    return command.removeprefix(_BEFORE).removesuffix(_AFTER)


def poll(transcript: Transcript) -> tuple[str, Mapping[str, Any]] | None:
    """The call that waits for the last command, if it was left running."""
    last = transcript.exchanges[-1] if transcript.exchanges else None
    if last is None or _POLL not in transcript.tools or _EXIT_CODE.search(last.result):
        return None
    session = _SESSION.search(last.result)
    return (_POLL, {"session_id": int(session[1]), "yield_time_ms": 30_000}) if session else None


def with_polls(transcript: Transcript, shell: ShellTool) -> list[Exchange]:
    """The calls of the shell. Each result includes the output that arrived later."""
    found: list[Exchange] = []
    for one in transcript.exchanges:
        if one.tool == shell.name:
            found.append(one)
        elif one.tool == _POLL and found:
            last = found[-1]
            text = "\n\n".join(filter(None, (last.text_after, one.text_after)))
            found[-1] = Exchange(last.tool, last.arguments, last.result + _output(one.result), text)
    return found


def _output(result: str) -> str:
    """The output in a result of ``write_stdin``, without its header."""
    return result.partition("\nOutput:\n")[2] or result
