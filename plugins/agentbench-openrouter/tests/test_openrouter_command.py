"""``agentbench openrouter models`` and ``key`` against a server on loopback."""

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from agentbench_core import AgentBenchError, InputError, UnavailableError
from agentbench_openrouter.command import openrouter
from agentbench_openrouter.models import parse_models, table

SECRET = "sk-or-v1-PLANTED0123456789"
LISTED = {
    "data": [
        {
            "id": "zoo/big",
            "name": "Zoo: Big",
            "context_length": 200000,
            "pricing": {"prompt": "0.000003", "completion": "0.000015"},
            "supported_parameters": ["tools", "temperature"],
        },
        {
            "id": "acme/small",
            "name": "Acme: Small",
            "context_length": 8192,
            "pricing": {"prompt": "0.0000000375", "completion": "0"},
            "supported_parameters": ["temperature"],
        },
        {"id": "acme/auto", "context_length": None, "pricing": {"prompt": "-1", "completion": "-1"}},
        {"id": "local", "max_model_len": 4096},
        {"object": "no model"},
    ]
}


def run(server: Any, *arguments: str, secret: str | None = SECRET) -> Result:
    command = [*arguments, "--base-url", server.url, "--key-env", "TEST_KEY"]
    result = CliRunner().invoke(openrouter, command, env={"TEST_KEY": secret})
    assert SECRET not in f"{result.output} {result.exception!r} {result.exception}"
    return result


def failure(result: Result, kind: type[AgentBenchError] = UnavailableError) -> AgentBenchError:
    assert isinstance(result.exception, kind), result
    return result.exception


def test_models_as_a_table(server: Any) -> None:
    server.says(json.dumps(LISTED))
    assert run(server, "models").output.splitlines() == [
        "model       context  in $/M  out $/M  tools",
        "acme/auto         ?       ?        ?      ?",
        "acme/small     8192  0.0375        0     no",
        "local          4096       ?        ?      ?",
        "zoo/big      200000       3       15    yes",
    ]


def test_models_as_json(server: Any) -> None:
    server.says(json.dumps(LISTED))
    assert json.loads(run(server, "models", "big", "--json").output) == [
        {
            "id": "zoo/big",
            "name": "Zoo: Big",
            "context_length": 200000,
            "usd_per_million_input": 3.0,
            "usd_per_million_output": 15.0,
            "tools": True,
        }
    ]


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("acme", ["acme/auto", "acme/small"]),
        ("ACME/*", ["acme/auto", "acme/small"]),
        ("*/big", ["zoo/big"]),
        ("Zoo:", ["zoo/big"]),
    ],
)
def test_a_pattern_selects(server: Any, pattern: str, ids: list[str]) -> None:
    server.says(json.dumps(LISTED))
    assert [m["id"] for m in json.loads(run(server, "models", pattern, "--json").output)] == ids


def test_a_pattern_that_matches_nothing_names_the_nearest(server: Any) -> None:
    server.says(json.dumps(LISTED))
    error = failure(run(server, "models", "acme/smal1"), InputError)
    assert "did you mean 'acme/small'?" in error.message


def test_models_without_a_key_if_the_server_requires_none(server: Any) -> None:
    server.says(json.dumps(LISTED))
    assert run(server, "models", secret=None).exit_code == 0
    assert server.authorizations == [None]


def test_models_name_the_variable_if_the_server_requires_a_key(server: Any) -> None:
    server.says("{}", status=401)
    error = failure(run(server, "models", secret=None))
    assert error.exit_code == 3
    assert error.remedy == "Run: export TEST_KEY=..."


@pytest.mark.parametrize("body", ["{}", '"x"', "3", '{"data": {}}', "null"])
def test_invalid_list_of_models_is_an_error(server: Any, body: str) -> None:
    server.says(body)
    assert "does not return a list of models" in failure(run(server, "models")).message


def test_key(server: Any) -> None:
    data = {"label": "sk-or-v1-abc...xyz", "limit": 25, "limit_remaining": 20.63, "usage": 4.37, "is_free_tier": False}
    server.says(json.dumps({"data": data}))
    assert run(server, "key").output.splitlines() == [
        "label      sk-or-v1-abc...xyz",
        "limit      25 USD",
        "remaining  20.63 USD",
        "used       4.37 USD",
        "free tier  no",
    ]
    assert server.paths == ["/v1/key"]


def test_a_key_without_a_limit(server: Any) -> None:
    server.says('{"data": {"label": "x", "limit": null, "limit_remaining": null, "usage": 0, "is_free_tier": []}}')
    assert run(server, "key").output.splitlines()[1:] == [
        "limit      none",
        "remaining  no limit",
        "used       0 USD",
        "free tier  unknown",
    ]
    assert json.loads(run(server, "key", "--json").output)["limit"] is None


def test_missing_key_is_reported_without_a_request(server: Any) -> None:
    error = failure(run(server, "key", secret=None))
    assert error.exit_code == 3
    assert error.remedy == "Run: export TEST_KEY=..."
    assert server.paths == []


@pytest.mark.parametrize("named", [True, False])
def test_openrouter_key_is_sent_only_to_openrouter(server: Any, named: bool) -> None:
    server.says(json.dumps(LISTED))
    command = ["models", "--base-url", server.url, *(["--key-env", "OPENROUTER_API_KEY"] if named else [])]
    assert CliRunner().invoke(openrouter, command, env={"OPENROUTER_API_KEY": SECRET}).exit_code == 0
    assert server.authorizations == [f"Bearer {SECRET}" if named else None]


def test_no_variable_for_the_key_is_configured(server: Any) -> None:
    result = CliRunner().invoke(openrouter, ["key", "--base-url", server.url], env={"OPENROUTER_API_KEY": SECRET})
    assert "no environment variable for it is configured" in failure(result).message
    assert server.paths == []


def test_server_without_a_key_endpoint(server: Any) -> None:
    server.says('{"detail": "Not Found"}', status=404)
    assert "has no /key" in failure(run(server, "key")).message


def test_invalid_response_of_the_key_endpoint(server: Any) -> None:
    server.says("[]")
    assert "does not describe a key" in failure(run(server, "key")).message


def test_a_timeout_is_exit_3_with_the_seconds(server: Any) -> None:
    server.answer = lambda request: server.over.wait()
    started = time.monotonic()
    error = failure(run(server, "models", "--timeout", "0.5"))
    assert time.monotonic() - started < 60
    assert "within 0.5 s" in error.message
    assert error.exit_code == 3


def test_a_pasted_key_is_not_shown() -> None:
    result = CliRunner().invoke(openrouter, ["key", "--key-env", SECRET])
    assert isinstance(result.exception, InputError)
    assert SECRET not in f"{result.output} {result.exception}"


def test_hostile_names_do_not_reach_the_terminal(server: Any) -> None:
    server.says(json.dumps({"data": [{"id": "evil\x1b]52;c;x\x07\nname"}]}))
    assert run(server, "models").output.splitlines()[1].startswith("evil?]52;c;x??name ")


_plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_json = st.recursive(_plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))
_fields = st.sampled_from(["id", "name", "context_length", "pricing", "supported_parameters"])


@given(st.lists(st.dictionaries(_fields, st.dictionaries(st.sampled_from(["prompt", "completion"]), _plain) | _json)))
def test_any_list_is_read(entries: list[Any]) -> None:
    table(parse_models({"data": entries}))
