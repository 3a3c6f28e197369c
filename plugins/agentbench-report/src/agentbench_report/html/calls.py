"""The tool calls of an attempt, with their results and changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentbench_report.html.texts import CHANGED, Text, Texts
from agentbench_report.html.timeline import Timeline

MAX_CALLS = 1000
"""The maximum number of tool calls shown per attempt. Further calls are only counted."""
FILE = "agent/tool_calls.jsonl"
_GIST = 120
"""The number of characters of the first argument in the heading of a call."""
_SHORT = 12
"""Calls with at most this many lines are expanded."""


@attrs.define(kw_only=True)
class ShownCall:
    """A tool call: requested by a model, made by the agent's program, or both."""

    tool: str
    arguments: Mapping[str, Text]
    agent: str = ""
    """The agent that made the call, if known."""
    step: int = 0
    """0 for a requested call that is not in the log of tool calls."""
    requested: bool = False
    """Whether a model requested the call."""
    ok: bool | None = None
    """Whether the tool succeeded; ``None`` if the call is not in the log."""
    exit_code: int | None = None
    """The exit code of the command, if the tool ran one."""
    error: str = ""
    problem: str = ""
    duration: float | None = None
    output: Mapping[str, Text] = attrs.field(factory=dict)
    change: Text | None = None
    received: Text | None = None
    """What the model received as the result, unless ``output`` has the same lines."""

    @property
    def failed(self) -> bool:
        """Whether the tool failed, or its command ended with an exit code other than 0."""
        return self.ok is False or bool(self.exit_code) or bool(self.problem)

    @property
    def gist(self) -> str:
        """The beginning of the first argument on one line; empty for a diff or JSON."""
        first = next(iter(self.arguments.values()), None)
        if first is None or first.is_diff or first.text.startswith(("[\n", "{\n")):
            return ""
        return " ".join(first.text[: 4 * _GIST].split())[:_GIST]

    def hidden_arguments(self) -> Mapping[str, Text]:
        """The arguments that the heading does not show in full."""
        return {name: text for name, text in self.arguments.items() if text.text != self.gist}

    def shown_output(self) -> Mapping[str, Text]:
        """The output without the exit code and without empty values, which most calls have."""
        return {
            name: text
            for name, text in self.output.items()
            if name != "exit_code" and text.text not in ("", "[]", "{}", "0", "false", "null")
        }

    def shown_change(self) -> Text | None:
        """The change, unless an argument is a diff with the same changed lines."""
        if self.change is None:
            return None
        changed = _changed_lines(self.change)
        same = any(text.is_diff and _changed_lines(text) == changed for text in self.arguments.values())
        return None if same else self.change

    @property
    def lines(self) -> int:
        """The number of lines of the output."""
        return sum(text.lines for text in self._results())

    @property
    def expanded(self) -> bool:
        """Whether the call is expanded at first: it failed, changed files, or is short."""
        height = sum(text.height for text in (*self.hidden_arguments().values(), *self._results()))
        return self.failed or self.change is not None or height <= _SHORT

    def _results(self) -> Sequence[Text]:
        received = [self.received] if self.received is not None else []
        return [*self.shown_output().values(), *received]


@attrs.frozen(kw_only=True, eq=False)
class LoggedCall:
    """A line of the log of tool calls, with the values used to match it to a request of a model."""

    id: str
    tool: str
    arguments: object
    shown: ShownCall


def logged(lines: Iterable[Mapping[str, Any]], texts: Texts, timeline: Timeline) -> Iterator[LoggedCall]:
    """The tool calls in the log. An agent's tools write it, so its lines may be any JSON objects."""
    for line in lines:
        call, result = _mapping(line.get("call")), _mapping(line.get("result"))
        step = line.get("step") if isinstance(line.get("step"), int) else 0
        exit_code = _mapping(result.get("fields")).get("exit_code")
        tool = str(call.get("tool", ""))
        shown = ShownCall(
            step=step or 0,
            agent=timeline.step_agents.get(step or 0, ""),
            tool=tool,
            ok=result.get("ok") is True,
            exit_code=exit_code if isinstance(exit_code, int) else None,
            error=" ".join(str(result.get(name) or "") for name in ("error_type", "error_message")).strip(),
            problem=str(call.get("problem") or ""),
            duration=timeline.step_durations.get(step or 0),
            arguments=_shown(call.get("arguments"), texts),
            output=_shown(result.get("fields"), texts),
            change=texts.file(f"diffs/step_{step or 0:04d}.patch"),
        )
        yield LoggedCall(id=str(call.get("id") or ""), tool=tool, arguments=call.get("arguments"), shown=shown)


def _changed_lines(diff: Text) -> str:
    return "\n".join(lines for kind, lines in diff.diff_blocks() if kind in CHANGED)


def _shown(values: object, texts: Texts) -> Mapping[str, Text]:
    return {str(name): texts.value(value, FILE) for name, value in _mapping(values).items()}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
