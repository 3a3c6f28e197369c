"""What agents really send is forwarded, with the settings of the variant, and parsed into a comparable copy."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from agentbench_bridge.protocols import Admitted, Limits, ModelMap, RefusedError, admit
from agentbench_core import ToolCall, dump

RECORDED = sorted((Path(__file__).parent / "requests").glob("*.json"))
ALL = ModelMap(names={"*": "maker/model"})
SETTINGS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"model": "m", "input": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]},
}
"""The smallest request of each protocol."""
EACH = pytest.mark.parametrize("path", SETTINGS)
LIMIT = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/responses": "max_output_tokens",
    "/v1/messages": "max_tokens",
}


def send(
    path: str,
    body: Any,
    *,
    headers: Mapping[str, str] | None = None,
    models: ModelMap = ALL,
    limits: Limits | None = None,
) -> Admitted:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return admit(path, headers or {}, data, models=models, limits=limits or Limits())


def recorded(name: str) -> dict[str, Any]:
    return dict(json.loads((Path(__file__).parent / "requests" / f"{name}.json").read_text()))


def replay(name: str, **more: Any) -> Admitted:
    entry = recorded(name)
    return send(entry["path"], entry["body"], headers=entry["headers"], **more)


def reasons(path: str, body: Any, **more: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        send(path, body, **more)
    return "; ".join(refused.value.reasons)


# --- real agents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
@pytest.mark.parametrize("limits", [Limits(), Limits(max_tokens=9000, temperature=0.5, top_p=0.9)], ids=["free", "set"])
def test_an_admitted_request_is_admitted_again_unchanged(file: Path, limits: Limits) -> None:
    """W08: The process that writes a run checks the requests of workers again, with the real name of the model."""
    once = replay(file.stem, limits=limits)
    models = ModelMap(names={"maker/model": "maker/model"})
    again = send(f"/v1/{once.path}", once.body, headers=once.headers, models=models, limits=limits)
    assert (again.body, again.headers, again.request) == (once.body, once.headers, once.request)
    assert (again.path, again.media, again.stream, again.stripped) == (once.path, once.media, once.stream, ())


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_requests_are_forwarded(file: Path) -> None:
    """Shapes of requests of Claude Code 2.1.330, Codex 0.169.0, OpenCode 1.18.33 and mini-swe-agent 2.4.6."""
    entry = json.loads(file.read_text())
    admitted = replay(file.stem)
    sent = json.loads(admitted.body)
    assert sent["model"] == admitted.request.model == "maker/model"
    added = {"store", "max_completion_tokens", "max_output_tokens", "stream_options"}
    assert set(entry["body"]) <= set(sent)
    assert set(sent) - set(entry["body"]) <= added
    hosted = [tool for tool in entry["body"].get("tools", ()) if tool.get("type") == "web_search"]
    assert len(sent.get("tools", ())) == len(entry["body"].get("tools", ())) - len(hosted)
    assert bool(admitted.stripped) is bool(hosted)
    for name in ("messages", "input", "system", "thinking", "reasoning", "context_management", "output_config"):
        assert sent.get(name) == entry["body"].get(name)
    assert admitted.request.max_tokens == next(sent[name] for name in (*LIMIT.values(), "max_tokens") if name in sent)
    assert admitted.stream is bool(entry["body"].get("stream"))
    assert not admitted.media
    json.dumps(dump(admitted.request), allow_nan=False)


def test_every_beta_of_claude_code_is_forwarded() -> None:
    entry = recorded("claude-code-second")
    headers = replay("claude-code-second").headers
    assert headers["anthropic-beta"] == entry["headers"]["anthropic-beta"]
    assert headers["anthropic-version"] == "2023-06-01"
    assert set(headers) == {"anthropic-beta", "anthropic-version"}


def test_claude_code_requests_are_parsed() -> None:
    request = replay("claude-code-second").request
    assert [message.role for message in request.messages] == ["system", "user", "system", "assistant", "tool"]
    assert request.messages[0].opaque["request"]["thinking"] == {"display": "updates", "type": "adaptive"}
    command = {"command": "echo hello > made.txt; echo done", "description": "make"}
    assert request.messages[3].tool_calls == (ToolCall(tool="Bash", arguments=command, id="toolu_1"),)
    assert request.messages[3].opaque["parts"][0]["type"] == "thinking"
    assert (request.messages[4].tool_call_id, request.messages[4].content) == ("toolu_1", "done")
    assert [tool.name for tool in request.tools if tool.runs_commands] == ["Bash"]


def test_codex_requests_are_parsed() -> None:
    request = replay("codex-second").request
    assert [message.role for message in request.messages][-3:] == ["user", "assistant", "tool"]
    assert request.messages[-2].tool_calls[0].tool == "exec_command"
    assert request.messages[-2].opaque["parts"][0]["encrypted_content"] == "abcd"
    assert "multi_agent_v1.spawn_agent" in [tool.name for tool in request.tools]
    assert request.messages[0].opaque["request"]["include"] == ["reasoning.encrypted_content"]


def test_codex_requests_with_tools_in_the_input_are_parsed() -> None:
    """Newer models get their tools in an item of the input; their calls have a namespace."""
    request = replay("codex-gpt-6-sol").request
    assert request.tools[0].name == "functions.exec"
    assert request.messages[-2].tool_calls[0].tool == "functions.exec"
    assert "exec_command" in request.messages[-2].tool_calls[0].arguments["input"]
    assert request.messages[-1].content.startswith("Script completed")


def test_opencode_requests_are_parsed() -> None:
    chat, messages = replay("opencode-chat").request, replay("opencode-messages").request
    assert [message.role for message in chat.messages] == ["system", "user", "assistant", "tool"]
    assert [message.role for message in messages.messages] == ["system", "user", "assistant", "tool"]
    assert chat.messages[2].tool_calls[0].arguments == messages.messages[2].tool_calls[0].arguments
    assert chat.messages[3].content == messages.messages[3].content == "done\n"
    assert chat.tools == messages.tools


# --- determinism ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["codex-second", "codex-gpt-6-sol", "claude-code-second", "opencode-responses"])
def test_ids_of_a_session_do_not_change_the_copy(name: str) -> None:
    entry = recorded(name)
    other = json.loads(json.dumps(entry["body"]))
    for item in other.get("input", ()):
        if "id" in item:
            item["id"] = "another"
    for field in ("prompt_cache_key", "user", "safety_identifier"):
        other[field] = "another"
    if entry["path"] == "/v1/responses":
        other["client_metadata"] = {"session": "another"}
    else:
        other = {key: value for key, value in other.items() if key not in ("prompt_cache_key", "user")}
        other.pop("safety_identifier")
        other["metadata"] = {"user_id": "another"}
    assert send(entry["path"], other).request == replay(name).request


def test_moved_cache_markers_do_not_change_the_copy() -> None:
    body = recorded("claude-code-second")["body"]
    unmarked = json.loads(json.dumps(body).replace('"cache_control": {"type": "ephemeral"}', '"cache_control": null'))
    assert send("/v1/messages", unmarked).request == replay("claude-code-second").request


@EACH
@pytest.mark.parametrize("field", ["tool_choice", "stream", "effort"])
def test_other_settings_change_the_copy(path: str, field: str) -> None:
    one, other = dict(SETTINGS[path]), dict(SETTINGS[path])
    if field == "stream":
        other["stream"] = True
    elif field == "effort":
        name, value = {
            "/v1/chat/completions": ("reasoning_effort", "low"),
            "/v1/responses": ("reasoning", {"effort": "low"}),
            "/v1/messages": ("output_config", {"effort": "low"}),
        }[path]
        other[name] = value
    else:
        tool = {
            "/v1/chat/completions": {"type": "function", "function": {"name": "f"}},
            "/v1/responses": {"type": "function", "name": "f"},
            "/v1/messages": {"name": "f", "input_schema": {}},
        }[path]
        one["tools"] = other["tools"] = [tool]
        other["tool_choice"] = {"type": "auto"} if path == "/v1/messages" else "required"
    assert send(path, one).request != send(path, other).request


def test_nulls_do_not_change_the_copy() -> None:
    body = {**SETTINGS["/v1/responses"], "previous_response_id": None, "service_tier": None, "tools": None}
    assert send("/v1/responses", body).request == send("/v1/responses", SETTINGS["/v1/responses"]).request
    assert b"null" not in send("/v1/responses", body).body


def test_images_count_in_the_size_of_a_message() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    body = {
        **SETTINGS["/v1/messages"],
        "messages": [{"role": "user", "content": [image, {"type": "text", "text": "?"}]}],
    }
    (message,) = send("/v1/messages", body).request.messages
    assert message.size > 40_000
    assert message.content == "?"


PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
TEXT = {"type": "text", "media_type": "text/plain", "data": "x"}
INPUT_IMAGE = {"type": "input_image", "image_url": PNG}


def _user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("/v1/chat/completions", _user({"type": "image_url", "image_url": {"url": PNG}})),
        ("/v1/chat/completions", _user({"type": "file", "file": {"file_data": PDF}})),
        (
            "/v1/chat/completions",
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": PNG}}]},
        ),
        ("/v1/chat/completions", {"role": "assistant", "content": "x", "reasoning_details": [{"image_url": PNG}]}),
        ("/v1/responses", _user(INPUT_IMAGE)),
        ("/v1/responses", _user({"type": "input_file", "file_data": PDF})),
        ("/v1/responses", {"type": "function_call_output", "call_id": "c", "output": [INPUT_IMAGE]}),
        ("/v1/responses", {"type": "custom_tool_call_output", "call_id": "c", "output": [INPUT_IMAGE]}),
        ("/v1/messages", _user(IMAGE)),
        ("/v1/messages", _user({"type": "document", "source": TEXT})),
        ("/v1/messages", _user({"type": "document", "source": {"type": "content", "content": [IMAGE]}})),
        ("/v1/messages", _user({"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]})),
        (
            "/v1/messages",
            _user({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document", "source": TEXT}]}),
        ),
    ],
    ids=str,
)
def test_images_and_files_are_reported(path: str, entry: dict[str, Any]) -> None:
    """Their number of tokens does not follow from their size."""
    name = "input" if path == "/v1/responses" else "messages"
    assert send(path, {**SETTINGS[path], name: [*SETTINGS[path][name], entry]}).media


@EACH
def test_text_about_images_is_not_an_image(path: str) -> None:
    text = json.dumps(IMAGE) + PNG
    kind = "input_text" if path == "/v1/responses" else "text"
    name = "input" if path == "/v1/responses" else "messages"
    calls: dict[str, Any] = {
        "/v1/chat/completions": {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": text}}],
        },
        "/v1/responses": {"type": "function_call", "name": "f", "call_id": "c", "arguments": text},
        "/v1/messages": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": IMAGE, "image_url": PNG}}],
        },
    }
    assert not send(path, {**SETTINGS[path], name: [_user({"type": kind, "text": text}), calls[path]]}).media


def test_citations_are_removed() -> None:
    """Models do not read them, and they may refer to files."""
    cited = {"type": "char_location", "cited_text": "abc", "file_id": "f"}
    part = {"type": "text", "text": "x", "citations": [cited], "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {**SETTINGS["/v1/messages"], "messages": [{"role": "assistant", "content": [part]}]}
    admitted = send("/v1/messages", body)
    assert not admitted.request.messages[0].opaque
    (sent,) = json.loads(admitted.body)["messages"][0]["content"]
    assert sent == {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
    assert set(admitted.stripped) == {
        "citations: removed from the conversation; models do not read it",
        "cache_control: ttl shortened from 1h to 5m, because listed prices are for 5m",
    }


# --- the variant's settings ----------------------------------------------------------------------------------------


@EACH
def test_models_are_mapped(path: str) -> None:
    models = ModelMap(names={"m": "one", "*": "other"})
    assert json.loads(send(path, SETTINGS[path], models=models).body)["model"] == "one"
    assert json.loads(send(path, {**SETTINGS[path], "model": "x"}, models=models).body)["model"] == "other"
    message = reasons(path, {**SETTINGS[path], "model": "small"}, models=ModelMap(names={"m": "one"}))
    assert "'small'" in message
    assert "--set agent.models=" in message


@EACH
def test_output_limits(path: str) -> None:
    name = LIMIT[path]
    body = {key: value for key, value in SETTINGS[path].items() if key != "max_tokens"}
    for asked, most, result in [
        (None, None, 32_000),
        (None, 4_000, 4_000),
        (500, 4_000, 500),
        (9_000, 4_000, 4_000),
        (9_000, None, 9_000),
    ]:
        sent = {**body, name: asked} if asked else body
        admitted = send(path, sent, limits=Limits(max_tokens=most))
        assert json.loads(admitted.body)[name] == admitted.request.max_tokens == result
        assert bool(admitted.stripped) is (asked == 9_000 and most is not None)


def test_chat_limit_keeps_its_field_name() -> None:
    body = {**SETTINGS["/v1/chat/completions"], "max_tokens": 9}
    sent = json.loads(send("/v1/chat/completions", body, limits=Limits(max_tokens=5)).body)
    assert sent["max_tokens"] == 5
    assert "max_completion_tokens" not in sent
    assert "both set" in reasons("/v1/chat/completions", {**body, "max_completion_tokens": 9})


@EACH
def test_sampling_settings_come_from_the_variant(path: str) -> None:
    body = {**SETTINGS[path], "temperature": 1, "top_p": 0.9}
    request = send(path, body, limits=Limits(temperature=0.0, top_p=0.5)).request
    assert (request.temperature, request.top_p) == (0.0, 0.5)
    request = send(path, body).request
    assert (request.temperature, request.top_p) == (1, 0.9)
    assert send(path, SETTINGS[path]).request.temperature is None


def test_thinking_fits_the_output_limit() -> None:
    entry = recorded("claude-code-haiku")
    admitted = send(entry["path"], entry["body"], limits=Limits(max_tokens=8_000))
    assert json.loads(admitted.body)["thinking"]["budget_tokens"] == 4_000
    assert any("budget_tokens" in change for change in admitted.stripped)
    assert "output limit above 1024 tokens, not 1000" in reasons(
        entry["path"], entry["body"], limits=Limits(max_tokens=1_000)
    )


@pytest.mark.parametrize(("name", "field"), [("reasoning", "max_tokens"), ("thinking", "budget_tokens")])
def test_thinking_fits_the_output_limit_in_chat(name: str, field: str) -> None:
    path = "/v1/chat/completions"
    thinking = {"enabled": True, field: 50_000} if name == "reasoning" else {"type": "enabled", field: 50_000}
    for limit, asked, budget in [(8_000, {}, 4_000), (None, {}, 16_000), (None, {"max_tokens": 3_000}, 1_500)]:
        admitted = send(path, {**SETTINGS[path], name: thinking, **asked}, limits=Limits(max_tokens=limit))
        assert json.loads(admitted.body)[name] == {**thinking, field: budget}
        assert admitted.stripped == (f"{name}.{field}: lowered from 50000 to {budget}, to fit the output limit",)
        opaque = admitted.request.messages[0].opaque
        assert opaque["request"][name][field] == budget
    body = {**SETTINGS[path], name: thinking}
    assert "output limit above 1024" in reasons(path, body, limits=Limits(max_tokens=1_000))
    small = {**thinking, field: 2_000}
    assert json.loads(send(path, {**SETTINGS[path], name: small}).body)[name] == small


def test_usage_of_streams_is_requested() -> None:
    path = "/v1/chat/completions"
    for options in ({}, {"stream_options": {"include_usage": False}}):
        sent = json.loads(send(path, {**SETTINGS[path], "stream": True, **options}).body)
        assert sent["stream_options"] == {"include_usage": True}
    assert "stream_options" not in json.loads(send(path, SETTINGS[path]).body)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_nothing_is_stored(path: str) -> None:
    for asked in ({}, {"store": None}):
        sent = json.loads(send(path, {**SETTINGS[path], **asked}).body)
        if path == "/v1/responses":
            assert sent["store"] is False
        else:  # never stored unless requested; small servers reject unknown fields
            assert "store" not in sent
    assert json.loads(send(path, {**SETTINGS[path], "store": False}).body)["store"] is False
    admitted = send(path, {**SETTINGS[path], "store": True})
    assert json.loads(admitted.body)["store"] is False
    assert admitted.stripped == ("store: set to false",)


def test_counting_tokens() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "system": "s"}
    admitted = send("/v1/messages/count_tokens?beta=true", body)
    assert (admitted.path, admitted.protocol, admitted.stream) == ("messages/count_tokens", "messages", False)
    assert json.loads(admitted.body) == {**body, "model": "maker/model"}
    assert "max_tokens" in reasons("/v1/messages/count_tokens", {**body, "max_tokens": 5})


def test_values_of_beta_headers_are_allowed_one_by_one() -> None:
    headers = {"Anthropic-Beta": "effort-2025-11-24, mcp-client-2025-11-20,files-api-2025-04-14", "X-Other": "1"}
    admitted = send("/v1/messages", SETTINGS["/v1/messages"], headers=headers)
    assert admitted.headers == {"anthropic-beta": "effort-2025-11-24"}
    assert len(admitted.stripped) == 2
    assert "anthropic-version" in reasons(
        "/v1/messages", SETTINGS["/v1/messages"], headers={"anthropic-version": "2023-06-01\r\nx: y"}
    )


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files", "/v1/batches", "/v1/messages/batches", "/v1/responses/resp_1", "/v1/chat/completions/",
        "/v1/chat/completions?x=1", "/v1//messages", "/v1/messages?beta=true&x=1", "/v1/embeddings", "/", "",
        "/v1/messages%2Fcount_tokens", "/v1/responses/compact", "//v1/messages", "http://host/v1/messages",
    ],
)  # fmt: skip
def test_other_paths_are_refused(path: str) -> None:
    assert "is not available" in reasons(path, SETTINGS["/v1/messages"])


# --- JSON ----------------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "Expecting value"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"model": "m"} {}', "Extra data"),
        (b'{"model": "m", "model": "n"}', "more than once"),
        (b'{"messages": [{"role": "user", "r\\u006fle": "x"}]}', "more than once"),
        (b'{"temperature": NaN}', "NaN is not valid"),
        (b'{"temperature": -Infinity}', "-Infinity is not valid"),
        (b'{"temperature": 1e999}', "too large"),
        (b'{"max_tokens": ' + b"9" * 50 + b"}", "too many digits"),
        (b'{"model": "\xff"}', "not UTF-8"),
        (b'{"model": "a\nb"}', "control character"),
        (b'{"a": ' * 65 + b"1" + b"}" * 65, "levels deep"),
        (b'{"a": ' + b"[" * 100_000, "levels deep"),
        (b'{"a": [' + b"0," * 200_001 + b"0]}", "values"),
        (b'{"a": [' + b'"",' * 200_001 + b'""]}', "values"),
        (b'{"a": "' + b" " * 2**25 + b'"}', "32 MiB"),
        (b"\xef\xbb\xbf{}", "Expecting value"),
    ],
    ids=range(18),
)
def test_bad_json_is_refused(path: str, body: bytes, problem: str) -> None:
    assert problem in reasons(path, body)


def test_text_may_be_long_and_contain_anything() -> None:
    text = 'a,"\\\ud83d\U0001f600' * 200_000
    body = {**SETTINGS["/v1/messages"], "messages": [{"role": "user", "content": text}]}
    admitted = send("/v1/messages", body)
    assert json.loads(admitted.body)["messages"][0]["content"] == text
    assert admitted.request.messages[0].content == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a value with each of its keys."""
    found = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found.append((value, key))
        found += _places(item)
    return found


@settings(max_examples=150, deadline=None)
@given(file=st.sampled_from(RECORDED), value=JSON, data=st.data())
def test_changed_requests_are_refused_or_forwarded(file: Path, value: Any, data: st.DataObject) -> None:
    """A changed request is either refused with reasons, or forwarded with a copy that can be written."""
    entry = json.loads(file.read_text())
    container, key = data.draw(st.sampled_from(_places(entry["body"])))
    if isinstance(container, dict) and data.draw(st.booleans()):
        key = data.draw(
            st.sampled_from(["type", "tools", "role", "content", "url", "id", "name"]) | st.text(max_size=5)
        )
    container[key] = value
    try:
        admitted = send(entry["path"], entry["body"], headers=entry["headers"])
    except RefusedError as error:
        refused = error
    else:
        json.dumps(dump(admitted.request), allow_nan=False)
        assert send(entry["path"], admitted.body, headers=admitted.headers).body == admitted.body
        return
    assert refused.reasons
    assert all(len(reason) < 500 and reason.isascii() for reason in refused.reasons)
