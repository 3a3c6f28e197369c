"""The ``codex`` agent: Codex CLI in its headless mode."""

from __future__ import annotations

import json

import attrs

from agentbench_bridge.agents.program import Launch, Place, ProgramRunner
from agentbench_bridge.options import CodexOptions
from agentbench_bridge.programs.store import Program, program_for


@attrs.frozen
class _Recipe:
    options: CodexOptions
    program: Program

    def launch(self, place: Place, instruction: str) -> Launch:
        provider = {
            "name": "AgentBench",
            "base_url": f"{place.url}/v1",
            "env_key": "OPENAI_API_KEY",
            "wire_api": "responses",
            "request_max_retries": 2,
            "stream_max_retries": 0,
            "stream_idle_timeout_ms": 600_000,
        }
        settings = {
            "model_provider": '"agentbench"',
            # a built-in provider cannot be changed, so this defines another one
            "model_providers.agentbench": _inline_table(provider),
            "web_search": '"disabled"',
            "analytics.enabled": "false",
            "check_for_update_on_startup": "false",
            "history.persistence": '"none"',
        }
        if self.options.reasoning_effort:
            settings["model_reasoning_effort"] = json.dumps(self.options.reasoning_effort)
        configured = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        home = f"{place.home}/codex"
        return Launch(
            argv=[
                f"{place.program}/{self.program.entry}",
                "exec",
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "--model",
                place.model,
                *configured,
                *self.options.arguments,
                "-",
            ],
            env={"CODEX_HOME": home, "OPENAI_API_KEY": place.secret},
            files={f"{home}/config.toml": ""},  # the directory must exist
            sessions=f"{home}/sessions",
        )


def _inline_table(values: dict[str, object]) -> str:
    """A TOML inline table. JSON strings and integers are valid TOML."""
    return "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items()) + "}"


class Codex(ProgramRunner):
    """Implements ``ProgramAgent`` with Codex CLI."""

    def __init__(self, options: CodexOptions) -> None:
        super().__init__(options, lambda: _Recipe(options, program_for("codex", options.version, options.program)))
