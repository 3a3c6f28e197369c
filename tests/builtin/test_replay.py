"""Replays of whole runs: which attempt gets which answer, what is refused, and what is reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench_core import open_run
from tests.run.metering.doubles_models import MODELS

FLAGS = ("--suite", "mini", "--llm", "told", "--model", "m", "--allow-unisolated")

COUNTING = """
    import itertools, pathlib, attrs
    from agentbench_core import (AgentResult, Completion, Message, ModelFacts, Request, SubAgentRequest, ToolCall,
        Usage, hookimpl, option)

    @attrs.frozen(kw_only=True)
    class Options:
        commands: str = option("", help="commands to call the tool run with, with ;; between")

    def ask(context, *texts):
        said = tuple(Message(role="user", content=text) for text in texts)
        return context.llm.complete(Request(messages=said, tools=context.tools.specs))

    class Counts:
        '''Never says the same twice, and not what it used.'''
        def __init__(self, options):
            self.commands, self.number = options.commands.split(";;"), itertools.count()
        def preflight(self, expected):
            return ModelFacts(context_tokens=100_000, answer_tokens=777, usd_per_million_input=1.0,
                              usd_per_million_output=1.0)
        def close(self):
            pass
        def complete(self, request, call):
            number = next(self.number)
            command = self.commands[number % len(self.commands)]
            calls = (ToolCall(tool="run", arguments={"command": command}, id="c"),) if command else ()
            return Completion(message=Message(role="assistant", content=f"answer {number}", tool_calls=calls),
                              finish="tool_calls" if calls else "stop")

    class Family:
        '''Three helpers that ask the same, in the order that a file says.'''
        def solve(self, context):
            helpers = [context.delegate(SubAgentRequest(role="helper")) for _ in range(3)]
            heard = {}
            for index in map(int, pathlib.Path("order").read_text().split()):
                first = ask(helpers[index], "hi").message.content
                ask(helpers[index], "hi", first, f"part {index}")
                heard[index] = first
            return AgentResult(ended="gave_up", message=str(sorted(heard.items())))

    class Does:
        '''Does what it is told, and shows it.'''
        def solve(self, context):
            shown = ["go"]
            for _ in range(2):
                for call in ask(context, *shown).message.tool_calls:
                    shown.append(context.tools.call(call).fields["stdout"])
            return AgentResult()

    @attrs.frozen
    class NoOptions:
        pass

    @hookimpl
    def agentbench_register_agents(register):
        for cls in (Family, Does):
            register(cls.__name__.lower(), lambda options, cls=cls: cls(), NoOptions, summary="",
                     capabilities={"needs_llm"})

    @hookimpl
    def agentbench_register_llms(register):
        register("counts", Counts, Options, summary="")
"""


@pytest.fixture(autouse=True)
def _models(plugin: Callable[..., Path]) -> None:
    plugin("told", MODELS)
    plugin("counts", COUNTING)


def only_run(out: str = "artifacts/runs") -> Path:
    (directory,) = Path(out).iterdir()
    return directory


def ends(run: Path) -> list[tuple[str, int, str, bool]]:
    lines = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    return sorted((line["task_id"], line["repeat"], line["outcome"], line["scored"]) for line in lines)


def explanation(run: Path) -> str:
    return next(iter(open_run(run).explanations().values()))


def replay(agentbench: Any, run: Path, *more: str) -> Any:
    return agentbench("replay", str(run), "--allow-unisolated", "--out", "again", *more)


def test_one_recording_serves_several_variants(make_task: Any, agentbench: Any) -> None:
    """Each attempt of each variant gets every answer."""
    make_task()
    assert agentbench("run", "--agent", "asks", *FLAGS, "--repeats", "2").code == 0
    recorded = only_run()
    for name, steps in (("a", 11), ("b", 12)):
        Path(f"{name}.yaml").write_text(yaml.safe_dump({"agent": "asks", "limits": {"max_steps": steps}}))
    from_ = ("--llm", "replay", "--set", f"llm.from={recorded}")
    many = ("--variant", "a.yaml", "--variant", "b.yaml", "--repeats", "2", "--workers", "4", "--out", "again")
    done = agentbench("run", *FLAGS, *from_, *many)
    assert done.code == 0, done.err
    first, second = Path("again").iterdir()
    assert ends(first) == ends(second) == ends(recorded)


def test_sub_agents_with_equal_requests_get_their_own_answers(make_task: Any, agentbench: Any) -> None:
    """Sub-agents with equal requests get their own answers, in any order."""
    make_task()
    Path("order").write_text("0 1 2")
    agentbench("run", "--agent", "family", *FLAGS, "--llm", "counts")
    heard = explanation(only_run())
    assert heard == "[(0, 'answer 0'), (1, 'answer 2'), (2, 'answer 4')]; the agent made no scorable changes"
    Path("order").write_text("2 0 1")
    assert replay(agentbench, only_run()).code == 0
    assert explanation(only_run("again")) == heard


def test_agent_name_is_not_part_of_the_request(make_task: Any, agentbench: Any) -> None:
    """The name of the requesting agent is not part of the request."""
    make_task()
    Path("order").write_text("0 1 2")
    agentbench("run", "--agent", "family", *FLAGS, "--llm", "counts")
    Path(only_run(), "tasks/one/agent/conversation.jsonl").write_text(
        Path(only_run(), "tasks/one/agent/conversation.jsonl").read_text().replace('"helper-', '"aide-')
    )
    assert replay(agentbench, only_run()).code == 0


def test_recorded_model_facts_are_reused(make_task: Any, agentbench: Any) -> None:
    """Context window and answer limit are those recorded; unknown usage stays unknown."""
    make_task()
    agentbench("run", "--agent", "does", *FLAGS, "--llm", "counts")
    assert replay(agentbench, only_run()).code == 0
    then, now = (open_run(only_run(out)).manifest.model for out in ("artifacts/runs", "again"))
    assert then is not None
    assert now is not None
    assert (then.context_tokens, then.answer_tokens) == (now.context_tokens, now.answer_tokens) == (100_000, 777)
    record = json.loads((only_run("again") / "attempts.jsonl").read_text())
    assert (record["usage"]["llm_calls"], record["usage"]["cost_usd"]) == (2, 0.0)


def test_replay_miss_has_exit_code_1(make_task: Any, agentbench: Any) -> None:
    """All attempts are made nevertheless."""
    make_task("one")
    make_task("two")
    agentbench("run", "--agent", "asks", *FLAGS)
    Path("word").write_text("hello")
    done = replay(agentbench, only_run())
    assert done.code == 1
    assert "some attempts were not replayed (see `agentbench runs show` for the reasons): " in done.err
    assert "repeat 1, and 1 more" in done.err
    assert [end[2] for end in ends(only_run("again"))] == ["llm_error", "llm_error"]


def test_long_difference_is_truncated(make_task: Any, agentbench: Any) -> None:
    """Only the part near the first different line is compared, because large hostile output makes diffs slow."""
    make_task()
    Path("word").write_text("same\n" * 3000 + "old\n" + "x\ny\n" * 20_000)
    agentbench("run", "--agent", "asks", *FLAGS)
    Path("word").write_text("same\n" * 3000 + "new\n" + "y\nx\nx\n" * 20_000)
    assert replay(agentbench, only_run()).code == 1
    said = explanation(only_run("again")).splitlines()
    assert said[:3] == [
        "task one, repeat 1: no recorded request matches; the closest one differs as follows:",
        "--- recorded, message 1",
        "+++ now, message 1",
    ]
    assert "-  old" in said
    assert "+  new" in said
    assert said.count("   same") == 2
    assert len(said) < 70


def test_a_secret_in_a_recorded_call_is_refused(make_task: Any, agentbench: Any, monkeypatch: Any) -> None:
    """Otherwise the tool would be called with the placeholder."""
    monkeypatch.setenv("MY_SECRET", "hunter2hunter2")
    make_task()
    commands = "llm.commands=test $(cat k) = hunter2hunter2"
    agentbench("run", "--agent", "does", *FLAGS, "--llm", "counts", "--set", commands)
    assert "hunter2" not in (only_run() / "tasks/one/agent/conversation.jsonl").read_text()
    assert replay(agentbench, only_run()).code == 1
    assert "the recorded response contains a tool call with a secret" in explanation(only_run("again"))
    assert not (only_run("again") / "tasks/one/agent/tool_calls.jsonl").exists()


def test_run_resumed_with_changes_gives_a_warning(make_task: Any, agentbench: Any) -> None:
    """Attempts of a run that was resumed with changes have different settings."""
    make_task("one")
    make_task("two")
    plan = ("--set", "llm.plan=ok stop", "--workers", "1")
    agentbench("run", "--agent", "asks", *FLAGS, *plan)
    recorded = only_run()
    more = ("--set", "llm.plan=ok", "--set", "limits.max_steps=9")
    assert agentbench("run", "--resume", str(recorded), "--allow-unisolated", "--allow-changes", *more).code == 0
    done = replay(agentbench, recorded)
    assert f"{recorded.resolve()} was resumed with --allow-changes" in done.err
    assert "so some may fail to replay" in done.err


def test_missing_tasks_are_an_error(make_task: Any, agentbench: Any) -> None:
    """Missing tasks are an error unless ``--task`` selects others."""
    for name in ("one", "three", "two"):
        make_task(name)
    agentbench("run", "--agent", "asks", *FLAGS)
    shutil.rmtree("tasks/mini/two")
    refused = replay(agentbench, only_run())
    assert refused.code == 2
    assert "no longer exist: two" in refused.err
    assert replay(agentbench, only_run(), "--task", "t*").code == 2
    assert replay(agentbench, only_run(), "--task", "two").code == 2
    assert not Path("again").exists()
    done = replay(agentbench, only_run(), "--task", "o*", "--task", "three")
    assert done.code == 0, done.err
    assert [end[0] for end in ends(only_run("again"))] == ["one", "three"]
