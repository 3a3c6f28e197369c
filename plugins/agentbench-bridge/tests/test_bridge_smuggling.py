"""E10: Attempts to reach tools of the provider, or remote data, through a request: each is refused, or removed."""

import json
from typing import Any

import pytest

from agentbench_bridge.protocols import Admitted, Limits, ModelMap, RefusedError, admit

MODELS = ModelMap(names={"*": "maker/model"})
PNG = "data:image/png;base64,iVBORw0KGgo="
URL = "https://example.com/secret.png"
REMOTE = {"type": "image", "source": {"type": "url", "url": URL}}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
OWN: dict[str, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
    RESPONSES: {"type": "function", "name": "bash", "parameters": {"type": "object"}},
    MESSAGES: {"name": "bash", "input_schema": {"type": "object"}},
}
PLAIN: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [OWN[CHAT]]},
    RESPONSES: {"model": "m", "input": [{"role": "user", "content": "hi"}], "tools": [OWN[RESPONSES]]},
    MESSAGES: {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [OWN[MESSAGES]],
    },
}
"""A request of each protocol with a tool of the agent's own."""
EACH = pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])


def send(path: str, body: Any) -> Admitted:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return admit(path, {}, data, models=MODELS, limits=Limits())


def refusal(path: str, body: Any) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        send(path, body)
    assert refused.value.reasons
    return refused.value


def offering(path: str, *tools: Any, **more: Any) -> dict[str, Any]:
    return {**PLAIN[path], "tools": [OWN[path], *tools], **more}


def saying(path: str, *parts: Any) -> dict[str, Any]:
    """A request whose user message has these parts."""
    name = "input" if path == RESPONSES else "messages"
    return {**PLAIN[path], name: [{"role": "user", "content": list(parts)}]}


# --- tools that are only offered are removed -----------------------------------------------------------------------

HOSTED = [
    "web_search", "web_search_preview", "web_search_preview_2025_03_11", "Web_Search", "WEB_SEARCH", " web_search",
    "web_search\u0000", "w\u0435b_search", "web_fetch", "web_fetch_20250910", "web_search_20250305", "code_interpreter",
    "code_execution_20250825", "file_search", "computer_use_preview", "computer_use", "image_generation",
    "openrouter:web_search", "google_search", "googleSearch", "url_context", "browser_search", "live_search",
    "builtin_function", "retrieval", "connector", "x_search", "collections_search", "tool_search_tool_regex_20251119",
    "advisor_20260301", "",
]  # fmt: skip


@EACH
@pytest.mark.parametrize("kind", HOSTED)
def test_hosted_tools_are_removed(path: str, kind: str) -> None:
    tool = {"type": kind, "name": "web_search", "function": {"name": "f"}, "external_web_access": True}
    admitted = send(path, offering(path, tool))
    assert json.loads(admitted.body)["tools"] == [OWN[path]]
    assert [spec.name for spec in admitted.request.tools] == ["bash"]
    assert admitted.stripped == (f"tools: removed a tool of type {kind!a}, which is run by the provider",)


@EACH
def test_removing_all_tools_removes_the_tool_fields(path: str) -> None:
    """Servers do not accept an empty list, nor a choice without tools."""
    choice = {"type": "auto"} if path == MESSAGES else "auto"
    admitted = send(path, {**PLAIN[path], "tools": [{"type": "web_search"}], "tool_choice": choice})
    assert not {"tools", "tool_choice"} & set(json.loads(admitted.body))
    assert admitted.stripped


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "shell"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}},
        {"type": "tool_search"},
        {"type": "tool_search", "execution": "server"},
        {"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]},
    ],
    ids=json.dumps,
)
def test_hosted_tools_of_responses_are_removed(tool: dict[str, Any]) -> None:
    admitted = send(RESPONSES, offering(RESPONSES, tool))
    assert json.loads(admitted.body)["tools"] == [OWN[RESPONSES]]
    assert admitted.stripped


def test_hosted_tools_in_a_namespace_are_removed() -> None:
    inner = [OWN[RESPONSES], {"type": "web_search"}, {"type": "namespace", "name": "x", "tools": []}]
    admitted = send(RESPONSES, offering(RESPONSES, {"type": "namespace", "name": "n", "tools": inner}))
    assert json.loads(admitted.body)["tools"][1]["tools"] == [OWN[RESPONSES]]
    assert [spec.name for spec in admitted.request.tools] == ["bash", "n.bash"]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_hosted_tools_in_the_input_are_removed(kind: str) -> None:
    item = {"type": kind, "tools": [OWN[RESPONSES], {"type": "code_interpreter", "container": {"type": "auto"}}]}
    if kind == "tool_search_output":
        item |= {"execution": "client", "call_id": "c"}
    admitted = send(RESPONSES, {**PLAIN[RESPONSES], "input": [item, *PLAIN[RESPONSES]["input"]]})
    assert json.loads(admitted.body)["input"][0]["tools"] == [OWN[RESPONSES]]
    assert b"code_interpreter" not in admitted.body


def test_outputs_of_hosted_tools_are_not_requested() -> None:
    include = ["reasoning.encrypted_content", "web_search_call.action.sources", "file_search_call.results"]
    admitted = send(RESPONSES, {**PLAIN[RESPONSES], "include": include})
    assert json.loads(admitted.body)["include"] == include[:1]
    assert len(admitted.stripped) == 2


# --- tools that would act are refused ------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize(
    "tool",
    [
        {"type": "mcp", "server_label": "x", "server_url": "https://example.com"},
        {"type": ["web_search"]},
        {"type": {"web_search": {}}},
        {"type": 1},
        {"function": {"name": "f"}, "web_search": {}},
        {"google_search": {}},
        {"web_search": {"enable": True}},
        ["web_search"],
        "web_search",
        [[{"type": "web_search"}]],
    ],
    ids=json.dumps,
)
def test_malformed_tools_are_refused(path: str, tool: Any) -> None:
    refusal(path, offering(path, tool))


@EACH
@pytest.mark.parametrize("tools", [{"type": "web_search"}, "web_search", {"0": {"type": "web_search"}}, True])
def test_tools_are_an_array(path: str, tools: Any) -> None:
    assert "tools must be an array" in refusal(path, {**PLAIN[path], "tools": tools}).reasons[0]


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        (CHAT, {**OWN[CHAT], "web_search": {}}),
        (CHAT, {"type": "function", "function": {"name": "$web_search"}}),
        (CHAT, {"type": "function", "function": {"name": "f", "type": "web_search"}}),
        (CHAT, {"type": "custom", "custom": {"name": "f", "server_url": URL}}),
        (RESPONSES, {**OWN[RESPONSES], "server_url": URL}),
        (RESPONSES, {"type": "namespace", "name": "n", "server_url": URL, "tools": []}),
        (RESPONSES, {"type": "namespace", "name": "n", "tools": {"type": "web_search"}}),
        (RESPONSES, {"type": "namespace", "name": "n", "tools": [{"type": "mcp", "server_url": URL}]}),
        (RESPONSES, {"type": "shell", "environment": {"type": "local", "skills": [{"type": "skill_reference"}]}}),
        (MESSAGES, {**OWN[MESSAGES], "allowed_callers": ["code_execution_20250825"]}),
        (MESSAGES, {"type": "mcp_toolset", "mcp_server_name": "x"}),
        (MESSAGES, {"type": "MCP_toolset", "mcp_server_name": "x", "name": "f", "input_schema": {}, "url": URL}),
        (MESSAGES, {"type": "bash_20250124", "name": "bash", "container": "x"}),
        (MESSAGES, {"type": None, "name": "f", "input_schema": {}, "url": URL}),
    ],
    ids=str,
)
def test_fields_of_tools_are_allowed_one_by_one(path: str, tool: dict[str, Any]) -> None:
    if tool.get("type") == "MCP_toolset":
        assert json.loads(send(path, offering(path, tool)).body)["tools"] == [OWN[path]]
    else:
        refusal(path, offering(path, tool))


@EACH
def test_schemas_refer_only_to_themselves(path: str) -> None:
    def tool(reference: str) -> dict[str, Any]:
        schema = {"$schema": URL, "properties": {"$ref": {"anyOf": [{"$ref": reference}]}}, "$defs": {"a": {}}}
        return dict(json.loads(json.dumps(OWN[path]).replace('{"type": "object"}', json.dumps(schema))))

    send(path, {**PLAIN[path], "tools": [tool("#/$defs/a")]})
    for reference in (URL, "other.json", "", " #/$defs/a"):
        assert refusal(path, {**PLAIN[path], "tools": [tool(reference)]}).hosted_tool


@pytest.mark.parametrize(
    ("path", "choice"),
    [
        (CHAT, {"type": "web_search"}),
        (CHAT, {"type": "function", "function": {"name": "web_search"}}),
        (CHAT, {"type": "function", "function": {"name": "bash"}, "web_search": {}}),
        (CHAT, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "web_search"}]}}),
        (CHAT, ["auto"]),
        (RESPONSES, {"type": "web_search"}),
        (RESPONSES, {"type": "web_search_preview"}),
        (RESPONSES, {"type": "file_search"}),
        (RESPONSES, {"type": "mcp", "server_label": "x"}),
        (RESPONSES, {"type": ["web_search"]}),
        (RESPONSES, {"type": "function", "name": "web_search"}),
        (RESPONSES, {"type": "allowed_tools", "mode": "required", "tools": [{"type": "code_interpreter"}]}),
        (MESSAGES, {"type": "tool", "name": "web_search"}),
        (MESSAGES, {"type": "web_search"}),
        (MESSAGES, {"type": "auto", "web_search": True}),
        (MESSAGES, {"type": "tool", "name": ["web_search"]}),
    ],
    ids=str,
)
def test_choices_of_hosted_tools_are_refused(path: str, choice: Any) -> None:
    hosted = {"type": "web_search_20250305" if path == MESSAGES else "web_search", "name": "web_search"}
    refusal(path, offering(path, hosted, tool_choice=choice))


@EACH
def test_required_tool_call_needs_a_tool_of_the_agent(path: str) -> None:
    choice = {"type": "any"} if path == MESSAGES else "required"
    refused = refusal(path, {**PLAIN[path], "tools": [{"type": "web_search"}], "tool_choice": choice})
    assert refused.hosted_tool
    send(path, {**PLAIN[path], "tool_choice": choice})


@pytest.mark.parametrize(
    ("path", "choice"),
    [
        (CHAT, {"type": "function", "function": {"name": "bash"}}),
        (CHAT, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OWN[CHAT]]}}),
        (RESPONSES, {"type": "function", "name": "bash"}),
        (RESPONSES, {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "bash"}]}),
        (RESPONSES, {"type": "apply_patch"}),
        (MESSAGES, {"type": "tool", "name": "bash", "disable_parallel_tool_use": True}),
    ],
    ids=str,
)
def test_choices_of_the_agents_tools_are_forwarded(path: str, choice: Any) -> None:
    body = offering(path, {"type": "apply_patch"}) if choice["type"] == "apply_patch" else offering(path)
    assert json.loads(send(path, {**body, "tool_choice": choice}).body)["tool_choice"] == choice


def test_the_search_of_claude_code_is_refused() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    body = {**PLAIN[MESSAGES], "tools": [tool], "tool_choice": {"type": "tool", "name": "web_search"}}
    refused = refusal(MESSAGES, body)
    assert refused.hosted_tool
    assert refused.reasons == (
        "tool_choice names 'web_search', which is not one of the agent's tools: tools that the provider runs are not "
        "available; turn them off in the agent",
    )


# --- fields --------------------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {
    "plugins": [{"id": "web"}],
    "web_search_options": {},
    "web_search": True,
    "search_parameters": {"mode": "on"},
    "mcp_servers": [{"type": "url", "url": URL, "name": "x"}],
    "container": "c",
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "prompt": {"id": "pmpt_1"},
    "extra_body": {"tools": [{"type": "web_search"}]},
    "background": True,
    "service_tier": "priority",
    "models": ["a", "b"],
    "route": "fallback",
    "provider": {"order": ["x"]},
    "preset": "x",
    "transforms": ["middle-out"],
    "session_id": "x",
    "speed": "fast",
    "inference_geo": "us",
    "n": 2,
    "functions": [{"name": "f"}],
    "Tools": [{"type": "web_search"}],
    "tools ": [{"type": "web_search"}],
    "t\u043eols": [{"type": "web_search"}],
    "unknown": 1,
    "": 1,
    "__proto__": {"tools": []},
    "fallbacks": [{"model": "x"}],
    "prediction": {"type": "content", "content": "x"},
    "audio": {"voice": "x"},
    "betas": ["web-search-2025-03-05"],
    "file_ids": ["f"],
    "guardrails": [],
    "skills": [],
    "context_management": {"edits": [{"type": "compact_20260112"}]},
}
HOSTED_FIELDS = {
    "plugins", "web_search_options", "web_search", "search_parameters", "mcp_servers", "container",
    "previous_response_id", "conversation", "prompt", "extra_body", "file_ids",
}  # fmt: skip


@EACH
@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_allowed_one_by_one(path: str, name: str) -> None:
    refused = refusal(path, {**PLAIN[path], name: FIELDS[name]})
    assert ascii(name)[1:-1] in refused.reasons[0]
    if name in HOSTED_FIELDS:
        assert refused.hosted_tool


@EACH
def test_escaped_and_repeated_names(path: str) -> None:
    text = json.dumps(PLAIN[path])[:-1]
    hosted = '[{"type":"web_search"}]'
    assert "more than once" in refusal(path, f'{text}, "tools": {hosted}}}'.encode()).reasons[0]
    assert "more than once" in refusal(path, f'{text}, "to\\u006fls": {hosted}}}'.encode()).reasons[0]
    assert "more than once" in refusal(path, f'{text}, "t": {{"a": 1, "\\u0061": 2}}}}'.encode()).reasons[0]
    refusal(path, f'{text}, "plu\\u0067ins": [{{"id": "web"}}]}}'.encode())
    escaped = text.replace('"tools": [', '"tools": [{"type": "\\u0077eb_search"}, ') + "}"
    assert json.loads(send(path, escaped.encode()).body)["tools"] == [OWN[path]]


@EACH
def test_models_with_web_search_are_refused(path: str) -> None:
    for name in ("maker/model:online", "maker/model:ONLINE"):
        assert refusal(path, {**PLAIN[path], "model": name}).hosted_tool
    with pytest.raises(RefusedError, match="searches the web"):
        admit(path, {}, json.dumps(PLAIN[path]).encode(), models=ModelMap(names={"m": "x:online"}), limits=Limits())


# --- messages ------------------------------------------------------------------------------------------------------


def _image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _addition(definition: Any) -> dict[str, Any]:
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}


@pytest.mark.parametrize(
    "url",
    [
        URL, URL.upper(), "//example.com/x.png", "http://example.com", "ftp://x", "file:///etc/passwd", "gs://b/x.png",
        "data:image/svg+xml;base64,PHN2Zz4=", "data:text/html;base64,PHN2Zz4=", f"{PNG} {URL}", f"{PNG}\n{URL}",
        f" {PNG}",
        f"DATA:{PNG[5:]}", "data:image/png,x", "data:image/png;base64,", "", 1, [PNG], {"url": URL}, None,
    ],
)  # fmt: skip
def test_images_are_inline(url: Any) -> None:
    refusal(CHAT, saying(CHAT, _image(url)))
    refusal(RESPONSES, saying(RESPONSES, {"type": "input_image", "image_url": url}))
    refusal(MESSAGES, saying(MESSAGES, {"type": "image", "source": {"type": "base64", "media_type": "x", "data": url}}))
    refusal(MESSAGES, saying(MESSAGES, {"type": "image", "source": {"type": "url", "url": url}}))


def test_inline_images_are_forwarded() -> None:
    send(CHAT, saying(CHAT, _image(PNG)))
    send(RESPONSES, saying(RESPONSES, {"type": "input_image", "image_url": PNG, "detail": "high"}))
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    send(MESSAGES, saying(MESSAGES, {"type": "image", "source": source}))


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (CHAT, {"type": "file", "file": {"file_id": "f"}}),
        (CHAT, {"type": "file", "file": {"file_data": URL, "filename": "x.pdf"}}),
        (CHAT, {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "file_id": "f"}}),
        (CHAT, {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
        (CHAT, {"type": "video_url", "video_url": {"url": URL}}),
        (CHAT, {"type": "text", "text": "x", "image_url": {"url": URL}}),
        (CHAT, {"image_url": {"url": URL}}),
        (CHAT, {"type": "Image_URL", "image_url": {"url": URL}}),
        (RESPONSES, {"type": "input_image", "file_id": "f"}),
        (RESPONSES, {"type": "input_image", "image_url": PNG, "file_id": "f"}),
        (RESPONSES, {"type": "input_file", "file_url": URL}),
        (RESPONSES, {"type": "input_file", "file_id": "f"}),
        (RESPONSES, {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "file_url": URL}),
        (MESSAGES, {"type": "image", "source": {"type": "file", "file_id": "f"}}),
        (MESSAGES, {"type": "document", "source": {"type": "url", "url": URL}}),
        (MESSAGES, {"type": "document", "source": {"type": "file", "file_id": "f"}}),
        (MESSAGES, {"type": "document", "source": {"type": "content", "content": [REMOTE]}}),
        (MESSAGES, {"type": "tool_result", "tool_use_id": "t", "content": [REMOTE]}),
        (MESSAGES, {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "web_search_result", "url": URL}]}),
        (MESSAGES, {"type": "container_upload", "file_id": "f"}),
        (MESSAGES, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}),
        (MESSAGES, {"type": "mcp_tool_use", "id": "m", "name": "x", "server_name": "x", "input": {}}),
        (MESSAGES, {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "code_execution"}}),
        (MESSAGES, _addition({"type": "web_search_20250305", "name": "web_search"})),
        (MESSAGES, _addition({"type": "mcp_toolset"})),
        (MESSAGES, _addition(["web_search"])),
        (MESSAGES, {"type": "compaction", "content": "x"}),
    ],
    ids=str,
)  # fmt: skip
def test_parts_are_allowed_one_by_one(path: str, part: dict[str, Any]) -> None:
    refusal(path, saying(path, part))


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "x"},
        {"type": "web_search_call", "id": "x", "status": "completed"},
        {"type": "file_search_call", "id": "x", "queries": ["q"]},
        {"type": "computer_call", "id": "x"},
        {"type": "code_interpreter_call", "id": "x", "container_id": "c"},
        {"type": "image_generation_call", "id": "x"},
        {"type": "mcp_list_tools", "server_label": "x"},
        {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True},
        {"type": "mcp_call", "id": "x"},
        {"type": "compaction_trigger"},
        {"type": "tool_search_output", "execution": "server", "tools": []},
        {"type": "shell_call", "call_id": "c", "action": {}, "environment": {"type": "container_reference"}},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": URL}]},
        {"type": "additional_tools", "tools": [{"type": "mcp", "server_url": URL}]},
        {"type": "additional_tools", "tools": {"type": "web_search"}},
        {"type": ["message"], "role": "user", "content": "x"},
        {"id": "msg_1"},
        "x",
        None,
        [],
    ],
    ids=json.dumps,
)
def test_items_are_allowed_one_by_one(item: Any) -> None:
    refusal(RESPONSES, {**PLAIN[RESPONSES], "input": [item]})


# --- data elsewhere, in fields that hold anything ------------------------------------------------------------------

FILE = {"type": "file", "file": {"hash": "h", "content": [{"type": "image_url", "image_url": {"url": URL}}]}}
SHELL = {"type": "shell_call_output", "call_id": "c"}


def _answer(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", **fields}


def _called(**fields: Any) -> dict[str, Any]:
    return _answer(tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields}])


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        (CHAT, _answer(thinking_blocks=[{"type": "thinking", "thinking": "x", "source": {"type": "url", "url": URL}}])),
        (CHAT, _answer(thinking_blocks=[REMOTE])),
        (CHAT, _answer(thinking_blocks=[{"type": "document", "source": {"type": "url", "url": URL}}])),
        (CHAT, _answer(content=[{"type": "thinking", "thinking": "x", "image_url": {"url": URL}}])),
        (CHAT, _answer(content=[{"type": "thinking", "thinking": [{"type": "image_url", "image_url": URL}]}])),
        (CHAT, _answer(content=[{"type": "redacted_thinking", "data": "x", "url": URL}])),
        (CHAT, _answer(reasoning_details=[{"type": "reasoning.text", "text": "x", "image_url": URL}])),
        (CHAT, _answer(reasoning_details=[{"type": "reasoning.text", "text": "x", "file_ids": ["f"]}])),
        (CHAT, _answer(reasoning_details=[{"type": "reasoning.text", "source": {"type": "x"}}])),
        (CHAT, _answer(reasoning_details=[FILE])),
        (CHAT, _called(extra_content={"google": {"thought_signature": "s", "file_data": URL}})),
        (CHAT, _called(extra_content={"google": {"file_data": {"file_uri": URL}}})),
        (CHAT, _called(extra_content={"image_url": {"url": URL}})),
        (CHAT, _called(provider_specific_fields={"image_url": {"url": URL}})),
        (CHAT, _called(provider_specific_fields={"content": [REMOTE]})),
        (RESPONSES, {**SHELL, "output": [{"type": "input_image", "image_url": URL}]}),
        (RESPONSES, {**SHELL, "output": [{"type": "input_file", "file_id": "f"}]}),
        (RESPONSES, {**SHELL, "output": [{"stdout": "x", "outcome": {"type": "exit", "file_id": "f"}}]}),
        (RESPONSES, {**SHELL, "output": [{"stdout": [{"type": "input_image", "image_url": URL}]}]}),
        (RESPONSES, {"role": "user", "content": "x", "internal_chat_message_metadata_passthrough": {"a": [FILE]}}),
        (RESPONSES, {"type": "local_shell_call", "call_id": "c", "action": {"command": ["x"], "image_url": URL}}),
        (RESPONSES, {"type": "apply_patch_call", "call_id": "c", "operation": {"file_id": "f"}}),
    ],
    ids=str,
)  # fmt: skip
def test_data_in_unexpected_fields_of_entries_is_refused(path: str, entry: dict[str, Any]) -> None:
    name = "input" if path == RESPONSES else "messages"
    refusal(path, {**PLAIN[path], name: [*PLAIN[path][name], entry]})


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"logit_bias": {"url": URL}}),
        (CHAT, {"metadata": {"a": {"File_ID": "f"}}}),
        (RESPONSES, {"client_metadata": {"a": [{"image_url": URL}]}}),
        (RESPONSES, {"metadata": {"file_ids": ["f"]}}),
        (
            MESSAGES,
            {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": {"file_id": "f"}}]}},
        ),
        (
            CHAT,
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"tools": [{"type": "function", "function": {"name": "bash", "url": URL}}]},
                }
            },
        ),
    ],
    ids=str,
)
def test_data_in_unexpected_settings_is_refused(path: str, fields: dict[str, Any]) -> None:
    refusal(path, {**PLAIN[path], **fields})


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        (CHAT, _answer(annotations=[FILE])),
        (CHAT, _answer(annotations={"url": URL})),
        (CHAT, _answer(provider_specific_fields={"citations": [FILE]})),
        (RESPONSES, _answer(content=[{"type": "output_text", "text": "x", "annotations": [{"file_id": URL}]}])),
        (RESPONSES, _answer(content=[{"type": "output_text", "text": "x", "logprobs": [{"url": URL}]}])),
        (MESSAGES, _answer(content=[{"type": "text", "text": "x", "citations": [{"file_id": "f", "url": URL}]}])),
    ],
    ids=str,
)
def test_fields_that_models_do_not_read_are_removed(path: str, entry: dict[str, Any]) -> None:
    name = "input" if path == RESPONSES else "messages"
    admitted = send(path, {**PLAIN[path], name: [*PLAIN[path][name], entry]})
    assert URL.encode() not in admitted.body
    assert "removed from the conversation" in admitted.stripped[0]
    assert (admitted.request.messages[-1].content, admitted.request.messages[-1].opaque) == ("x", {})


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        (CHAT, _answer(thinking_blocks=[{"type": "thinking", "thinking": "x", "signature": "s"}])),
        (CHAT, _answer(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "x"}], "closed": True}])),
        (
            CHAT,
            _answer(
                reasoning_details=[
                    {
                        "type": "reasoning.encrypted",
                        "data": "x",
                        "id": None,
                        "format": "openai-responses-v1",
                        "index": 0,
                    }
                ]
            ),
        ),
        (CHAT, _called(extra_content={"google": {"thought_signature": "s"}})),
        (CHAT, _called(provider_specific_fields={"thought_signature": "s"})),
        (
            RESPONSES,
            {**SHELL, "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": -9}}]},
        ),
        (RESPONSES, {**SHELL, "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "timeout"}}]}),
        (MESSAGES, _answer(content=[{"type": "tool_use", "id": "t", "name": "f", "input": {"url": URL}}])),
    ],
    ids=str,
)
def test_fields_that_servers_require_are_forwarded(path: str, entry: dict[str, Any]) -> None:
    name = "input" if path == RESPONSES else "messages"
    admitted = send(path, {**PLAIN[path], name: [*PLAIN[path][name], entry]})
    assert json.loads(admitted.body)[name][-1] == entry
    assert not admitted.stripped


@EACH
@pytest.mark.parametrize("role", ["function", "Tool", "web_search", None, 1, ["user"]])
def test_roles(path: str, role: Any) -> None:
    name = "input" if path == RESPONSES else "messages"
    refusal(path, {**PLAIN[path], name: [{"role": role, "content": "x"}]})


@EACH
@pytest.mark.parametrize("messages", [[], {}, "", None, {"0": {"role": "user", "content": "x"}}])
def test_requests_without_messages_are_refused(path: str, messages: Any) -> None:
    refusal(path, {**PLAIN[path], "input" if path == RESPONSES else "messages": messages})


@EACH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1), ("temperature", 3), ("temperature", "1"), ("temperature", True), ("temperature", 10**30),
        ("top_p", 1.1), ("top_p", [1]), ("stream", "yes"), ("stream", 1), ("model", ""), ("model", ["m"]),
    ],
)  # fmt: skip
def test_values_of_settings(path: str, name: str, value: Any) -> None:
    assert name in refusal(path, {**PLAIN[path], name: value}).reasons[0]


@pytest.mark.parametrize("value", [0, -1, 1.5, "9", True, 10**9])
def test_values_of_output_limits(value: Any) -> None:
    for path, name in [(CHAT, "max_tokens"), (RESPONSES, "max_output_tokens"), (MESSAGES, "max_tokens")]:
        assert name in refusal(path, {**PLAIN[path], name: value}).reasons[0]


def test_reasons_are_few_and_short() -> None:
    body = {**PLAIN[CHAT], **{str(number) + "x" * 5_000: 1 for number in range(50)}}
    refused = refusal(CHAT, body)
    assert len(refused.reasons) == 10
    assert all(len(reason) < 200 for reason in refused.reasons)
