"""What becomes of mini-swe-agent's commands, answers and ends."""

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


def types(*commands: object) -> Answer:
    return calls(*(ToolCall(tool="bash", arguments={"command": command}) for command in commands))


def solve(attempt: ContextDouble, **options: Any) -> AgentResult:
    return mini_swe_agent(MiniSweAgentOptions(**options)).solve(attempt.context)


def heard(attempt: ContextDouble) -> list[Message]:
    """What the model read last."""
    assert attempt.model is not None
    return list(attempt.model.requests[-1].messages)


def observed(*commands: object, **options: Any) -> list[Mapping[str, Any]]:
    """What the model reads of commands, before it submits."""
    with make_context([types(*commands), types(SUBMIT)]) as attempt:
        assert solve(attempt, **options).ended == "completed"
        return [json.loads(message.content) for message in heard(attempt) if message.role == "tool"]


# --- commands ----------------------------------------------------------------------------------------------------


def test_a_command_is_the_tool_run() -> None:
    (found,) = observed("echo one; echo two >&2; echo three; exit 3")
    assert found == {"returncode": 3, "output": "one\ntwo\nthree\n"}


def test_several_commands_in_one_answer() -> None:
    found = observed("echo one", "echo two")
    assert [each["output"] for each in found] == ["one\n", "two\n"]


def test_variables_of_the_configuration() -> None:
    assert observed('echo "$PAGER, $TQDM_DISABLE"')[0]["output"] == "cat, 1\n"


def test_a_command_that_takes_too_long() -> None:
    (found,) = observed("echo begun; sleep 60", timeout_sec=0.5)
    assert (found["returncode"], found["output"]) == (-1, "begun\n")
    assert "timeout" in found["exception_info"]


def test_a_command_that_is_no_text() -> None:
    (found,) = observed(["ls", "-l"])
    assert "bad_arguments" in found["exception_info"]


def test_a_long_output() -> None:
    (found,) = observed("seq 1 9000")
    assert found["output_head"].startswith("1\n2\n")
    assert found["elided_chars"] > 0


# --- ends --------------------------------------------------------------------------------------------------------


def test_what_is_submitted_is_the_message() -> None:
    with make_context([types(f"{SUBMIT}; echo all is well")]) as attempt:
        assert solve(attempt).message == "all is well\n"


def test_submitting_needs_success() -> None:
    with make_context([types(f"{SUBMIT}; false"), types(SUBMIT)]) as attempt:
        assert solve(attempt).ended == "completed"
        assert len(attempt.trace.requests) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("I will not.", finish="refusal"), "the model refuses"),
        (says("", finish="context_overflow"), "no longer fits"),
        (says("Hm."), "again and again"),
    ],
)
def test_giving_up(answer: Answer, said: str) -> None:
    with make_context(lambda _: answer) as attempt:
        result = solve(attempt)
        assert result.ended == "gave_up"
        assert said in result.message


def test_limits_of_its_own_do_not_count(tmp_path: Path) -> None:
    path = written(tmp_path, "{{task}}")
    given = json.loads(path.read_text())
    given["agent"] |= {"step_limit": 1, "cost_limit": 0.01, "wall_time_limit_seconds": 1}
    path.write_text(json.dumps(given))
    dear = calls(ToolCall(tool="bash", arguments={"command": "sleep 1.1"}), usage=Usage(cost_usd=1.0))
    with make_context([dear, types("true"), types(SUBMIT)]) as attempt:
        assert solve(attempt, config=str(path)).ended == "completed"


def test_a_budget_that_is_used_up() -> None:
    """Records know the prompt all the same."""
    versions: list[str] = []
    with make_context(lambda _: types("true"), max_steps=3) as attempt:
        agent = mini_swe_agent(MiniSweAgentOptions())
        with pytest.raises(BudgetExceeded):
            agent.solve(attrs.evolve(attempt.context, report_prompt_version=versions.append))
    assert [version.partition("-2.")[0] for version in versions] == ["mini-swe-agent"]


def test_without_a_way_into_the_sandbox() -> None:
    with make_context([], tools=[]) as attempt:
        assert solve(attempt).ended == "tool_error"
        assert attempt.trace.exchanged == []


# --- the model ---------------------------------------------------------------------------------------------------


def test_it_has_one_tool_and_mini_swe_agents_own_words() -> None:
    with make_context([types(SUBMIT)]) as attempt:
        version = solve(attempt).prompt_version
        (request,) = attempt.trace.requests
        assert [tool.name for tool in request.tools] == ["bash"]
        system, task = request.messages
        assert system.content == "You are a helpful assistant that can interact with a computer."
        assert task.content.startswith(f"Please solve this issue: {attempt.context.instruction.splitlines()[0]}")
        assert version.startswith("mini-swe-agent-2.")


def test_a_truncated_answer_is_told_so() -> None:
    with make_context([says("The cause of", finish="length"), types(SUBMIT)]) as attempt:
        assert solve(attempt).ended == "completed"
        assert "output token limit" in heard(attempt)[-1].content


def test_answers_go_back_as_they_came() -> None:
    """With what a provider wants to see again."""
    thinking = Message(
        role="assistant",
        content="I look.",
        tool_calls=(ToolCall(tool="bash", arguments={"command": "ls"}, id="a"),),
        opaque={"reasoning": "sealed"},
    )
    with make_context([Completion(message=thinking, finish="tool_calls"), types(SUBMIT)]) as attempt:
        solve(attempt)
        assert thinking in heard(attempt)


# --- the host ----------------------------------------------------------------------------------------------------


def test_no_variable_of_the_host_gets_into_a_prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """mini-swe-agent's own environments would offer all of them."""
    monkeypatch.setenv("SOME_KEY", "a-secret")
    asking = written(tmp_path, "{{system}} {{machine}} {{SOME_KEY | default('nothing')}} {{task}}")
    with make_context([types(SUBMIT)]) as attempt:
        solve(attempt, config=str(asking))
        told = heard(attempt)[1].content
        uname = subprocess.run(["uname", "-sm"], capture_output=True, text=True, check=True).stdout.strip()
        assert told.startswith(f"{uname} nothing ")
        assert [call.tool for call in attempt.trace.tool_calls] == ["run", "run"], "it is asked inside"


def test_importing_it_changes_nothing(tmp_path: Path) -> None:
    """No banner, no directory in the user's home, no variable from a file there; and listing it imports nothing."""
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
    """A configuration of one's own."""
    templates = {"observation_template": "{{ output.output }}", "format_error_template": "{{ error }}"}
    agent = {"system_template": "Repair.", "instance_template": instance}
    path = directory / "mine.yaml"
    path.write_text(json.dumps({"agent": agent, "model": {**templates, **model}}))
    return path


def test_ones_own_configuration(tmp_path: Path) -> None:
    versions = set()
    for words in ("Mend it: {{task}}", "Mend it, please: {{task}}"):
        with make_context([types("echo seen"), types(SUBMIT)]) as attempt:
            versions.add(solve(attempt, config=str(written(tmp_path, words))).prompt_version)
            assert heard(attempt)[1].content.startswith(words.partition("{")[0])
            assert heard(attempt)[-1].content.strip() == "seen"
    assert len(versions) == 2


def test_configurations_that_are_of_no_use(tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished.yaml"
    unfinished.write_text(json.dumps({"model": {"observation_template": "", "format_error_template": ""}}))
    for name, said in {
        "nano.yaml": "mini.yaml",
        "default.yaml": "into their words",
        str(unfinished): "instance_template",
        str(written(tmp_path, "", action_regex="x")): "into their words",
    }.items():
        with pytest.raises(InputError, match=said):
            mini_swe_agent(MiniSweAgentOptions(config=name))
