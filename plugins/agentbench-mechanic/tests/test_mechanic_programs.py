"""The mechanic behind a server, called in the way of command-line agents. Their request formats were recorded.

``recorded/`` has the first request of each program, with shortened texts, and the item or message that brings a
command's result. The versions: Codex 0.169.0, OpenCode 1.18.33, Claude Code 2.1.330, mini-swe-agent 2.4.6.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Message, Request, ToolCall, ToolSpec
from agentbench_mechanic.failure_output import command_in
from agentbench_mechanic.mechanic import next_reply
from agentbench_mechanic.provider import answer_to
from agentbench_mechanic.shell import from_shell, shell_in
from agentbench_mechanic.shell_tools import Observation, unwrapped, wrapped
from agentbench_mechanic.transcript import Transcript
from agentbench_testing.chat_server import LoopbackServer, completing

RECORDED = Path(__file__).parent / "recorded"
PROGRAMS = sorted(path.stem for path in RECORDED.glob("*.json"))
SOURCE = "def fits(width, text):\n    return len(text) < width\n"
TEST = "from fits import fits\n\n\ndef test_exactly():\n    assert fits(3, 'abc')\n    assert not fits(2, 'abc')\n"
COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider"
INSTRUCTION = f"Texts do not fit.\n\nThe command `{COMMAND}` prints:\n\n1 failed"
END = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def filled(value: Any, texts: Mapping[str, str]) -> Any:
    """A JSON value with its placeholders replaced."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: texts[match[1]], value)
    if isinstance(value, list):
        return [filled(each, texts) for each in value]
    return {name: filled(each, texts) for name, each in value.items()} if isinstance(value, dict) else value


def run(root: Path, command: str, shell: str = "sh") -> tuple[int, str]:
    variables = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # installed plugins take most of the time
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(root.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([shell, "-c", command], cwd=root, capture_output=True, text=True, timeout=120, env=variables)
    return done.returncode, done.stdout + done.stderr


class Program:
    """A program's side of the conversation: it runs the commands, and sends their results in its own format."""

    def __init__(self, name: str, root: Path, base_url: str) -> None:
        recorded = json.loads((RECORDED / f"{name}.json").read_text())
        self.url = f"{base_url}/{recorded['path']}"
        self.body = {**filled(recorded["request"], {"instruction": INSTRUCTION}), "stream": False}
        self.result = recorded["result"]
        self.root = root
        self.tools: list[str] = []

    @property
    def conversation(self) -> list[Any]:
        return self.body["input" if self.url.endswith("responses") else "messages"]

    def turn(self) -> bool:
        """One request, and the calls of its answer. Returns false after the last one."""
        data = json.dumps(self.body).encode()
        request = urllib.request.Request(self.url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            said, calls = self._said(json.loads(response.read()))
        self.conversation.extend(said)
        for identity, tool, command in calls:
            self.tools.append(tool)
            if command == END:
                return False
            code, output = run(self.root, command)
            texts = {"id": identity, "output": output, "code": str(code), "json": json.dumps(output)}
            self.conversation.append(filled(self.result, texts))
        return bool(calls)

    def _said(self, answer: dict[str, Any]) -> tuple[list[Any], list[tuple[str, str, str]]]:
        """The messages appended to the conversation, and their calls: id, tool, command."""
        if "output" in answer:
            calls = [item for item in answer["output"] if item["type"].endswith("_call")]
            return answer["output"], [(call["call_id"], call["name"], _command(call)) for call in calls]
        if "choices" in answer:
            message = answer["choices"][0]["message"]
            calls = message.get("tool_calls") or []
            made = [(call["id"], call["function"]) for call in calls]
            return [message], [(one, made["name"], json.loads(made["arguments"])["command"]) for one, made in made]
        blocks = [block for block in answer["content"] if block["type"] == "tool_use"]
        message = {"role": "assistant", "content": answer["content"]}
        return [message], [(block["id"], block["name"], block["input"]["command"]) for block in blocks]


def _command(item: dict[str, Any]) -> str:
    """The command of a call by Codex: an argument of a function, or of a function that a program calls."""
    if item["type"] == "function_call":
        return str(json.loads(item["arguments"])["cmd"])
    arguments, _ = json.JSONDecoder().raw_decode(item["input"].partition("tools.exec_command(")[2])
    return str(arguments["cmd"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_repairs_with_the_shell_of_a_program(name: str, tmp_path: Path) -> None:
    root = tmp_path / "program"
    root.mkdir()
    (root / "fits.py").write_text(SOURCE)
    (root / "test_fits.py").write_text(TEST)
    with LoopbackServer(completing(answer_to)) as server:
        program = Program(name, root, server.base_url)
        while program.turn():
            assert len(program.tools) < 9, "the conversation does not end"
        assert len(server.model_requests) == len(program.tools) + (name != "mini_swe_agent")
    assert (root / "fits.py").read_text() == SOURCE.replace("<", "<=")
    shells = {"claude_code": "Bash", "codex": "exec_command", "codex_code_mode": "exec"}
    assert set(program.tools) == {shells.get(name, "bash")}


# --- commands and results --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("printf 'a\\nb\\n\\n'; exit 3", 3, "a\nb"),
        ("cat <<'END' || exit 125\n it's ) `x` \"y\" $z\nEND\nfalse", 1, ' it\'s ) `x` "y" $z'),
        ("echo to stderr >&2", 0, "to stderr"),
        ("true", 0, ""),
    ],
)
def test_a_command_prints_its_own_exit_code(shell: str, command: str, code: int, output: str, tmp_path: Path) -> None:
    assert unwrapped(wrapped(command)) == command
    returned, printed = run(tmp_path, wrapped(command), shell)
    assert returned == code
    assert Observation.of(printed) == Observation(code, output, complete=True)
    header = f"Chunk ID: 1\nWall time: 1.0 seconds\nOutput:\n{printed}\n<system-reminder>x</system-reminder>"
    assert Observation.of(header) == Observation(code, output, complete=True)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_limits_its_own_output(shell: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -c \"print('first'); print('x' * 50_000); print('last')\""
    _, printed = run(tmp_path, wrapped(command), shell)
    assert len(printed) < 10_000, "mini-swe-agent would truncate it"
    observed = Observation.of(printed)
    assert (observed.code, observed.complete) == (0, False)
    assert observed.output.startswith("first\n")
    assert observed.output.endswith("\nlast")


def spec(name: str, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return ToolSpec(name=name, description="", parameters=schema)


STRING, WORDS, NUMBER = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "number"}


@pytest.mark.parametrize(
    ("tool", "is_right"),
    [
        (spec("shell", command=WORDS, timeout_ms=NUMBER), lambda given: given["timeout_ms"] == 120_000),
        (spec("local_shell", command=WORDS), lambda given: given["command"][:2] == ["bash", "-c"]),
        (spec("shell_command", command=STRING, login={"type": "boolean"}), lambda given: given["login"] is False),
        (spec("Bash", command=STRING, description=STRING), lambda given: bool(given["description"])),
    ],
)
def test_the_arguments_of_other_shells(tool: ToolSpec, is_right: Callable[[Any], bool]) -> None:
    request = Request(messages=(Message(role="user", content=INSTRUCTION),), tools=(tool,), max_tokens=500)
    (call,) = next_reply(request).calls
    assert call.tool == tool.name
    assert is_right(call.arguments)
    transcript = Transcript.of(Request(messages=(), tools=(tool,)))
    shell = shell_in(transcript)
    assert shell is not None
    assert unwrapped(shell.command(call.arguments)).startswith("printf %s '")
    assert shell.command({"command": 1}) == shell.command({"command": []}) == shell.command({}) == ""


def test_arguments_without_a_command() -> None:
    shell = shell_in(Transcript.of(Request(messages=(), tools=(spec("exec", input=STRING),))))
    assert shell is not None
    assert shell.command({"input": "text(1)"}) == "text(1)"
    assert shell.command({"input": "exec_command({1}), output"}) == ""


def test_it_waits_for_a_command_that_is_left_running() -> None:
    tools = (spec("exec_command", cmd=STRING), spec("write_stdin", session_id=NUMBER, chars=STRING))
    running = (
        "Chunk ID: 1\nWall time: 30.0 seconds\nProcess running with session ID 7\nOutput:\n[mechanic: output]\na\n"
    )
    ended = "Chunk ID: 2\nWall time: 1.0 seconds\nProcess exited with code 0\nOutput:\nb\n[mechanic: exit code 0]\n"
    calls = [
        ToolCall(tool="exec_command", arguments={"cmd": wrapped("sleep 31")}, id="1"),
        ToolCall(tool="write_stdin", arguments={"session_id": 7}, id="2"),
    ]
    messages = [Message(role="user", content=INSTRUCTION)]
    for call, result in zip(calls, (running, ended), strict=True):
        messages += [
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", tool_call_id=call.id, content=result),
        ]
    request = Request(messages=tuple(messages[:3]), tools=tools)
    (waiting,) = next_reply(request).calls
    assert (waiting.tool, waiting.arguments["session_id"]) == ("write_stdin", 7)
    request = attrs.evolve(request, messages=tuple(messages))
    assert [call.tool for call in next_reply(request).calls] == ["exec_command"]
    transcript = Transcript.of(request)
    shell = shell_in(transcript)
    assert shell is not None
    (found,) = from_shell(transcript, shell).exchanges
    assert (found.argument("command"), found.result) == ("sleep 31", "exit_code: 0\nstdout:\na\nb")


def test_the_instruction_is_found_among_other_texts() -> None:
    around = (
        "Use the command `git status` first. The command `make` is slow.\n\n# AGENTS.md\nRun the command `make test`."
    )
    assert command_in(f"{around}\n\n{INSTRUCTION}\n\n`python -m pytest` fails") == COMMAND
    assert command_in(f"{around}\n\nThe command `tox -q` fails in this repository. Fix it.") == "tox -q"
