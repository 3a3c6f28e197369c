"""The mechanic with only a shell, as in third-party agents; its commands are run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from agentbench_core import Message, Request, ToolCall, ToolSpec
from agentbench_mechanic.mechanic import next_reply
from agentbench_mechanic.shell import from_shell, shell_in
from agentbench_mechanic.transcript import Transcript

SOURCE = "def fits(width, text):\n    return len(text) < width\n"
TEST = "from fits import fits\n\n\ndef test_exactly():\n    assert fits(3, 'abc')\n    assert not fits(2, 'abc')\n"
COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider"
END = "echo DONE"
INSTRUCTION = f"Texts do not fit.\n\nThe command `{COMMAND}` prints:\n\n{{}}\n\nWhen you are done, run `{END}`."
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
SHELL = (ToolSpec(name="bash", description="", parameters=BASH),)


def ran(command: str, result: str) -> Request:
    """A conversation with one command."""
    call = ToolCall(tool="bash", arguments={"command": command}, id="a")
    messages = (
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", tool_call_id="a", content=result),
    )
    return Request(messages=messages, tools=SHELL)


def as_json(code: int, output: str) -> str:
    return json.dumps({"returncode": code, "output": output})


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A function that is off by one, inside another repository."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    root = tmp_path / "program"
    root.mkdir()
    (root / "fits.py").write_text(SOURCE)
    (root / "test_fits.py").write_text(TEST)
    return root


def translated(request: Request) -> Transcript:
    """The conversation of a request with its commands translated back."""
    transcript = Transcript.of(request)
    shell = shell_in(transcript)
    assert shell is not None
    return from_shell(transcript, shell)


class Shell:
    """A conversation with the mechanic; its commands are run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.messages = [Message(role="user", content=INSTRUCTION.format(self.run(COMMAND)[1]))]
        self.commands: list[str] = []

    @property
    def request(self) -> Request:
        return Request(messages=tuple(self.messages), tools=SHELL)

    def run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", f"exec 2>&1\n{command}"],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # installed plugins take most of the time
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "TMPDIR": str(self.root.parent),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
        return done.returncode, done.stdout

    def turn(self, refuse: Sequence[str] = ()) -> bool:
        """Run one command. Returns false after the last one. Commands that contain a word of ``refuse`` fail."""
        (call,) = next_reply(self.request).calls
        assert call.tool == "bash"
        command: str = call.arguments["command"]
        self.commands.append(command)
        assert len(self.commands) < 40, "the conversation does not end"
        code, output = (127, "not found") if any(word in command for word in refuse) else self.run(command)
        call = attrs.evolve(call, id=f"c{len(self.messages)}")
        self.messages += [
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", tool_call_id=call.id, content=as_json(code, output)),
        ]
        return command != END


@pytest.mark.release
def test_it_searches_and_applies_the_change_that_helps(program: Path) -> None:
    shell = Shell(program)
    while shell.turn():
        pass
    assert (program / "fits.py").read_text() == SOURCE.replace("<", "<=")
    tools = [one.tool for one in translated(shell.request).exchanges]
    assert tools[-2:] == ["apply_patch", "run"]
    assert shell.commands[-1] == END
    assert sorted(path.name for path in program.iterdir()) == ["fits.py", "test_fits.py"]


def test_if_the_search_cannot_run_it_reads_and_guesses(program: Path) -> None:
    odd = SOURCE.replace("    return", "    if width < 0:\n        return False\n    return")
    (program / "fits.py").write_text(odd)
    shell = Shell(program)
    while shell.turn(refuse=["mechanic.packed"]):
        pass
    assert (program / "fits.py").read_text() == odd.replace("(text) <", "(text) <=")
    transcript = translated(shell.request)
    assert sorted(transcript.listed_paths()) == ["fits.py", "test_fits.py"]
    assert transcript.read() == {"fits.py": odd}
    assert sum(one.tool == "apply_patch" for one in transcript.exchanges) > 1, "the first guess should be wrong"


def test_a_patch_that_does_not_apply_is_refused(program: Path) -> None:
    shell = Shell(program)
    while "git apply" not in "".join(shell.commands):
        if len(shell.commands) and "repair" in shell.commands[-1]:
            (program / "fits.py").write_text("# changed\n" * 9)
        shell.turn()
    patch = translated(shell.request).calls_of("apply_patch")[-1]
    assert not patch.ok
    assert "does not apply" in patch.result or "patch failed" in patch.result


def test_it_gives_up_with_the_command_that_ends(program: Path) -> None:
    (program / "test_fits.py").write_text("def test_never():\n    assert 1 == 2\n")
    shell = Shell(program)
    while shell.turn():
        pass
    assert (program / "fits.py").read_text() == SOURCE
    assert shell.commands[-1] == END


def test_truncated_output_is_not_used_as_a_file() -> None:
    cut = json.dumps({"returncode": 0, "output_head": "a = 1\n", "output_tail": "b = 2\n", "elided_chars": 9})
    transcript = translated(ran("cat -- a.py", cut))
    assert transcript.calls_of("read_file")[0].argument("path") == "a.py"
    assert transcript.read() == {}


@pytest.mark.parametrize("result", ["", "killed", '{"returncode": -1, "output": "x"}', '{"returncode": "0"}', "[1]"])
def test_a_command_that_did_not_end(result: str) -> None:
    (found,) = translated(ran("sleep 9", result)).exchanges
    assert (found.tool, found.ok) == ("run", False)


def test_which_tools_are_a_shell() -> None:
    def found(*tools: ToolSpec) -> str | None:
        shell = shell_in(Transcript.of(Request(messages=(), tools=tools)))
        return shell and shell.name

    def spec(name: str, *arguments: str) -> ToolSpec:
        properties = {argument: {"type": "string"} for argument in arguments}
        return ToolSpec(name=name, description="", parameters={"type": "object", "properties": properties})

    assert found(*SHELL) == "bash"
    assert found(spec("read_file", "path"), spec("Bash", "command", "description")) == "Bash"
    assert found(spec("exec_command", "cmd"), spec("apply_patch", "input")) == "exec_command"
    assert found(spec("functions.exec", "input")) == "functions.exec"
    assert found(spec("bash", "script"), spec("read_file", "path"), spec("exec", "text")) is None
    assert found(*SHELL, spec("apply_patch", "unified_diff")) is None, "AgentBench's own tools"


def test_without_a_command_that_ends_it_replies_with_text() -> None:
    reply = next_reply(Request(messages=(Message(role="user", content="Fix it."),), tools=SHELL, max_tokens=10))
    assert [call.tool for call in reply.calls] == ["bash"]
    ended = next_reply(attrs.evolve(ran(reply.calls[0].arguments["command"], as_json(0, "")), max_tokens=10))
    assert (ended.calls, bool(ended.text)) == ((), True)
