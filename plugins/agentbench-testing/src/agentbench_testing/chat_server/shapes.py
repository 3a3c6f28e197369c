"""Responses of real servers that differ from their documentation, by name.

All have HTTP status 200.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from agentbench_testing.chat_server.replies import ABSENT, Reply, answer, call, error

_DONE = answer("done")
_COUNTS = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}


def _event(data: object) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _with_content(content: object) -> Reply:
    reply = answer("")
    choice = reply.json["choices"][0]
    changed = {**choice, "message": {**choice["message"], "content": content}}
    return replace(reply, json={**reply.json, "choices": [changed]})


_STREAM = (
    ": OPENROUTER PROCESSING\n\n"
    + _event({"id": "gen-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "done"}}]})
    + _event({"id": "gen-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": _COUNTS})
    + "data: [DONE]\n\n"
)

UNUSUAL: Mapping[str, Reply] = {
    # no completion
    "choices_null": Reply(json={"id": "gen-1", "choices": None}),
    "choices_empty": Reply(json={"id": "gen-1", "choices": []}),
    "choices_absent": Reply(json={"id": "gen-1"}),
    "message_null": Reply(json={"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]}),
    "bare_string": Reply(json="upstream connect error"),
    "bare_null": Reply(json=None),
    "empty_body": Reply(raw=b""),
    "white_space": Reply(raw=b"\n" * 64),
    "html": Reply(raw=b"<html><h1>502 Bad Gateway</h1></html>", content_type="text/html"),
    "half_json": Reply(raw=b'{"id": "gen-1", "choices": [{"index": 0, "mess'),
    "not_utf8": Reply(raw=b'{"choices": "\xff\xfe"}'),
    "deep_json": Reply(raw=b"[" * 100_000),
    "stream": Reply(raw=_STREAM.encode(), content_type="text/event-stream"),
    # errors of the upstream provider
    "error_at_top": error(503, "no provider", http_status=200),
    "error_choices_null": error(502, "provider gone", http_status=200, around={"choices": None}),
    "error_choices_empty": error(502, "provider gone", http_status=200, around={"choices": []}),
    "error_code_text": error(500, "failed", code="server_error", http_status=200),
    "error_without_code": error(500, "failed", code=ABSENT, http_status=200),
    "error_in_choice": error(502, "provider gone", place="choice", partial="I was about to"),
    "error_beside_choices": error(
        400, "Token limit reached", http_status=200, around={"choices": _DONE.json["choices"]}
    ),
    "finish_error": answer("I was ab", finish="error"),
    "error_billed": error(502, "provider gone", http_status=200, around={"usage": {**_COUNTS, "cost": 0.25}}),
    # unusual formats
    "nothing_said": answer(None),
    "empty_text": answer(""),
    "no_usage": answer("done", usage=ABSENT),
    "usage_null": answer("done", usage=None),
    "usage_bare": answer("done", usage=_COUNTS),
    "usage_details_null": answer(
        "done", usage={**_COUNTS, "cost": 0, "prompt_tokens_details": None, "completion_tokens_details": None}
    ),
    "fabricated_stop": answer("", usage=ABSENT, finish="stop"),
    "text_in_parts": _with_content([{"type": "text", "text": "do"}, {"type": "text", "text": "ne"}]),
    "no_provider": answer("done", provider=None),
    "in_provider": Reply(json={"choices": None, "provider": {"id": "gen-1", **_DONE.json}}),
    "only_reasoning": answer(None, reasoning="hm", finish="length"),
    "refusal": answer(None, refusal="I cannot help with that."),
    "filtered": answer("", finish="content_filter"),
    "unknown_finish": answer("done", finish="because"),
    "finish_null": answer("done", finish=None),
    "truncated": answer("I was about to sa", finish="length"),
    "padded": answer("done", padding=300),
    "chunked": answer("done", chunked=True),
    # tool calls
    "arguments_null": answer(tool_calls=[call("list_files", id="a"), replace(call("list_files"), arguments=None)]),
    "arguments_empty": answer(tool_calls=[call("list_files", "")]),
    "arguments_twice": answer(tool_calls=[call("run", '"{\\"command\\": \\"true\\"}"')]),
    "arguments_with_newline": answer(tool_calls=[call("run", '{"command": "a\nb"}')]),
    "arguments_trailing": answer(tool_calls=[call("run", '{"command": "true"}"')]),
    "arguments_cut": answer(tool_calls=[call("run", '{"command": "tr')], finish="length"),
    "arguments_no_object": answer(tool_calls=[call("run", '["true"]')]),
    "calls_with_stop": answer(tool_calls=[call("list_files")], finish="stop"),
    "calls_with_null": answer(tool_calls=[call("list_files")], finish=None),
    "calls_one_id": answer(tool_calls=[call("list_files", id="x"), call("list_files", id="x")]),
    "calls_blank_id": answer(tool_calls=[call("list_files", id="")]),
    "calls_unknown_tool": answer(tool_calls=[call("teleport", {"to": "home"})]),
    "reasoning_echoed": answer(
        tool_calls=[call("list_files")],
        reasoning_details=[{"type": "reasoning.encrypted", "data": "b64", "id": "r1", "format": "f", "index": 0}],
    ),
    "reasoning_empty": answer(tool_calls=[call("list_files")], reasoning_details=[]),
}
