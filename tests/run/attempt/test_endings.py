"""Every way in which an attempt can end has its failure code; all are produced in real runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_core import open_run, shorten
from agentbench_core.cli.progress.lines import PlainProgress
from agentbench_core.run.attempt import agent as agent_phase
from agentbench_testing.doubles.sample_program import FIX

AGENTS = """
    import sys, time
    import attrs
    from agentbench_core import AgentResult, AttemptStop, Interrupted, LLMError, Message, Request, SandboxError
    from agentbench_core import ToolCall, ToolResult, ToolSpec, hookimpl
    from agentbench_core.values.events import AgentTurnStarted, RunFinished, Warning_

    @attrs.frozen
    class Options:
        pass

    def call(context, tool, **arguments):
        return context.tools.call(ToolCall(tool=tool, arguments=arguments))

    def raises(context): raise ValueError("a bug")
    def exits(context): sys.exit(0)
    def sleeps(context): call(context, "run", command="sleep 600")
    def swallows(context):
        while True:
            try:
                call(context, "run", command="sleep 600")
            except BaseException:
                return AgentResult()
    def loops(context):
        end = time.monotonic() + 4  # for ever, as far as the attempt can tell
        while time.monotonic() < end: pass
    def greedy(context):
        while True: call(context, "list_files", root="", glob=None)
    def fixes_then_greedy(context):
        call(context, "run", command="echo fixed > app.txt")
        greedy(context)
    def fixes_then_raises(context):
        call(context, "run", command="echo fixed > app.txt")
        raise ValueError("a bug")
    def wrong(context):
        call(context, "run", command="echo wrong > app.txt")
        return AgentResult()
    def returns_none(context): call(context, "list_files", root="", glob=None)
    def claims_sandbox(context): raise SandboxError("not me")
    def claims_llm(context): raise LLMError("not me")
    def claims_interrupt(context): raise Interrupted("not me")
    def odd_message(context): return AgentResult(message=None)
    def odd_version(context): return AgentResult(prompt_version=12)
    def odd_call(context): call(context, None)
    def half_emoji(context): return AgentResult(ended="gave_up", message="\\ud83d")
    def odd_words(context):
        class Odd(Exception):
            def __str__(self): raise ValueError("no words")
        raise Odd
    def ends_deadline(context): context.deadline.end(Interrupted("not me"))
    def extends_deadline(context): context.deadline.within(5).extend(1000)
    def forges_events(context):
        context.log.emit(RunFinished(status="completed", attempts=1))
    def odd_event(context):
        context.log.emit(Warning_(message={"type": "task_finished"}))
    def odd_turn(context):
        context.log.emit(AgentTurnStarted(turn=float("nan")))
    def says_task_finished(context):
        context.log.emit(Warning_(message='{"type":"task_finished","attempt_id":"x"}'))
        return AgentResult(message='"type":"task_finished"')
    def bad_tools(context):
        results = [call(context, name) for name in ("gives_nothing", "gives_bytes")]
        assert [result.error_type for result in results] == ["internal_error"] * 2, results
        call(context, "list_files", root=float("nan"), glob=object())
        call(context, "run", command="echo fixed > app.txt; echo x > kept.txt; chmod 0 kept.txt; truncate -s 300M big")
        return AgentResult()
    def leaves_thread(context):
        import threading
        at_work = threading.Event()
        def go_on():
            try:
                while True:
                    call(context, "run", command="echo later > app.txt; sleep 0.01")
                    at_work.set()
            except AttemptStop:
                pass
        threading.Thread(target=go_on, daemon=True).start()
        assert at_work.wait(60)
        return AgentResult()
    def gives_up(context): return AgentResult(ended="gave_up", message="too hard")
    def names_tools(context):
        names = " ".join(spec.name for spec in context.tools.specs)
        return AgentResult(ended="gave_up", message=f"offered: {names}")
    def tool_error(context):
        result = call(context, "read_file", path="../../etc/passwd")
        assert result.error_type == "path_escape", result
        return AgentResult(ended="tool_error", message=result.error_message)
    def asks(context):
        completion = context.llm.complete(Request(messages=(Message(role="user", content="hi"),)), context.deadline)
        call(context, "run", command=completion.message.content)
        return AgentResult(prompt_version="v1")

    @hookimpl
    def agentbench_register_tools(register):
        for name, given in (("gives_nothing", None), ("gives_bytes", ToolResult.success(data=b"x"))):
            tool = type("Tool", (), {"spec": ToolSpec(name=name, description="", parameters={}),
                                     "call": staticmethod(lambda arguments, context, given=given: given)})
            register(name, lambda options, tool=tool: tool(), Options, summary="")

    @hookimpl
    def agentbench_register_agents(register):
        for solve in (raises, exits, sleeps, swallows, loops, greedy, fixes_then_greedy, fixes_then_raises, wrong,
                      returns_none, leaves_thread, claims_sandbox, claims_llm, claims_interrupt,
                      forges_events, odd_event, odd_turn, says_task_finished, bad_tools,
                      odd_message, odd_version, odd_call, half_emoji,
                      odd_words, ends_deadline, extends_deadline, gives_up, names_tools, tool_error):
            agent = type("Agent", (), {"solve": staticmethod(solve)})
            register(solve.__name__, lambda options, agent=agent: agent(), Options, summary="")
        asking = type("Agent", (), {"solve": staticmethod(asks)})
        register("asks", lambda options: asking(), Options, summary="", capabilities={"needs_llm"})
"""

LLM = """
    import attrs
    from agentbench_core import Completion, LLMError, Message, ModelFacts, Usage, hookimpl, option

    @attrs.frozen(kw_only=True)
    class Options:
        down: bool = option(False, help="fail every call")
        bug: bool = option(False, help="raise something else")
        none: bool = option(False, help="give nothing")
        odd: bool = option(False, help="bill what is no number")

    @attrs.frozen
    class Canned:
        options: Options
        def preflight(self, expected):
            return ModelFacts()
        def close(self):
            pass
        def complete(self, request, call):
            if self.options.down:
                raise LLMError("the provider is down")
            if self.options.bug:
                raise KeyError("choices")
            if self.options.none:
                return None
            if self.options.odd:
                Usage(cost_usd=float("nan"))
            assert request.model == "canned-1" and request.temperature == 0.5
            return Completion(message=Message(role="assistant", content="echo fixed > app.txt"),
                              usage=Usage(prompt_tokens=10, completion_tokens=5, cost_usd=0.01), model="canned-1")

    @hookimpl
    def agentbench_register_llms(register):
        register("canned", Canned, Options, summary="says one thing")
"""

ODD = ("odd_message", "odd_version", "odd_call", "odd_words", "ends_deadline", "extends_deadline")

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(make_task: Any, agentbench: Any, plugin: Any, records: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run an agent on a task and return the record."""
    monkeypatch.setattr(agent_phase, "GRACE_SEC", 0.3)
    plugin("agents", AGENTS)
    plugin("canned", LLM)

    def one(agent: str, /, *arguments: str, **sections: Any) -> dict[str, Any]:
        make_task(**sections)
        done = agentbench("run", "--suite", "mini", "--agent", agent, *arguments)
        assert done.code == 0, done.err
        (record,) = records()
        return dict(record)

    return one


def ending(record: dict[str, Any]) -> tuple[str, bool, bool, str | None]:
    result = record["result"]
    return record["outcome"], record["scored"], result["passed"], result["failure_reason"]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("raises", ("agent_error", True, False, "AGENT_ERROR")),
        ("exits", ("agent_error", True, False, "AGENT_ERROR")),
        ("claims_sandbox", ("agent_error", True, False, "AGENT_ERROR")),
        ("claims_llm", ("agent_error", True, False, "AGENT_ERROR")),
        ("claims_interrupt", ("agent_error", True, False, "AGENT_ERROR")),
        ("forges_events", ("agent_error", True, False, "AGENT_ERROR")),
        ("odd_event", ("agent_error", True, False, "AGENT_ERROR")),
        ("odd_turn", ("agent_error", True, False, "AGENT_ERROR")),
        ("says_task_finished", ("completed", True, False, "AGENT_GAVE_UP")),
        *((odd, ("agent_error", True, False, "AGENT_ERROR")) for odd in ODD),
        ("half_emoji", ("gave_up", True, False, "AGENT_GAVE_UP")),
        ("returns_none", ("agent_error", True, False, "AGENT_ERROR")),
        ("greedy", ("out_of_steps", True, False, "AGENT_GAVE_UP")),
        ("fixes_then_greedy", ("out_of_steps", True, True, None)),
        ("fixes_then_raises", ("agent_error", True, True, None)),
        ("wrong", ("completed", True, False, "TESTS_FAILED")),
        ("gives_up", ("gave_up", True, False, "AGENT_GAVE_UP")),
        ("tool_error", ("tool_error", True, False, "TOOL_ERROR")),
        ("idle", ("completed", True, False, "AGENT_GAVE_UP")),
    ],
)
def test_faults_of_the_agent_are_scored(run: Run, agent: str, expected: tuple[str, bool, bool, str | None]) -> None:
    """The attempt is always scored, and a fix counts however the agent ended."""
    assert ending(run(agent)) == expected
    (directory,) = Path("artifacts/runs").iterdir()
    assert len(list(open_run(directory).records())) == 1
    assert list(open_run(directory).events())
    assert (directory / "report_summary.md").exists()


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("raises", "the agent raised ValueError: a bug"),
        ("exits", "the agent raised SystemExit: 0"),
        ("greedy", "all 30 steps are used up; the agent made no scorable changes"),
        ("returns_none", "the agent returned None, which is not an AgentResult"),
        ("gives_up", "too hard; the agent made no scorable changes"),
    ],
)
def test_reason_for_the_end_is_shown_in_all_outputs(run: Run, agentbench: Any, agent: str, words: str) -> None:
    """The summary, ``runs show`` and the last event have the reason; a traceback is saved."""
    run(agent)
    (directory,) = Path("artifacts/runs").iterdir()
    assert words in (directory / "report_summary.md").read_text()
    assert words in agentbench("runs", "show", str(directory)).out
    (end,) = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines() if "task_f" in line]
    assert words in end["explanation"]
    traceback = directory / "tasks/one/agent/traceback.txt"
    assert traceback.exists() == (agent in ("raises", "exits"))
    assert agent != "raises" or 'raise ValueError("a bug")' in traceback.read_text()


@pytest.mark.parametrize("agent", ["sleeps", "swallows", "loops"])
def test_exceeded_time_is_a_timeout(run: Run, agent: str) -> None:
    """In a tool, swallowed by the agent, or in a Python loop that cannot be stopped."""
    started = time.monotonic()
    assert ending(run(agent, "--set", "limits.timeout_sec=1")) == ("timed_out", True, False, "TIMEOUT")
    assert time.monotonic() - started < 50  # and not the time that it sleeps


def test_thread_left_by_an_agent_cannot_make_calls(run: Run) -> None:
    """A thread that it left behind can make no more calls, so only earlier changes count."""
    record = run("leaves_thread", "--max-steps", "1000")
    assert ending(record) == ("completed", True, False, "TESTS_FAILED")
    (events,) = Path("artifacts").glob("runs/*/events.jsonl")
    types = [json.loads(line)["type"] for line in events.read_text().splitlines()]
    assert "tool_call_started" not in types[types.index("tests_started") :]
    assert types[-2:] == ["task_finished", "run_finished"]


def test_invalid_output_of_tools_and_agents_keeps_the_record(run: Run) -> None:
    """An invalid tool result is an error for the agent; odd arguments and files are saved as far as possible."""
    record = run("bad_tools", "--set", "tools=[run, list_files, gives_nothing, gives_bytes]")
    assert ending(record) == ("completed", True, True, None)
    (state,) = Path("artifacts").glob("runs/*/tasks/one/workspace.json")
    assert any(line.startswith("too large (314572800 bytes") for line in json.loads(state.read_text())["odd"])
    assert (state.parent / "repo/kept.txt").read_text() == "x\n"
    assert not (state.parent / "repo/big").exists()


def test_a_task_that_forbids_edits(run: Run) -> None:
    """``apply_patch`` is missing, and other changes are dropped."""
    record = run("wrong", agent={"allow_file_write": False})
    assert ending(record) == ("completed", True, False, "AGENT_GAVE_UP")
    assert record["labels"] in ([], [{"name": "dropped_not_editable", "evidence": "app.txt"}])  # root can write to it


def test_tools_of_a_task_that_forbids_edits(run: Run) -> None:
    """Only tools that read or run are offered; tools without a declared effect may edit."""
    run("names_tools", "--set", "tools=[apply_patch, gives_bytes, read_file, run]", agent={"allow_file_write": False})
    (events,) = Path("artifacts").glob("runs/*/events.jsonl")
    assert '"offered: read_file run; ' in events.read_text()


def test_tests_that_hang_are_a_timeout(run: Run) -> None:
    """The passing command hangs because of the agent's change."""
    record = run(
        "wrong",
        "--set",
        "limits.timeout_sec=2",
        validation={"passing_command": "grep -q fixed app.txt || sleep 60"},
    )
    assert ending(record) == ("completed", True, False, "TIMEOUT")


def test_failed_setup_is_not_scored(run: Run) -> None:
    """Its output is saved."""
    record = run("scripted", setup={"commands": ["echo trouble >&2; exit 3"], "capture": []})
    assert ending(record) == ("setup_failed", False, False, "SETUP_FAILED")
    (log,) = Path("artifacts").glob("runs/*/tasks/one/logs/setup_stderr.txt")
    assert "trouble" in log.read_text()


def test_every_attempt_has_its_setup_and_baseline(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """In every run, they are events of each attempt, marked as cached if they ran for another one."""
    make_task(setup={"commands": ["echo ready; echo careful >&2"], "capture": []})
    Path("idle.yaml").write_text("agent: idle\n")
    arguments = ("--suite", "mini", "--variant", "scripted", "--variant", "idle.yaml", "--repeats", "2")
    assert agentbench("run", *arguments).code in (0, 1)
    kinds = ("setup_command_started", "setup_command_finished", "baseline_started", "baseline_finished")
    told: list[bool] = []
    runs = list(Path("artifacts/runs").iterdir())
    assert len(runs) == 2
    for run in runs:
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        for attempt in {event["attempt_id"] for event in events} - {None}:
            mine = [event for event in events if event["attempt_id"] == attempt and event["type"] in kinds]
            assert [event["type"] for event in mine] == list(kinds)
            assert mine[1]["exit_code"] == 0
            told += [event["cached"] for event in mine]
        for logs in run.glob("tasks/*/logs"):
            assert "ready" in (logs / "setup_stdout.txt").read_text()
            assert "careful" in (logs / "setup_stderr.txt").read_text()
    assert sorted(told) == [False] * 4 + [True] * 12


def test_failed_setup_keeps_its_facts(run: Run) -> None:
    """The sandbox's facts about the environment are saved nevertheless."""
    run("scripted", setup={"commands": ["exit 3"], "capture": []})
    (facts,) = Path("artifacts").glob("runs/*/tasks/one/meta/environment.json")
    assert json.loads(facts.read_text())["facts"]["os"]


def test_a_repository_that_has_changed_is_not_scored(run: Run, make_task: Any) -> None:
    """Only the pinned commit is evaluated, and the error names it."""
    record = run("scripted", repo={"commit": "0" * 40})
    assert ending(record) == ("setup_failed", False, False, "SETUP_FAILED")
    (events,) = Path("artifacts").glob("runs/*/events.jsonl")
    (error,) = [json.loads(line) for line in events.read_text().splitlines() if "infrastructure_error" in line]
    assert "0" * 40 in error["message"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("surely-not-there", "surely-not-there"),
        ("printf 'all:\\n\\tsurely-not-there\\n' | make -f -", "surely-not-there"),
        ("python -S -m pytest -q", "No module named pytest"),
    ],
)
def test_missing_failing_command_is_not_scored(run: Run, command: str, said: str) -> None:
    """It fails for another reason than the task's bug, which is found before any scorer."""
    record = run("scripted", validation={"failing_command": command})
    assert ending(record) == ("setup_failed", False, False, "SETUP_FAILED")
    assert record["usage"]["steps"] == 0
    (events,) = Path("artifacts").glob("runs/*/events.jsonl")
    assert said in events.read_text()


NEEDS = "import {module}\nfrom adding import {name}\n\ndef test_one():\n    assert {name}(2, 3) == 5\n"
ONE = "checks/test_adding.py::test_one"


@pytest.mark.parametrize(
    ("test", "validation", "expected", "said"),
    [
        pytest.param(
            NEEDS.format(module="sys", name="add"),
            {"passing_command": "bare/bin/python -m pytest -q checks"},
            "SETUP_FAILED",
            "pytest could not be started",
            id="no pytest for the passing command",
        ),
        pytest.param(
            NEEDS.format(module="sys", name="add"),
            {"passing_command": "MODE=all surely-not-there && true"},
            "SETUP_FAILED",
            "the passing command cannot be started",
            id="no passing command",
        ),
        pytest.param(
            NEEDS.format(module="surely_not_there", name="add"),
            {"fail_to_pass": [ONE]},
            "SETUP_FAILED",
            "No module named 'surely_not_there'",
            id="a dependency missing that the named test needs",
        ),
        pytest.param(
            NEEDS.format(module="sys", name="add").replace("2, 3", "5, 0"),
            {"fail_to_pass": [ONE]},
            "BASELINE_NOT_FAILING",
            f"pass on the unchanged repository: {ONE}",
            id="the named test passes, and something else fails",
        ),
        pytest.param(
            NEEDS.format(module="sys", name="plus"), {"fail_to_pass": [ONE]}, None, "", id="a name that the fix adds"
        ),
    ],
)
@pytest.mark.parametrize("scorer", ["tests", "plain"])
def test_a_baseline_that_fails_for_another_reason(
    run: Run, test: str, validation: dict[str, Any], expected: str | None, said: str, scorer: str
) -> None:
    """The agent is not started; but a baseline may fail because of a name that only the fix adds."""
    bare = ["python -m venv --without-pip bare"] if "bare" in str(validation) else []
    record = run(
        "scripted",
        *("--set", f"scorer={scorer}"),
        python=True,
        hidden={"test_adding.py": test},
        patch=FIX.replace("+1,3", "+1,6") + "+\n+\n+plus = add\n",
        setup={"commands": bare, "capture": []},
        validation={"failing_command": "python -c 'from adding import add; assert add(2, 3) == 5'", **validation},
    )
    assert record["result"]["failure_reason"] == expected
    assert record["scored"] == (expected is None)
    (events,) = Path("artifacts").glob("runs/*/events.jsonl")
    assert said in events.read_text()
    assert ("agent_turn_started" in events.read_text() or record["usage"]["steps"] > 0) == (expected is None)


def test_program_broken_by_the_agent_is_scored(run: Run) -> None:
    """Exit code 127 in the passing command is not blamed on the environment."""
    record = run(
        "wrong",
        files={"app.txt": "exit 1\n"},
        validation={"failing_command": "sh app.txt", "passing_command": "sh ./app.txt"},
    )
    assert ending(record) == ("completed", True, False, "TESTS_FAILED")
    assert record["result"]["exit_code"] == 127


def test_a_failing_command_that_hangs_is_not_scored(run: Run) -> None:
    """It is unknown whether it fails."""
    record = run("scripted", environment={"timeout_sec": 1}, validation={"failing_command": "sleep 30"})
    assert ending(record) == ("setup_failed", False, False, "SETUP_FAILED")


def test_a_task_that_does_not_fail_is_not_scored(run: Run) -> None:
    """The task is invalid, and the agent is not started."""
    record = run("scripted", validation={"failing_command": "true"})
    assert ending(record) == ("invalid_task", False, False, "BASELINE_NOT_FAILING")
    assert record["usage"]["steps"] == 0


@pytest.mark.parametrize("trouble", ["down", "bug", "none", "odd"])
def test_a_model_that_is_down_is_not_scored(run: Run, trouble: str) -> None:
    """Failures of the provider or of its plugin are not the agent's."""
    arguments = ("--llm", "canned", "--model", "canned-1", "--allow-unisolated", "--set", f"llm.{trouble}=true")
    assert ending(run("asks", *arguments)) == ("llm_error", False, False, "LLM_ERROR")


def test_a_model_is_metered(run: Run) -> None:
    """It gets the variant's settings; the record has calls, tokens and cost, and messages are saved."""
    record = run("asks", "--llm", "canned", "--model", "canned-1", "--temperature", "0.5", "--allow-unisolated")
    assert ending(record) == ("completed", True, True, None)
    assert record["usage"] == {
        "steps": 1,
        "llm_calls": 1,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "cached_tokens": 0,
        "cost_usd": 0.01,
    }
    assert record["model"]["name"] == "canned-1"
    assert record["model"]["prompt_version"] == "v1"
    (conversation,) = Path("artifacts").glob("runs/*/tasks/one/agent/conversation.jsonl")
    (line,) = [json.loads(line) for line in conversation.read_text().splitlines()]
    assert line["messages"][0]["content"] == "hi"


def test_an_agent_with_a_model_needs_isolation(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """Unless ``--allow-unisolated`` is given, and it needs a model."""
    plugin("agents", AGENTS)
    plugin("canned", LLM)
    make_task()
    flags = ("--sandbox", "local", "--llm", "canned", "--model", "canned-1")
    refused = agentbench("run", "--suite", "mini", "--agent", "asks", *flags)
    assert refused.code == 3
    assert "the 'local' sandbox, which is not isolated" in refused.err
    assert "--allow-unisolated" in refused.err
    modelless = agentbench("run", "--suite", "mini", "--agent", "asks", "--allow-unisolated")
    assert modelless.code == 2
    assert "--model NAME" in modelless.err
    assert not Path("artifacts").exists()


SCORER = """
    import sys
    import attrs
    from agentbench_core import Score, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Exits:
        def score(self, context): sys.exit(0)

    class Odd:
        def score(self, context): return Score(passed=True, exit_code="0", explanation=None)

    class Attacked:
        def score(self, context): return Score(passed=False, exit_code=0, tampered=True, explanation="a canary passed")

    @hookimpl
    def agentbench_register_scorers(register):
        register("attacked", lambda options: Attacked(), Options, summary="")
        register("exits", lambda options: Exits(), Options, summary="")
        register("odd", lambda options: Odd(), Options, summary="")
"""


@pytest.mark.parametrize("scorer", ["exits", "odd"])
def test_a_scorer_that_fails_leaves_the_attempt_unscored(run: Run, plugin: Any, scorer: str) -> None:
    """Whether it exits or returns an invalid score; the run completes."""
    plugin("scorers", SCORER)
    record = run("scripted", "--set", f"scorer={scorer}")
    assert ending(record) == ("sandbox_error", False, False, "SANDBOX_ERROR")
    (events,) = Path("artifacts").glob("runs/*/events.jsonl")
    assert '"run_finished"' in events.read_text().splitlines()[-1]


def test_tampered_score_is_a_fail(run: Run, plugin: Any) -> None:
    """A tampered score fails the attempt."""
    plugin("scorers", SCORER)
    record = run("scripted", "--set", "scorer=attacked")
    assert ending(record) == ("completed", True, False, "TAMPERED")


def test_thread_pool_left_by_an_agent_does_not_block_the_exit(
    make_task: Any, plugin: Any, agentbench_process: Any
) -> None:
    """Python would wait for its threads forever when it exits."""
    site = plugin("pool", POOL)
    make_task()
    done = agentbench_process("run", "--suite", "mini", "--agent", "pool", PYTHONPATH=str(site))
    assert done.code == 0
    assert "0 of 1 scored attempts passed" in done.out


POOL = """
    import time
    from concurrent.futures import ThreadPoolExecutor
    import attrs
    from agentbench_core import AgentResult, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Pool:
        def solve(self, context):
            ThreadPoolExecutor(2).submit(time.sleep, 10000)
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("pool", lambda options: Pool(), Options, summary="")
"""


WORDY = """
    import attrs
    from agentbench_core import AgentResult, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Wordy:
        def solve(self, context): return AgentResult(message="incontrovertibly " * 200)

    @hookimpl
    def agentbench_register_agents(register):
        register("wordy", lambda options: Wordy(), Options, summary="says much")
"""


def test_explanations_are_cut_between_words(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """In progress lines, the summary and `runs show`; events have the full text."""
    plugin("wordy", WORDY)
    make_task()
    done = agentbench("run", "--suite", "mini", "--agent", "wordy")
    (run,) = Path("artifacts/runs").iterdir()
    shown = agentbench("runs", "show", str(run)).out
    for told in (done.err, done.out, shown):
        (said,) = [line for line in told.splitlines() if "incontrovertibly" in line]
        assert re.search(r"incontrovertibly \.\.\.$", said), said
        assert len(said) < 350
        assert set(re.findall(r"\binc\w*", said)) == {"incontrovertibly"}
    (whole,) = open_run(run).explanations().values()
    assert whole.count("incontrovertibly") == 200


@given(st.text(alphabet="ab \n"), st.integers(8, 40))
def test_a_text_is_shortened(text: str, most: int) -> None:
    """It is a prefix within the limit, cut between words if possible, and only if it is too long."""
    short = shorten(text, most)
    assert len(short) <= most
    if len(text) <= most:
        assert short == text
        return
    kept = short.removesuffix(" ...")
    assert text.startswith(kept)
    if len(kept) != most - 4:
        assert text[len(kept)].isspace(), "it must be cut after a word"
    elif not text[len(kept)].isspace():
        *whole_words, _ = re.split(r"\s+(?=\S+$)", kept)
        assert len("".join(whole_words)) <= most // 2, "a word may only be cut if little is left without it"


SLOW = """
    import pathlib, time, attrs
    from agentbench_core import hookimpl

    @attrs.frozen
    class Options:
        pass

    class Slow:
        def score(self, context): self.wait()
        def report(self, run, into): self.wait()
        def wait(self):
            pathlib.Path("begun").touch()
            time.sleep(120)

    @hookimpl
    def agentbench_register_scorers(register):
        register("slow", lambda options: Slow(), Options, summary="")

    @hookimpl
    def agentbench_register_reporters(register):
        register("slow", lambda options: Slow(), Options, summary="")
"""


def test_interrupt_marks_running_attempts(make_task: Any, plugin: Any, records: Any) -> None:
    """Exit code 130; a running attempt is recorded as interrupted and unscored, and others have no record."""
    site = plugin("agents", AGENTS)
    for name in "abc":
        make_task(name)
    command = [str(Path(sys.executable).parent / "agentbench"), "run", "--suite", "mini", "--agent", "sleeps"]
    with subprocess.Popen(
        [*command, "--workers", "1"],
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not any(
            "tool_call_started" in path.read_text() for path in Path("artifacts").glob("runs/*/events.jsonl")
        ):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    (record,) = records()
    assert ending(record) == ("interrupted", False, False, "INTERRUPTED")
    assert "not attempted: 2 of 3" in out


@pytest.mark.long
@pytest.mark.parametrize("slow", ["scorer=slow", "reporters=[slow, console]"])
def test_first_interrupt_ends_slow_scoring_and_reports(make_task: Any, plugin: Any, records: Any, slow: str) -> None:
    """During scoring, the attempt is interrupted; during a report, only that report is missing."""
    make_task()
    command = [str(Path(sys.executable).parent / "agentbench"), "run", "--suite", "mini", "--agent", "scripted"]
    with subprocess.Popen(
        [*command, "--set", slow],
        env={**os.environ, "PYTHONPATH": str(plugin("slow", SLOW))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not Path("begun").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    (record,) = records()
    (run,) = Path("artifacts/runs").iterdir()
    if slow.startswith("scorer"):
        assert ending(record) == ("interrupted", False, False, "INTERRUPTED")
        assert open_run(run).status() == "interrupted"
    else:
        assert ending(record) == ("completed", True, True, None)
        assert open_run(run).status() == "completed"
        assert "note: reporter 'slow' was interrupted: its report is missing, but the results are complete" in err


def test_long_running_work_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """Without a terminal, a line now and then shows what is running and for how long."""
    plain = PlainProgress(patience=0)
    plain.tick()
    plain.report_started("html")
    plain.tick()
    plain.report_finished("html")
    plain.attempt_started("id-1", "idle", "one", 1)
    plain.attempt_started("id-2", "idle", "one", 2)
    plain.phase_started("id-2", "score")
    plain.tick()
    patient = PlainProgress()
    patient.report_started("html")
    patient.tick()
    assert capfd.readouterr().err.splitlines() == [
        "still running: reporter html: 0 s (0 passed, 0 failed, 0 errors)",
        "still running: idle one: begins, 0 s; idle one@2: score, 0 s (0 passed, 0 failed, 0 errors)",
    ]
