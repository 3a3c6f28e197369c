"""Checks: good and bad calls, several at once, and such that take too long."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from agentbench_core import AttemptStop, Deadline, Interrupted, ToolResult
from agentbench_core.testing.bench import Bench
from agentbench_core.testing.schemas import misfits
from agentbench_core.testing.tool_stage import AtHand, ToolHooks
from agentbench_core.testing.waiting import at_once, done_soon, in_thread, soon

_AT_ONCE = 4
_ODD_TEXT = ("\0", "\ud800", "a\nb", "größe", "-x", "$(exit 3)", "**", "x" * 100_000, "../" * 2000, "[")


class CallChecks(ToolHooks):
    """What comes back, and that nothing stays behind in the tool."""

    def test_a_good_call(self, bench: Bench) -> None:
        """It succeeds, and its fields are plain data."""
        with self.at_hand(bench) as at_hand:
            result = at_hand.call(self.good_arguments())
        assert result.ok, result
        assert (result.error_type, result.error_message) == ("", "")
        assert json.loads(json.dumps(dict(result.fields))) is not None

    def test_a_command(self, bench: Bench) -> None:
        """A tool that runs the argument ``command`` runs it in a shell, and says the exit code and both streams."""
        with self.at_hand(bench) as at_hand:
            if not at_hand.tool.spec.runs_commands:
                return
            result = at_hand.call({"command": "echo out; echo err >&2; exit 3"})
        assert result.ok, result
        told = {"exit_code": None, "stdout": "", "stderr": "", **result.fields}
        assert (told["exit_code"], "out" in told["stdout"], "err" in told["stderr"]) == (3, True, True), result

    def test_nothing_stays_behind(self, bench: Bench) -> None:
        """Another workspace, the same tool, after good calls and bad ones: the same result as of a new tool."""
        with self.at_hand(bench) as at_hand:
            expected = at_hand.call(self.good_arguments())
        tool = self.make_tool()
        with self.at_hand(bench, tool) as at_hand:
            at_hand.call({"no such argument": 1})
            at_hand.call(self.good_arguments())
        with self.at_hand(bench, tool) as at_hand:
            assert self._told(at_hand.call(self.good_arguments())) == self._told(expected)

    def test_calls_at_once(self, bench: Bench) -> None:
        """One tool, a workspace for each call: nobody gets another one's result."""
        tool = self.make_tool()
        with self.at_hand(bench) as at_hand:
            expected = self._told(at_hand.call(self.good_arguments()))
        with ExitStack() as stack:
            hands = [stack.enter_context(self.at_hand(bench, tool)) for _ in range(_AT_ONCE)]
            works: list[Callable[[], ToolResult]] = [partial(each.call, self.good_arguments()) for each in hands]
            results = at_once(works, self.patience)
        assert [self._told(result) for result in results] == [expected] * _AT_ONCE

    def test_unknown_arguments(self, bench: Bench) -> None:
        """``bad_arguments`` (an InputError), and the name is said: a model that misspells one must hear it."""
        with self.at_hand(bench) as at_hand:
            result = at_hand.call({**self.good_arguments(), "no_such_argument": 1})
        assert (result.ok, result.error_type) == (False, "bad_arguments"), result
        assert "no_such_argument" in result.error_message

    def test_missing_arguments(self, bench: Bench) -> None:
        """``bad_arguments`` for each one that the schema requires; without any, where it requires none, no error."""
        required = self.make_tool().spec.parameters.get("required", ())
        with self.at_hand(bench) as at_hand:
            for name in required:
                rest = {key: value for key, value in self.good_arguments().items() if key != name}
                result = at_hand.call(rest)
                assert (result.ok, result.error_type) == (False, "bad_arguments"), (name, result)
                assert name in result.error_message
            if not required:
                assert at_hand.call({}).error_type != "bad_arguments"

    def test_arguments_of_another_type(self, bench: Bench) -> None:
        """``bad_arguments`` for whatever the schema does not allow, one argument at a time."""
        with self.at_hand(bench) as at_hand:
            for name, schema in at_hand.tool.spec.parameters["properties"].items():
                for value in misfits(schema):
                    result = at_hand.call({**self.good_arguments(), name: value})
                    assert (result.ok, result.error_type) == (False, "bad_arguments"), (name, value, result)

    def test_odd_text(self, bench: Bench) -> None:
        """Models write anything: it works, or is refused, but nothing breaks."""
        with self.at_hand(bench, tool_timeout_sec=self.patience) as at_hand:
            for name, schema in at_hand.tool.spec.parameters["properties"].items():
                if not _takes_text(schema):
                    continue
                for text in _ODD_TEXT:
                    call = partial(at_hand.call, {**self.good_arguments(), name: text})
                    result = soon(call, 2 * self.patience)
                    assert result.error_type != "internal_error", (name, text[:20], result)

    def test_no_time_left(self, bench: Bench) -> None:
        """It comes back soon, whether it could do its work or not."""
        with self.at_hand(bench, tool_timeout_sec=0.0) as at_hand:
            result = soon(lambda: at_hand.call(self.slow_arguments()), self.patience)
            assert result.ok or result.error_type == "timeout", result

    def test_a_call_that_takes_too_long(self, bench: Bench) -> None:
        """It ends at its deadline."""
        with self.at_hand(bench, tool_timeout_sec=0.3) as at_hand:
            result = soon(lambda: at_hand.call(self.slow_arguments()), self.patience)
            assert result.ok or result.error_type == "timeout", result

    def test_interrupting_a_call(self, bench: Bench) -> None:
        """Somebody ends the attempt: the call comes back soon, and raises no error of its own."""
        deadline = Deadline(10 * self.patience)
        with self.at_hand(bench, deadline=deadline, tool_timeout_sec=10 * self.patience) as at_hand:
            began = threading.Event()
            future = in_thread(partial(_begin, began, at_hand, self.slow_arguments()))
            assert began.wait(self.patience)
            deadline.end(Interrupted("stop it"))
            try:
                assert done_soon(future, self.patience).error_type != "internal_error"
            except AttemptStop as stop:
                assert "stop it" in str(stop)  # noqa: PT017 - either end is a good one

    def _told(self, result: ToolResult) -> dict[str, Any]:
        """What must be the same from call to call."""
        fields = {key: value for key, value in result.fields.items() if key not in self.varying}
        return {"ok": result.ok, "error": result.error_type, "fields": fields}


def _begin(began: threading.Event, at_hand: AtHand, arguments: Any) -> ToolResult:
    began.set()
    return at_hand.call(arguments)


def _takes_text(schema: Any) -> bool:
    return schema.get("type") == "string" or any(_takes_text(each) for each in schema.get("anyOf", ()))
