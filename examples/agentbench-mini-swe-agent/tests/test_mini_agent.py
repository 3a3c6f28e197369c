"""The adapters for mini-swe-agent: commands, responses, and the end of an attempt."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import AgentResult, BudgetExceeded, Completion, InputError, Message, ToolCall, Usage
from agentbench_mini_swe_agent.options import MiniSweAgentOptions
from agentbench_mini_swe_agent.plugin import mini_swe_agent
from agentbench_testing import Answer, ContextDouble, calls, make_context, says

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def runs(*commands: object) -> Answer:
    return calls(*(ToolCall(tool="bash", arguments={"command": command}) for command in commands))


def solve(attempt: ContextDouble, **options: Any) -> AgentResult:
    return mini_swe_agent(MiniSweAgentOptions(**options)).solve(attempt.context)


def last_messages(attempt: ContextDouble) -> list[Message]:
    """The messages of the last request."""
    assert attempt.model is not None
    return list(attempt.model.requests[-1].messages)


def observed(*commands: object, **options: Any) -> list[Mapping[str, Any]]:
    """The results of commands as shown to the model, before it submits."""
    with make_context([runs(*commands), runs(SUBMIT)]) as attempt:
        assert solve(attempt, **options).ended == "completed"
        return [json.loads(message.content) for message in last_messages(attempt) if message.role == "tool"]


# --- commands ----------------------------------------------------------------------------------------------------


def test_a_command_is_the_tool_run() -> None:
    (result,) = observed("echo one; echo two >&2; echo three; exit 3")
    assert result == {"returncode": 3, "output": "one\ntwo\nthree\n"}


def test_several_commands_in_one_response() -> None:
    results = observed("echo one", "echo two")
    assert [each["output"] for each in results] == ["one\n", "two\n"]


def test_variables_of_the_configuration() -> None:
    assert observed('echo "$PAGER, $TQDM_DISABLE"')[0]["output"] == "cat, 1\n"


def test_a_command_that_takes_too_long() -> None:
    (result,) = observed("echo begun; sleep 60", timeout_sec=0.5)
    assert (result["returncode"], result["output"]) == (-1, "begun\n")
    assert "timeout" in result["exception_info"]


def test_a_command_that_is_not_text() -> None:
    (result,) = observed(["ls", "-l"])
    assert "bad_arguments" in result["exception_info"]


def test_a_long_output() -> None:
    (result,) = observed("seq 1 9000")
    assert result["output_head"].startswith("1\n2\n")
    assert result["elided_chars"] > 0


# --- ends --------------------------------------------------------------------------------------------------------


def test_the_submission_is_the_message() -> None:
    with make_context([runs(f"{SUBMIT}; echo all is well")]) as attempt:
        assert solve(attempt).message == "all is well\n"


def test_submitting_needs_success() -> None:
    with make_context([runs(f"{SUBMIT}; false"), runs(SUBMIT)]) as attempt:
        assert solve(attempt).ended == "completed"
        assert len(attempt.trace.requests) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (says("I will not.", finish="refusal"), "the model refused"),
        (says("", finish="context_overflow"), "exceeds the model's context window"),
        (says("Hm."), "repeatedly"),
    ],
)
def test_giving_up(answer: Answer, message: str) -> None:
    with make_context(lambda _: answer) as attempt:
        result = solve(attempt)
        assert result.ended == "gave_up"
        assert message in result.message


def test_its_own_limits_are_disabled(tmp_path: Path) -> None:
    path = written(tmp_path, "{{task}}")
    data = json.loads(path.read_text())
    data["agent"] |= {"step_limit": 1, "cost_limit": 0.01, "wall_time_limit_seconds": 1}
    path.write_text(json.dumps(data))
    dear = calls(ToolCall(tool="bash", arguments={"command": "sleep 1.1"}), usage=Usage(cost_usd=1.0))
    with make_context([dear, runs("true"), runs(SUBMIT)]) as attempt:
        assert solve(attempt, config=str(path)).ended == "completed"


def test_a_budget_that_is_used_up() -> None:
    """The record has the prompt version."""
    versions: list[str] = []
    with make_context(lambda _: runs("true"), max_steps=3) as attempt:
        agent = mini_swe_agent(MiniSweAgentOptions())
        with pytest.raises(BudgetExceeded):
            agent.solve(attrs.evolve(attempt.context, report_prompt_version=versions.append))
    assert [version.partition("-2.")[0] for version in versions] == ["mini-swe-agent"]


def test_without_the_tool_run() -> None:
    with make_context([], tools=[]) as attempt:
        assert solve(attempt).ended == "tool_error"
        assert attempt.trace.exchanged == []


# --- the model ---------------------------------------------------------------------------------------------------


def test_it_has_one_tool_and_mini_swe_agents_own_prompts() -> None:
    with make_context([runs(SUBMIT)]) as attempt:
        version = solve(attempt).prompt_version
        (request,) = attempt.trace.requests
        assert [tool.name for tool in request.tools] == ["bash"]
        system, task = request.messages
        assert system.content == "You are a helpful assistant that can interact with a computer."
        assert task.content.startswith(f"Please solve this issue: {attempt.context.instruction.splitlines()[0]}")
        assert version.startswith("mini-swe-agent-2.")


def test_a_truncated_response_is_reported_to_the_model() -> None:
    with make_context([says("The cause of", finish="length"), runs(SUBMIT)]) as attempt:
        assert solve(attempt).ended == "completed"
        assert "output token limit" in last_messages(attempt)[-1].content


def test_responses_are_sent_back_unchanged() -> None:
    """With opaque data of the provider."""
    thinking = Message(
        role="assistant",
        content="I look.",
        tool_calls=(ToolCall(tool="bash", arguments={"command": "ls"}, id="a"),),
        opaque={"reasoning": "sealed"},
    )
    with make_context([Completion(message=thinking, finish="tool_calls"), runs(SUBMIT)]) as attempt:
        solve(attempt)
        assert thinking in last_messages(attempt)


# --- the host ----------------------------------------------------------------------------------------------------


def test_variables_of_the_host_are_not_in_prompts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """mini-swe-agent's own environments offer all of them."""
    monkeypatch.setenv("SOME_KEY", "a-secret")
    config = written(tmp_path, "{{system}} {{machine}} {{SOME_KEY | default('nothing')}} {{task}}")
    with make_context([runs(SUBMIT)]) as attempt:
        solve(attempt, config=str(config))
        content = last_messages(attempt)[1].content
        uname = subprocess.run(["uname", "-sm"], capture_output=True, text=True, check=True).stdout.strip()
        assert content.startswith(f"{uname} nothing ")
        assert [call.tool for call in attempt.trace.tool_calls] == ["run", "run"], "uname runs in the sandbox"


def test_the_import_has_no_side_effects(tmp_path: Path) -> None:
    """No banner, no directory in the user's home, no variables from a file; and listing it does not import it."""
    (tmp_path / ".config/mini-swe-agent").mkdir(parents=True)
    (tmp_path / ".config/mini-swe-agent/.env").write_text("SOME_KEY=loaded\n")
    program = (
        "import os, sys\n"
        "from agentbench_mini_swe_agent import plugin\n"
        "assert 'minisweagent' not in sys.modules\n"
        "before = dict(os.environ)\n"
        "plugin.mini_swe_agent(plugin.MiniSweAgentOptions())\n"
        "assert 'minisweagent' in sys.modules and 'litellm' not in sys.modules\n"
        "assert dict(os.environ) == before\n"
    )
    variables = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path)), "MSWEA_SILENT_STARTUP": ""}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".config", ".env", "mini-swe-agent"]


# --- the configuration -------------------------------------------------------------------------------------------


def written(directory: Path, instance: str, **model: str) -> Path:
    """A custom configuration."""
    templates = {"observation_template": "{{ output.output }}", "format_error_template": "{{ error }}"}
    agent = {"system_template": "Fix it.", "instance_template": instance}
    path = directory / "mine.yaml"
    path.write_text(json.dumps({"agent": agent, "model": {**templates, **model}}))
    return path


def test_a_custom_configuration(tmp_path: Path) -> None:
    versions = set()
    for template in ("Fix it: {{task}}", "Please fix it: {{task}}"):
        with make_context([runs("echo seen"), runs(SUBMIT)]) as attempt:
            versions.add(solve(attempt, config=str(written(tmp_path, template))).prompt_version)
            assert last_messages(attempt)[1].content.startswith(template.partition("{")[0])
            assert last_messages(attempt)[-1].content.strip() == "seen"
    assert len(versions) == 2


def test_unsupported_configurations(tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished.yaml"
    unfinished.write_text(json.dumps({"model": {"observation_template": "", "format_error_template": ""}}))
    for name, message in {
        "nano.yaml": "mini.yaml",
        "default.yaml": "commands as text",
        str(unfinished): "instance_template",
        str(written(tmp_path, "", action_regex="x")): "commands as text",
    }.items():
        with pytest.raises(InputError, match=message):
            mini_swe_agent(MiniSweAgentOptions(config=name))
