"""Truncation, coloring and ordering of evidence."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_core import Delegation, EventEntry, RunView, Warning_
from agentbench_core.values import events
from agentbench_report.html import texts, timeline
from agentbench_report.html.texts import Text, Texts
from agentbench_report.html.wording import seconds, usd
from agentbench_testing import write_run


@pytest.fixture
def run_with(tmp_path: Path) -> Callable[..., RunView]:
    def make(files: dict[str, str | bytes] | None = None) -> RunView:
        return write_run(tmp_path / "run", {"x": True}, files=lambda _: files or {})

    return make


# --- texts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "left_out"), [(texts.MAX_BYTES, 0), (texts.MAX_BYTES + 1000, 1000)])
def test_long_file_is_truncated_in_the_middle_with_a_note(
    run_with: Callable[..., RunView], size: int, left_out: int
) -> None:
    found = Texts(run_with({"logs/a.txt": b"a" * (size // 2) + b"z" * (size - size // 2)}), "x", 1).file("logs/a.txt")
    assert found is not None
    assert (found.left_out, found.path) == (left_out, "tasks/x/logs/a.txt")
    assert (f"[... {left_out} bytes left out ...]" in found.text) == (left_out > 0)
    assert found.text.startswith("aaa")
    assert found.text.endswith("zzz")


def test_text_that_looks_truncated_is_not_marked(run_with: Callable[..., RunView]) -> None:
    found = Texts(run_with({"a": "x\n[... 5 bytes left out ...]\ny"}), "x", 1).file("a")
    assert found is not None
    assert found.left_out == 0


def test_excerpts_are_truncated(run_with: Callable[..., RunView]) -> None:
    said = Texts(run_with(), "x", 2).excerpt("é" * texts.MAX_BYTES, "agent/conversation.jsonl")
    assert said.left_out == texts.MAX_BYTES
    assert said.path == "tasks/x@2/agent/conversation.jsonl"
    assert len(said.text.encode()) < texts.MAX_BYTES + 200


def test_texts_are_shortened_if_there_are_many(run_with: Callable[..., RunView]) -> None:
    """A page with many long outputs has a bounded size."""
    all_texts = Texts(run_with(), "x", 1)
    lengths = [len(all_texts.excerpt("y" * texts.MAX_BYTES, "f").text) for _ in range(100)]
    assert sum(lengths) < 2 * texts.PAGE_MAX_BYTES
    assert lengths[0] == texts.MAX_BYTES
    assert lengths[-1] < 2 * texts.SHORT


def test_values_that_are_nested_too_deeply(run_with: Callable[..., RunView]) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "too deeply" in Texts(run_with(), "x", 1).value(deep, "f").text


# --- diffs -------------------------------------------------------------------------------------------------------


def kinds(diff: str) -> str:
    return " ".join(kind for kind, lines in Text(text=diff).diff_blocks() for _ in lines.split("\n"))


def test_colours_of_a_diff() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ f\n one\n-two\n+zwei\n three\n\\ No newline at end of file\n"
    assert kinds(diff) == "head head hunk same del add same same"


def test_lines_that_look_like_headers() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a list\n+++ a list\n-b\n+c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-d\n+e\n"
    assert kinds(diff) == "head head hunk del add del add head head hunk del add"


def test_new_and_empty_files() -> None:
    diff = "diff --git a/x b/x\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert kinds(diff) == "head head head head head hunk add add"


@given(st.text(st.sampled_from("+- @\\ax1,\n"), max_size=200))
def test_diff_blocks_contain_all_lines(diff: str) -> None:
    assert "\n".join(lines for _, lines in Text(text=diff).diff_blocks()) == diff.removesuffix("\n")


# --- timeline ----------------------------------------------------------------------------------------------------


def entries(*happened: tuple[float, str, events.Event]) -> list[EventEntry]:
    return [
        EventEntry(seq=seq, at=f"2026-01-02T03:04:{second:06.3f}Z", attempt_id=attempt, event=event)
        for seq, (second, attempt, event) in enumerate(happened, start=1)
    ]


@pytest.fixture
def ended(tmp_path: Path) -> events.TaskFinished:
    record = next(write_run(tmp_path / "ended", {"x": True}).records())
    return events.TaskFinished(record=record, explanation="it worked")


STARTED = events.TaskStarted(task_id="x", repeat=1)


def timeline_of(*happened: tuple[float, events.Event], end: events.TaskFinished) -> timeline.Timeline:
    every = [(second, "a", event) for second, event in happened]
    stream = entries((0.0, "a", STARTED), *every, (30.0, "a", end))
    return dict(timeline.timelines(stream, ["a"]))["a"]


def test_start_and_end_events_share_a_row(ended: events.TaskFinished) -> None:
    found = timeline_of(
        (1.5, events.ToolCallStarted(step=1, agent="m", tool="run")),
        (2.0, events.ToolCallStarted(step=2, agent="m", tool="search")),
        (2.5, events.ToolCallFinished(step=2, tool="search", ok=True, error_type="", duration_sec=0.4)),
        (4.0, events.ToolCallFinished(step=1, tool="run", ok=False, error_type="TIMEOUT", duration_sec=2.4)),
        (5.0, events.TestsStarted(command="pytest")),
        end=ended,
    )
    shown = [(one.kind, one.at, one.duration, one.unfinished, one.bad) for one in found.rows]
    assert shown == [
        ("task_started", 0.0, None, False, False),
        ("tool_call", 1.5, 2.4, False, True),
        ("tool_call", 2.0, 0.4, False, False),
        ("tests", 5.0, None, True, False),
        ("task_finished", 30.0, None, False, False),
    ]
    assert dict(found.rows[1].shown()) == {
        "step": "1",
        "agent": "m",
        "tool": "run",
        "ok": "no",
        "error_type": "TIMEOUT",
    }
    assert found.explanation == "it worked"
    assert found.step_durations == {1: 2.4, 2: 0.4}
    assert found.total == 30.0


def test_cached_setup_has_no_duration(ended: events.TaskFinished) -> None:
    found = timeline_of(
        (0.1, events.SetupCommandStarted(command="make", cached=True)),
        (0.1, events.SetupCommandFinished(command="make", exit_code=0, duration_sec=99.0, cached=True)),
        (0.2, events.BaselineStarted(command="pytest")),
        (0.9, events.BaselineFinished(exit_code=1, failed_as_expected=True, duration_sec=0.7)),
        end=ended,
    )
    setup, baseline = found.rows[1:3]
    assert (setup.duration, baseline.duration, found.total) == (0.0, 0.7, 30.0)
    assert dict(setup.shown()) == {"command": "make", "cached": "yes", "exit_code": "0", "took_sec": "99.0"}
    assert dict(baseline.shown()) == {"command": "pytest", "exit_code": "1", "failed_as_expected": "yes"}


def test_a_failed_exchange_lasts_until_it_failed(ended: events.TaskFinished) -> None:
    found = timeline_of(
        (1.0, events.LLMRequest(call=1, agent="m", messages=2)),
        (3.5, events.LLMFailed(call=1, exchange=1, error="overloaded", message="later")),
        end=ended,
    )
    exchange = found.rows[1]
    assert (exchange.kind, exchange.at, exchange.duration, exchange.bad) == ("llm", 1.0, 2.5, True)


def test_steps_follow_the_last_model_call(ended: events.TaskFinished) -> None:
    found = timeline_of(
        (1.0, events.ToolCallStarted(step=1, agent="m", tool="run")),
        (2.0, events.LLMRequest(call=1, agent="m", messages=2)),
        (3.0, events.LLMRequest(call=2, agent="n", messages=2)),
        (4.0, events.ToolCallStarted(step=2, agent="m", tool="run")),
        end=ended,
    )
    assert found.step_calls == {1: 0, 2: 2}
    assert found.step_agents == {1: "m", 2: "m"}


def test_many_events_are_counted_and_not_kept(ended: events.TaskFinished) -> None:
    warnings = [(1.0, Warning_(message="w"))] * (timeline.MAX_EVENTS + 7)
    found = timeline_of(*warnings, end=ended)
    assert len(found.rows) == timeline.MAX_EVENTS + 1
    assert found.left_out == 8
    assert found.explanation == "it worked"


def test_invalid_times(ended: events.TaskFinished) -> None:
    stream = [EventEntry(seq=1, at="never", attempt_id="a", event=ended)]
    found = dict(timeline.timelines(stream, ["a"]))["a"]
    assert [(one.kind, one.at) for one in found.rows] == [("task_finished", None)]


def test_timelines_are_yielded_as_attempts_end(ended: events.TaskFinished) -> None:
    """Attempts are yielded as they end. A superseded attempt is skipped, and an unfinished attempt is empty."""
    read = []

    def lines() -> Iterator[EventEntry]:
        happened = [(1.0, "a", STARTED), (1.0, "b", STARTED), (2.0, "old", STARTED), (3.0, "b", ended)]
        happened += [(4.0, "old", ended), (5.0, "a", ended), (6.0, "a", Warning_(message="too late"))]
        for entry in entries(*happened):
            read.append(entry.seq)
            yield entry

    stream = lines()
    found = timeline.timelines(stream, ["a", "b", "never"])
    assert next(found)[0] == "b"
    assert read[-1] == 4, "read no events after the end of the attempt"
    rest = dict(found)
    assert list(rest) == ["a", "never"]
    assert [one.kind for one in rest["a"].rows] == ["task_started", "task_finished"]
    assert rest["never"] == timeline.EMPTY


def test_delegations_form_a_tree(ended: events.TaskFinished) -> None:
    found = timeline_of(
        (1.0, Delegation(parent="router", child="searcher", role="search", depth=1)),
        (1.0, Delegation(parent="searcher", child="reader", role="read", depth=2)),
        (1.0, Delegation(parent="router", child="patcher", role="patch", depth=1)),
        (1.0, Delegation(parent="patcher", child="searcher", role="search", depth=2)),
        (2.0, events.LLMRequest(call=1, agent="reader", messages=2)),
        (2.0, events.LLMRequest(call=1, exchange=2, agent="reader", messages=2)),
        (3.0, events.ToolCallStarted(step=1, agent="patcher", tool="run")),
        end=ended,
    )
    assert [(one.name, one.parent, one.depth, one.calls, one.steps) for one in found.agents] == [
        ("router", "", 0, 0, 0),
        ("searcher", "router", 1, 0, 0),
        ("reader", "searcher", 2, 1, 0),
        ("patcher", "router", 1, 0, 1),
    ]


def test_cyclic_delegations_end(ended: events.TaskFinished) -> None:
    """Cyclic delegations end, and every agent is drawn once, since agents choose these names freely."""
    said = [("a", "b"), ("b", "a"), ("c", "c"), *itertools.pairwise(f"n{number}" for number in range(500))]
    found = timeline_of(
        *((1.0, Delegation(parent=parent, child=child, role="", depth=1)) for parent, child in said), end=ended
    )
    names = [agent.name for agent in found.agents]
    assert len(names) == len(set(names)) == timeline.MAX_AGENTS
    assert {"a", "b", "c"} <= set(names)


# --- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0123, "12 ms"), (1.26, "1.3 s"), (119.94, "119.9 s"), (125, "2 min 05 s"), (7290, "2 h 01 min"), (None, "–")],  # noqa: RUF001
)
def test_durations(value: float | None, words: str) -> None:
    assert seconds(value) == words


@pytest.mark.parametrize(("value", "words"), [(0, "$0.00"), (0.00361, "$0.0036"), (1234.5, "$1,234.50"), (None, "–")])  # noqa: RUF001
def test_dollars(value: float | None, words: str) -> None:
    assert usd(value) == words
