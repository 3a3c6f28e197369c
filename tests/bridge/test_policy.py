"""What the gateway refuses, as seen by the program and in the record."""

from __future__ import annotations

import json

import pytest

from tests.bridge.conftest import Bridge, setting

DEMANDS = {
    "chat": ("/v1/chat/completions", '{"web_search_options": {}}'),
    "responses": (
        "/v1/responses",
        '{"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}',
    ),
    "messages": (
        "/v1/messages",
        '{"max_tokens": 100, "tools": [{"type": "web_search_20250305", "name": "web_search"}], '
        '"tool_choice": {"type": "tool", "name": "web_search"}}',
    ),
}


@pytest.mark.parametrize("protocol", DEMANDS)
def test_required_tool_of_the_provider_is_refused(bridge: Bridge, protocol: str) -> None:
    """E10: Status 400 with the reason, an event, a label, and the attempt goes on."""
    path, fields = DEMANDS[protocol]
    run = bridge.run(f"print(*ask(path={path!r}, **json.loads({fields!r}))); print(ask()[0]); fix()")
    assert run.outcome == ("completed", True), run.ended.err
    refused, after = run.stdout.splitlines()
    assert refused.startswith("400 ")
    assert "web_search" in json.loads(refused.partition(" ")[2])["error"]["message"]
    assert after == "200"
    assert len(bridge.server.model_requests) == 1
    assert "web_search" in run.labels["provider_tool_refused"]
    assert len(run.labels) == 1
    assert any("web_search" in message for message in run.warnings)


def test_an_offered_tool_of_the_provider(bridge: Bridge) -> None:
    """E10: It is removed, with one warning however often it is offered, and without a label."""
    run = bridge.run(
        """
        own = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
        for number in range(3):
            print(ask(f"question {number}", "/v1/responses", tools=[{"type": "web_search"}, own])[0])
        fix()
        """
    )
    assert run.outcome == ("completed", True), run.ended.err
    assert run.stdout.split() == ["200"] * 3
    for seen in bridge.server.model_requests:
        assert [tool["type"] for tool in seen.body["tools"]] == ["function"]
        assert seen.body["store"] is False
    assert len([message for message in run.warnings if "web_search" in message]) == 1
    assert run.labels == {}


def test_a_model_that_is_not_mapped(bridge: Bridge) -> None:
    """E10: It is refused with the option that maps it; with it, the program gets the variant's model."""
    script = "print(*ask(model='small-model')); print(ask()[0]); fix()"
    run = bridge.run(script, out="one")
    refused, after = run.stdout.splitlines()
    assert refused.startswith("400 ")
    assert "small-model" in refused
    assert "--set agent.models=['small-model']" in refused
    assert after == "200"
    assert "small-model" in run.labels["request_refused"]
    run = bridge.run(script, *setting(agent__models="[small-model]"), out="two")
    assert [line[:3] for line in run.stdout.splitlines()] == ["200", "200"]
    assert {seen.body["model"] for seen in bridge.server.model_requests} == {"loopback/mechanic"}
    assert run.labels == {}


def test_the_settings_of_the_variant(bridge: Bridge) -> None:
    """Sampling and the output limit are the variant's, whatever the program asks for."""
    flags = setting(model__temperature=0.25, model__max_tokens=500)
    run = bridge.run("print(ask(temperature=1, max_tokens=9000)[0], ask(max_tokens=20)[0]); fix()", *flags)
    assert run.stdout.split() == ["200", "200"]
    sent = [seen.body for seen in bridge.server.model_requests]
    assert [body["temperature"] for body in sent] == [0.25, 0.25]
    assert [body["max_tokens"] for body in sent] == [500, 20]
