"""Models in runs: the record of exchanges, budgets, errors that stop a run, and sub-agents."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from tests.forked import exit_code
from tests.run.metering.doubles_models import MODELS

FLAGS = ("--llm", "told", "--model", "m", "--allow-unisolated", "--workers", "1")

Run = Callable[..., Any]


@pytest.fixture
def run(agentbench: Any, plugin: Any) -> Run:
    """Run the suite with an agent and the scripted model, and return how the command ended."""
    plugin("told", MODELS)

    def go(agent: str, *more: str, **options: Any) -> Any:
        chosen = [word for name, value in options.items() for word in ("--set", f"llm.{name}={value}")]
        return agentbench("run", "--suite", "mini", "--agent", agent, *FLAGS, *chosen, *more)

    return go


def only_run() -> Path:
    (directory,) = Path("artifacts/runs").iterdir()
    return directory


def events(*kinds: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (only_run() / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if not kinds or line["type"] in kinds]


def seen() -> list[str]:
    """The exchanges that the server saw."""
    return [line for line in Path("server.log").read_text().splitlines() if line.startswith("exchange")]


def ends(records: Any) -> list[tuple[str, str | None, bool]]:
    return [(line["outcome"], line["result"]["failure_reason"], line["scored"]) for line in records()]


def test_every_exchange_is_in_the_ledger_before_it_is_sent(make_task: Any, run: Run, records: Any) -> None:
    """F21: each retry of a call has its own entry and bill, and the record has the total cost."""
    make_task()
    done = run("asks", plan="again again ok")
    assert done.code == 0, done.err
    kinds = [line["type"] for line in events("llm_request", "llm_response", "llm_failed")]
    assert kinds == ["llm_request", "llm_failed", "llm_request", "llm_failed", "llm_request", "llm_response"]
    asked = events("llm_request")
    assert [(line["call"], line["exchange"], line["agent"]) for line in asked] == [(1, n, "asks") for n in (1, 2, 3)]
    assert all(line["reserved_usd"] > 0.006 for line in asked), "2048 answer tokens at 3 USD per million, and more"
    assert len(seen()) == len(asked)
    (answer,) = events("llm_response")
    assert (answer["served_by"], answer["model"], answer["response_id"]) == ("somebody", "served-1", "gen-1")
    assert answer["waited_sec"] == pytest.approx(1.0, abs=0.1)
    (record,) = records()
    assert record["usage"]["llm_calls"] == 1
    assert record["usage"]["cost_usd"] == pytest.approx(0.03)
    assert record["usage"]["prompt_tokens"] == 300
    assert open_run(only_run()).spent_usd() == pytest.approx(0.03)


def test_unknown_cost_counts_as_the_worst_case(make_task: Any, run: Run, records: Any) -> None:
    """A request without an answer may have been billed."""
    make_task()
    run("asks", plan="unknown")
    (asked,) = events("llm_request")
    (failed,) = events("llm_failed")
    assert failed["cost_usd"] is None
    assert open_run(only_run()).spent_usd() == asked["reserved_usd"] > 0
    assert records()[0]["usage"]["cost_usd"] == 0.0, "the record has only known costs"


@pytest.mark.parametrize(
    ("tokens", "price", "known", "spent"),
    [
        pytest.param(100, 3.0, 0.00033, 0.00033, id="tokens and price"),
        pytest.param(0, 3.0, None, "reserved", id="no tokens"),
        pytest.param(100, -1.0, None, 0.0, id="no price"),
    ],
)
def test_cost_that_the_provider_does_not_report(
    make_task: Any, run: Run, records: Any, tokens: int, price: float, known: float | None, spent: float | str
) -> None:
    """It is computed from tokens and prices, or else the worst case counts, but never zero."""
    make_task()
    run("asks", price=price, cost=-1, tokens=tokens)
    (asked,) = events("llm_request")
    (answered,) = events("llm_response")
    assert answered["cost_usd"] == (known if known is None else pytest.approx(known))
    assert records()[0]["usage"]["cost_usd"] == pytest.approx(known or 0.0)
    assert open_run(only_run()).spent_usd() == pytest.approx(asked["reserved_usd"] if spent == "reserved" else spent)
    assert asked["reserved_usd"] > 0 or price < 0


def test_a_limit_holds_without_costs_from_the_provider(make_task: Any, run: Run) -> None:
    """Prices and worst cases stop the run before it exceeds the limit."""
    for number in range(3):
        make_task(f"t{number}")
    done = run("asks", "--max-cost-usd", "0.013", cost=-1, tokens=0)
    assert done.code == 4, done.out
    assert len(seen()) < 3
    assert open_run(only_run()).spent_usd() <= 0.013


def test_preflight_is_called_once_with_the_expected_calls(make_task: Any, run: Run) -> None:
    """run.json has its facts, its warning is printed, and the provider is closed at the end."""
    make_task("one")
    make_task("two")
    done = run("asks", "--workers", "3")
    assert "it is slow on Sundays" in done.err
    model = json.loads((only_run() / "run.json").read_text())["model"]
    assert model["known"] == {"tools": "5", "workers": "3"}
    assert model["answer_tokens"] == 2048
    assert Path("server.log").read_text().splitlines()[-1] == "closed"


def test_run_stays_within_its_cost_limit(make_task: Any, run: Run, records: Any, agentbench: Any) -> None:
    """It stops before a call that could exceed the limit, and can be resumed with a higher one."""
    for name in ("one", "two", "three"):
        make_task(name)
    done = run("asks", "--max-cost-usd", "0.03")
    assert done.code == 4
    assert "the run is limited to 0.03 USD; 0.020000 USD has been spent, and the next call may cost 0.0" in done.err
    assert len(seen()) == 2
    done_or_not = [("completed", None, True), ("completed", None, True), ("interrupted", "INTERRUPTED", False)]
    assert ends(records) == done_or_not
    assert events("run_finished")[-1]["status"] == "stopped"
    directory = str(only_run())
    assert f"--resume {directory} --allow-unisolated" in done.err
    again = agentbench("run", "--resume", directory, "--allow-unisolated")
    assert again.code == 4, "the limit is unchanged, so the run must stop again"
    assert len(seen()) == 2
    more = agentbench("run", "--resume", directory, "--allow-unisolated", "--max-cost-usd", "0.05")
    assert more.code == 0, more.err
    assert "3 of 3 scored attempts passed" in more.out
    assert len(seen()) == 3
    assert open_run(only_run()).spent_usd() == pytest.approx(0.03)


def test_attempts_at_once_do_not_overshoot_together(make_task: Any, run: Run) -> None:
    """Each reserves its worst case; a call waits if others may release some, instead of ending the run."""
    for number in range(6):
        make_task(f"t{number}")
    done = run("asks", "--workers", "6", "--max-cost-usd", "0.065", "--set", "llm.wait=0.3")
    assert done.code == 0, done.err
    assert len(seen()) == 6
    reserved = events("llm_request")[0]["reserved_usd"]
    assert 6 * reserved > 0.005


def test_killed_run_is_charged_for_sent_requests(make_task: Any, run: Run, agentbench: Any) -> None:
    """F21: if the harness dies between request and answer, the worst case counts after a resume."""
    make_task()
    flags = ("--agent", "asks", *FLAGS, "--set", "llm.cost=0.01", "--max-cost-usd", "0.03")
    ended: dict[int, int] = {}

    def is_sent(step: int) -> bool:
        """Start over, with a crash at this step of the journal: has the request been sent?"""
        for path in Path("artifacts/runs").glob("*"):
            _remove(path)
        Path("server.log").unlink(missing_ok=True)
        ended[step] = exit_code("run", "--suite", "mini", *flags, crash_at=str(step), PYTHONPATH=_sites())
        requested = [line for path in Path("artifacts/runs").glob("*/run.json") for line in _events(path.parent)]
        return any(line["type"] == "llm_request" for line in requested) and Path("server.log").exists()

    first = bisect.bisect_left(range(200), True, lo=1, key=is_sent)  # later crashes are after it, too
    assert is_sent(first)
    assert ended[first] != 0, "no crash was between a request and its answer"
    before = open_run(only_run()).spent_usd()
    assert before > 0
    agentbench("run", "--resume", str(only_run()), "--allow-unisolated")
    sent = len(seen())
    assert len(events("llm_request")) == sent, "calls and recorded requests differ"
    assert open_run(only_run()).spent_usd() <= 0.03


def _sites() -> str:
    return ":".join(str(path) for path in Path.cwd().glob("site-*"))


def _events(directory: Path) -> Sequence[dict[str, Any]]:
    path = directory / "events.jsonl"
    whole = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in whole if line.endswith("\n")]


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path)


def test_a_limit_in_dollars_needs_a_price(make_task: Any, run: Run) -> None:
    """The error comes before anything is recorded."""
    make_task()
    for flags in (("--max-cost-usd", "1"), ("--set", "limits.max_cost_usd=1")):
        done = run("asks", "--set", "llm.price=-1", *flags)
        assert done.code == 3
        assert "no pricing is known for model 'm' (provider 'told')" in done.err
    assert not list(Path("artifacts/runs").glob("*")) if Path("artifacts/runs").exists() else True


@pytest.mark.parametrize(
    ("limit", "calls"), [("limits.max_cost_usd=0.02", 2), ("limits.max_tokens=5000", 27), ("limits.max_steps=2", 3)]
)
def test_attempt_stays_within_its_limits(make_task: Any, run: Run, records: Any, limit: str, calls: int) -> None:
    """Cost, tokens and steps; exceeding them ends the agent, and its earlier changes are scored."""
    make_task()
    Path("times").write_text("40")
    done = run("asks", "--set", limit)
    assert done.code == 0, done.err
    (record,) = records()
    assert record["outcome"] in ("out_of_budget", "out_of_steps")
    assert record["scored"]
    assert record["result"]["passed"], "the first answer fixes the task"
    assert len(seen()) <= calls


def test_a_key_that_is_refused_stops_the_run(make_task: Any, run: Run, records: Any, agentbench: Any) -> None:
    """F20: no further attempt starts, none is scored as failed, and the run can be resumed."""
    for name in ("one", "three", "two"):
        make_task(name)
    done = run("asks", plan="ok stop")
    assert done.code == 4
    assert "the run ended early: the key is refused\nSet another." in done.err
    assert ends(records) == [("completed", None, True), ("llm_error", "LLM_ERROR", False)]
    assert len(seen()) == 2
    assert open_run(only_run()).status() == "stopped"
    more = agentbench(
        "run", "--resume", str(only_run()), "--allow-unisolated", "--set", "llm.plan=ok", "--allow-changes"
    )
    assert more.code == 0, more.err
    assert "3 of 3 scored attempts passed" in more.out


def test_outage_affects_attempts_and_not_the_run(make_task: Any, run: Run, records: Any, agentbench: Any) -> None:
    """F19: affected attempts are unscored, the run continues, and resuming completes it."""
    for name in ("one", "three", "two"):
        make_task(name)
    assert run("asks", plan="ok fail ok").code == 0
    assert ends(records) == [("completed", None, True), ("llm_error", "LLM_ERROR", False), ("completed", None, True)]
    assert "3 of 3 scored" in agentbench("run", "--resume", str(only_run()), "--allow-unisolated").out
    assert len(events("llm_request")) == len(seen())


def test_sub_agent_uses_its_share_of_the_budget(make_task: Any, run: Run, records: Any, agentbench: Any) -> None:
    """The parent handles its end, its usage counts for the parent, and events and output name it."""
    make_task()
    done = run("delegates")
    assert done.code == 0, done.err
    (record,) = records()
    assert (record["outcome"], record["result"]["passed"]) == ("completed", True), record
    delegations = [(e["parent"], e["child"], e["role"], e["depth"]) for e in events("delegation")]
    assert delegations == [
        ("delegates", "helper-1", "helper", 1),
        ("helper-1", "helper-2", "helper", 2),
        ("delegates", "poor-1", "poor", 1),
    ]
    assert [e["agent"] for e in events("llm_request")] == ["helper-1", "delegates"]
    assert record["usage"]["steps"] == 2, "one refused call of the helper and one call of its parent"
    assert record["usage"]["llm_calls"] == 2
    shown = agentbench("runs", "show", str(only_run())).out
    assert (
        "  delegates: calls 1, tokens 110, steps 1\n"
        "  ├─ helper-1: calls 1, tokens 110, steps 1\n"
        "  │  └─ helper-2: calls 0, tokens 0, steps 0\n"
        "  └─ poor-1: calls 0, tokens 0, steps 0\n"
    ) in shown
    assert "model    m: 2 calls, 220 tokens, 0.0200 USD" in shown
    lines = [json.loads(x) for x in (only_run() / "tasks/one/agent/conversation.jsonl").read_text().splitlines()]
    assert [(line["agent"], line["since"], line["model"]) for line in lines] == [
        ("helper-1", 0, "m"),
        ("delegates", 0, "m"),
    ]


def test_agent_may_check_its_budget(make_task: Any, run: Run, records: Any) -> None:
    """If it does not catch the exception, it ended by steps and not by an error."""
    make_task()
    run("looks", "--max-steps", "3")
    assert ends(records) == [("out_of_steps", "AGENT_GAVE_UP", True)]


def test_malformed_call_gets_a_result_and_is_not_executed(make_task: Any, run: Run, records: Any) -> None:
    """It costs a step, and the model can retry."""
    make_task()
    run("malformed")
    (record,) = records()
    assert (record["outcome"], record["usage"]["steps"]) == ("completed", 2)


def test_replay_makes_no_requests(make_task: Any, run: Run, records: Any, agentbench: Any) -> None:
    """Calls, changes and verdicts are the same, marked as replayed and free; an additional call ends the attempt."""
    make_task("one")
    make_task("two")
    assert run("asks").code == 0
    recorded = only_run()
    before = records()
    asked = len(seen())
    done = agentbench("replay", str(recorded), "--workers", "8", "--allow-unisolated", "--out", "again")
    assert done.code == 0, done.err
    (replayed,) = Path("again").iterdir()
    after = [json.loads(line) for line in (replayed / "attempts.jsonl").read_text().splitlines()]
    after.sort(key=lambda record: record["task_id"])
    assert [record["result"] for record in after] == [record["result"] for record in before]
    assert all(record["replayed"] and record["usage"]["cost_usd"] == 0.0 for record in after)
    assert [r["usage"]["prompt_tokens"] for r in after] == [r["usage"]["prompt_tokens"] for r in before]
    assert len(seen()) == asked
    Path("times").write_text("2")
    more = agentbench("replay", str(recorded), "--allow-unisolated", "--out", "more")
    assert more.code == 1
    (missed,) = Path("more").iterdir()
    shown = agentbench("runs", "show", str(missed)).out
    assert "task one, repeat 1: this request was sent more often than it was recorded" in shown


def test_replay_shows_the_difference(make_task: Any, run: Run, agentbench: Any) -> None:
    """A changed word of a prompt is shown in a readable diff."""
    make_task()
    run("asks")
    Path("word").write_text("hello")
    agentbench("replay", str(only_run()), "--allow-unisolated", "--out", "again")
    (replayed,) = Path("again").iterdir()
    shown = agentbench("runs", "show", str(replayed)).out
    assert "no recorded request matches; the closest one differs as follows:" in shown
    assert "-  hi\n+  hello" in shown
    assert open_run(replayed).manifest.model is not None


def test_runs_that_cannot_be_replayed(make_task: Any, run: Run, agentbench: Any) -> None:
    """A run without a model, and a directory that does not exist."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    done = agentbench("replay", str(only_run()), "--allow-unisolated")
    assert done.code == 2
    assert agentbench("replay", "nowhere").code == 2
    run_ = agentbench(
        "run", "--suite", "mini", "--agent", "asks", "--llm", "replay", "--model", "m", "--allow-unisolated"
    )
    assert run_.code == 2
    assert "--set llm.from=RUN_DIR" in run_.err


def test_names_and_presets(make_task: Any, agentbench: Any) -> None:
    """`llm_v0` is an alias of baseline; a preset sets model name and settings, and is their origin."""
    Path("configs").mkdir()
    Path("configs/models.yaml").write_text(
        "version: '7'\nmodels:\n  short: {model: {name: long/name, temperature: 0.3, max_tokens: 99}}\n"
    )
    shown = agentbench("config", "show", "--agent", "llm_v0", "--model", "short", "--temperature", "0.9", "--json")
    leaves = json.loads(shown.out)["baseline"]
    origin = "configs/models.yaml version 7, short"
    assert leaves["model.name"] == {"value": "long/name", "origin": origin}
    assert leaves["model.max_tokens"] == {"value": 99, "origin": origin}
    assert leaves["model.temperature"] == {"value": 0.9, "origin": "--temperature"}
    assert "agent.same_failure" in leaves
    Path("configs/models.yaml").write_text("version: '7'\nmodels: {short: {limits: {max_steps: 1}}}\n")
    refused = agentbench("config", "show", "--model", "short")
    assert refused.code == 2
    assert "limits: not allowed here" in refused.err
