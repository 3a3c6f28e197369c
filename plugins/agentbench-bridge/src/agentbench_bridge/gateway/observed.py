"""Tool calls of a program, as seen in its model traffic: requested in an answer, finished in a later request."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from agentbench_core import Completion, Message, Request, ToolCall, ToolResult

_LONGEST = 16_384
"""Maximum recorded characters of a result; of a longer one, the beginning and the end are recorded."""
_MOST_EARLY = 1000
"""Maximum number of results that are kept until their calls are known."""
_SEARCHED = 4096
"""Number of characters at each end of a result that are searched for an exit code."""

_EXIT_CODE = re.compile(
    r"""(?:^|\n)\s*(?:
        Exit\ code:?\ (-?\d{1,5})\b
      | Process\ exited\ with\ code\ (-?\d{1,5})\b
      | <returncode>(-?\d{1,5})</returncode>
    )""",
    re.VERBOSE,
)


@attrs.define(kw_only=True, eq=False)
class _Observed:
    call: ToolCall
    finish: Callable[[ToolResult], None] | None
    """``None`` after the result was reported."""


class ObservedTools:
    """Reports the tool calls of an attempt by ``observe``, and their results. Thread-safe.

    Several conversations can interleave; calls and results are matched by id. If an id is used again, the arguments in
    the conversation decide.
    """

    def __init__(self, observe: Callable[[ToolCall], Callable[[ToolResult], None]]) -> None:
        self._observe = observe
        self._by_id: dict[str, list[_Observed]] = {}
        self._early: OrderedDict[str, ToolResult] = OrderedDict()
        self._lock = threading.Lock()

    def answered(self, completion: Completion) -> None:
        """Report the calls of an answer. Raises AttemptStop if time or steps are used up."""
        for call in completion.message.tool_calls:
            finish = self._observe(call)
            with self._lock:
                early = self._early.pop(call.id, None) if call.id else None
                entry = _Observed(call=call, finish=None if early else finish)
                self._by_id.setdefault(call.id, []).append(entry)
            if early:
                finish(early)

    def requested(self, request: Request, *, keep: bool = False) -> None:
        """Report the results in a request.

        Args:
            request: the parsed request.
            keep: keep the results of unknown calls, since an answer in progress may contain these calls.
        """
        for finish, result in self._matched(request, keep):
            finish(result)

    def close(self) -> None:
        """Finish the calls without a result."""
        with self._lock:
            entries = [entry for entries in self._by_id.values() for entry in entries if entry.finish]
        for entry in entries:
            if finish := _taken(entry):
                finish(ToolResult.failure("no_result", "the program sent no result for this call"))

    def _matched(self, request: Request, keep: bool) -> list[tuple[Callable[[ToolResult], None], ToolResult]]:
        matched = []
        with self._lock:
            arguments: dict[str, Mapping[str, Any]] | None = None
            for message in reversed(request.messages):
                if message.role != "tool" or not message.tool_call_id:
                    continue
                entries = self._by_id.get(message.tool_call_id)
                if entries is None:
                    if keep:
                        self._keep_early(message)
                    continue
                waiting = [entry for entry in entries if entry.finish]
                if waiting and len(entries) > 1:
                    if arguments is None:
                        arguments = {call.id: call.arguments for asked in request.messages for call in asked.tool_calls}
                    wanted = arguments.get(message.tool_call_id)
                    waiting = [entry for entry in waiting if entry.call.arguments == wanted]
                if waiting and (finish := _taken(waiting[-1])):
                    matched.append((finish, result_of(message)))
        return matched[::-1]

    def _keep_early(self, message: Message) -> None:
        if message.tool_call_id not in self._early:
            self._early[message.tool_call_id] = result_of(message)
            while len(self._early) > _MOST_EARLY:
                self._early.popitem(last=False)


def _taken(entry: _Observed) -> Callable[[ToolResult], None] | None:
    finish, entry.finish = entry.finish, None
    return finish


def result_of(message: Message) -> ToolResult:
    """A message with the role ``tool`` as a result: its text, bounded, and its exit code if it contains one."""
    text = message.content
    fields: dict[str, Any] = {"output": _bounded(text)}
    code = exit_code(text)
    if code is not None:
        fields["exit_code"] = code
    if message.opaque.get("is_error") is True:
        return ToolResult(ok=False, fields=fields, error_type="tool_error", error_message=_bounded(text)[:1000])
    return ToolResult.success(**fields)


def exit_code(text: str) -> int | None:
    """The exit code in the text of a shell tool's result, in the forms that common agents use."""
    if text.startswith("{") and '"exit_code"' in text:
        try:
            metadata = json.loads(text).get("metadata")
            code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        except (ValueError, RecursionError):
            code = None
        if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 100_000:
            return code
    found = _EXIT_CODE.search(text[:_SEARCHED]) or _EXIT_CODE.search(text[-_SEARCHED:])
    return next((int(group) for group in found.groups() if group), None) if found else None


def _bounded(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
