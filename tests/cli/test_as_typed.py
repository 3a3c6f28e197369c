"""Commands with as few flags as possible: which sandbox and model are selected, and what is reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ended

PRESETS = """
version: "7"
default: short
models:
  short: {model: long/name, llm: {name: openrouter}}
"""

RULES = """
    import attrs
    from agentbench_core import Completion, Message, ModelFacts, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Rules:
        def __init__(self, options):
            pass
        def preflight(self, expected):
            assert expected.request.model == "rules", expected
            return ModelFacts()
        def complete(self, request, call):
            fix = ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}, id=str(len(request.messages)))
            return Completion(message=Message(role="assistant", tool_calls=(fix,)), finish="tool_calls")
        def close(self):
            pass

    @hookimpl
    def agentbench_register_llms(register):
        register("rules", Rules, Options, summary="one rule", capabilities={"offline"})
"""


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Docker engine and no key."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)


def shown(done: Ended) -> Mapping[str, Mapping[str, str]]:
    """Map settings to their value and origin by variant, from the output of ``config show --json``."""
    return {
        name: {key: f"{leaf['value']} ({leaf['origin']})" for key, leaf in leaves.items()}
        for name, leaves in json.loads(done.out).items()
    }


@pytest.mark.usefixtures("nothing_here")
def test_all_problems_are_reported_at_once(make_task: Any, agentbench: Any) -> None:
    """If engine and key, or engine and model, are missing, one error names both, with remedies."""
    make_task()
    run = ("run", "--suite", "mini", "--agent", "baseline")
    refused = agentbench(*run, "--model", "any")
    assert refused.code == 3
    assert "note: using the docker sandbox, because the agent uses a model" in refused.err
    assert "2 problems must be fixed first\n- " in refused.err
    assert "export OPENROUTER_API_KEY=" in refused.err
    assert "/nowhere/docker.sock" in refused.err
    modelless = agentbench(*run)
    assert modelless.code == 3
    assert "--model NAME" in modelless.err
    assert "/nowhere/docker.sock" in modelless.err
    assert "/nowhere" not in agentbench(*run, "--allow-unisolated").err, "no engine is needed then"
    assert agentbench("run", "--suite", "mini", "--agent", "scripted").code == 0, "this agent uses no model"


def test_agents_with_a_model_run_isolated_by_default(make_task: Any, agentbench: Any) -> None:
    """They run in the isolated sandbox unless another one is named."""
    make_task()
    show = ("config", "show", "--json")
    chosen = agentbench(*show, "--agent", "baseline")
    assert shown(chosen)["baseline"]["sandbox.name"] == "docker (the isolated sandbox)"
    assert "to use a different one: --sandbox NAME" in chosen.err
    assert shown(agentbench(*show, "--agent", "scripted"))["scripted"]["sandbox.name"] == "local (default)"
    Path("agentbench.toml").write_text("sandbox = 'local'\n")
    named = agentbench("run", "--suite", "mini", "--agent", "baseline", "--model", "any")
    assert (named.code, "the 'local' sandbox, which is not isolated" in named.err) == (3, True)


def test_a_variant_names_its_sandbox(agentbench: Any) -> None:
    """It applies to all variants of the command, since they share one; conflicting sandboxes are refused."""
    Path("there.yaml").write_text("agent: scripted\nsandbox: {name: docker, workspace_mb: 999}\n")
    Path("here.yaml").write_text("agent: scripted\nsandbox: local\n")
    show = ("config", "show", "--json", "--variant", "there.yaml", "--variant")
    both = shown(agentbench(*show, "idle"))
    assert both["there"]["sandbox.name"] == both["idle"]["sandbox.name"] == "docker (there.yaml)"
    assert both["idle"]["sandbox.workspace_mb"] == "999 (there.yaml)"
    refused = agentbench(*show, "here.yaml")
    assert refused.code == 2
    assert "variants use different sandboxes: there docker, here local" in refused.err
    assert agentbench(*show, "here.yaml", "--sandbox", "local").code == 0


def test_the_default_model(agentbench: Any) -> None:
    """The default preset is used if an agent needs a model and neither model nor provider is named."""
    Path("configs").mkdir()
    Path("configs/models.yaml").write_text(PRESETS)
    show = ("config", "show", "--json", "--agent", "baseline")
    chosen = agentbench(*show)
    assert shown(chosen)["baseline"]["model.name"] == "long/name (configs/models.yaml version 7, short)"
    assert "note: using model short (configs/models.yaml version 7, default)" in chosen.err
    assert shown(agentbench(*show, "--model", "other"))["baseline"]["model.name"] == "other (--model)"
    assert shown(agentbench(*show, "--llm", "openrouter"))["baseline"]["model.name"] == " (default)"
    assert shown(agentbench("config", "show", "--json", "--agent", "idle"))["idle"]["model.name"] == " (default)"
    Path("configs/models.yaml").write_text(PRESETS.replace("default: short", "default: shor"))
    wrong = agentbench(*show)
    assert (wrong.code, "default: no preset is named 'shor' (did you mean 'short'?)" in wrong.err) == (2, True)


@pytest.mark.usefixtures("nothing_here")
def test_a_model_that_is_offline(make_task: Any, agentbench: Any, plugin: Any, records: Any) -> None:
    """It must be selected explicitly, and needs neither a model name nor an isolated sandbox."""
    plugin("rules", RULES)
    make_task()
    run = ("run", "--suite", "mini", "--agent", "baseline")
    modelless = agentbench("--no-plugin", "openrouter", *run, "--allow-unisolated")
    assert (modelless.code, "no installed plugin provides one" in modelless.err) == (3, True)
    assert "To try it offline, without a model: --llm " in modelless.err
    done = agentbench(*run, "--llm", "rules")
    assert "1 of 1 scored attempts passed" in done.out, done.err
    (record,) = records()
    assert (record["model"]["provider"], record["model"]["name"]) == ("rules", "rules")
    assert not record["sandbox"]["isolated"]
    (directory,) = Path("artifacts/runs").iterdir()
    again = agentbench("run", "--like", str(directory), "--out", "again")
    assert "1 of 1 scored attempts passed" in again.out, again.err


def test_a_model_that_is_offline_beside_another(agentbench: Any, plugin: Any) -> None:
    """All variants share the sandbox, and one of them needs isolation."""
    plugin("rules", RULES)
    Path("rules.yaml").write_text("agent: baseline\nllm: rules\n")
    Path("other.yaml").write_text("agent: baseline\nllm: openrouter\nmodel: any\n")
    show = ("config", "show", "--json", "--variant", "rules.yaml")
    alone, both = shown(agentbench(*show)), shown(agentbench(*show, "--variant", "other.yaml"))
    assert alone["rules"]["sandbox.name"] == "local (default)"
    assert alone["rules"]["model.name"] == "rules (the model of the rules llm)"
    assert both["rules"]["sandbox.name"] == both["other"]["sandbox.name"] == "docker (the isolated sandbox)"
    assert both["other"]["model.name"] == "any (other.yaml)"
