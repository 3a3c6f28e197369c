"""What is wrong before a run starts: each obstacle with its remedy, together, without a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bridge.conftest import Bridge, setting

COMMAND = setting(agent__command="sh agent.sh")

CASES: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "unknown model": (
        (*COMMAND, "--model", "loopback/meccanic", *setting(llm__dialect="openrouter")),
        2,
        ("no model 'loopback/meccanic'", "did you mean 'loopback/mechanic'", "agentbench openrouter models"),
    ),
    "missing key": ((*COMMAND, *setting(llm__key_env="NO_SUCH_KEY")), 3, ("NO_SUCH_KEY",)),
    "rejected key": ((*COMMAND, *setting(llm__key_env="WRONG_KEY")), 3, ("key",)),
    "no program": (("--agent", "codex"), 3, ("codex", "agentbench agents install codex")),
    "no such version": (
        ("--agent", "codex", *setting(agent__version="0.0.1")),
        3,
        ("0.0.1", "agentbench agents install codex@0.0.1"),
    ),
    "no command": ((), 2, ("the 'command' agent has no command", "--set agent.command=")),
    "no such directory": ((*COMMAND, *setting(agent__program="nowhere")), 2, ("'nowhere' is not a directory",)),
    "two programs": ((*COMMAND, *setting(agent__program=".", agent__installed="codex")), 2, ("cannot both be set",)),
    "a variable": ((*COMMAND, *setting(agent__env="[A B]")), 2, ("agent.env", "NAME=VALUE")),
    "a sandbox that cannot run programs": (
        (*COMMAND, "--sandbox", "bare"),
        3,
        ("'bare'", "--sandbox docker"),
    ),
    "no model": ((*COMMAND, "--model", ""), 2, ("--model",)),
}

BARE = """
    import attrs
    from agentbench_core import hookimpl

    @attrs.frozen
    class Options:
        pass

    class Bare:
        def preflight(self, specs):
            return []
        def close(self):
            pass

    @hookimpl
    def agentbench_register_sandboxes(register):
        register("bare", lambda options: Bare(), Options, summary="", capabilities={"isolated"})
"""


@pytest.mark.parametrize("name", CASES)
def test_invalid_input_is_refused_before_a_run(
    bridge: Bridge, name: str, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error, without a run directory, and nothing was asked of the model."""
    plugin("bare", BARE)
    monkeypatch.setenv("WRONG_KEY", "sk-or-v1-" + "0" * 64)
    flags, code, words = CASES[name]
    ended = bridge.command("run", *bridge.flags(*flags), "--out", "runs")
    assert ended.code == code, ended.err
    for word in words:
        assert word in ended.err, ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err.splitlines()) <= 6, ended.err
    assert not Path("runs").exists()
    assert bridge.server.model_requests == []


def test_all_problems_are_reported_at_once(bridge: Bridge, plugin: Any) -> None:
    """The program, the provider and the sandbox are checked before anything is reported."""
    plugin("bare", BARE)
    ended = bridge.command(
        "run", "--suite", "mini", "--agent", "codex", "--llm", "mechanic", "--sandbox", "bare", "--model", "x"
    )
    assert ended.code == 3, ended.err
    assert ended.err.startswith("error: 5 problems must be fixed first\n")
    for words in (
        "sandbox 'bare'",
        "llm 'mechanic'",
        "no method 'prepare'",
        "not 'x'",
        "--llm openrouter",
        "agents install codex",
    ):
        assert words in ended.err
    assert len(ended.err.splitlines()) <= 12
