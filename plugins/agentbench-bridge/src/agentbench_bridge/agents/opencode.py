"""The ``opencode`` agent: OpenCode in its headless mode."""

from __future__ import annotations

import json

import attrs

from agentbench_bridge.agents.program import Launch, Place, ProgramRunner
from agentbench_bridge.options import OpenCodeOptions
from agentbench_bridge.programs.store import Program, program_for

_PACKAGES = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}
"""The client libraries that are part of the program, by protocol."""


@attrs.frozen
class _Recipe:
    options: OpenCodeOptions
    program: Program

    def launch(self, place: Place, instruction: str) -> Launch:
        home = f"{place.home}/opencode"
        config = {
            "autoupdate": False,
            "share": "disabled",
            "model": f"agentbench/{place.model}",
            "small_model": f"agentbench/{place.model}",
            "permission": {"webfetch": "deny"},
            "provider": {
                "agentbench": {
                    "npm": _PACKAGES[self.options.protocol],
                    "name": "AgentBench",
                    "options": {"baseURL": f"{place.url}/v1", "apiKey": "{env:AGENTBENCH_API_KEY}", "timeout": False},
                    "models": {place.model: {}},
                }
            },
        }
        return Launch(
            argv=[
                f"{place.program}/{self.program.entry}",
                "run",
                "--model",
                f"agentbench/{place.model}",
                "--format",
                "json",
                "--title",
                "task",  # otherwise, a model call invents one
                "--dangerously-skip-permissions",
                *self.options.arguments,
            ],
            env={
                "OPENCODE_CONFIG": f"{home}/opencode.json",
                "AGENTBENCH_API_KEY": place.secret,
                "XDG_CONFIG_HOME": f"{home}/config",
                "XDG_DATA_HOME": f"{home}/data",
                "XDG_STATE_HOME": f"{home}/state",
                "XDG_CACHE_HOME": f"{home}/cache",
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            },
            files={f"{home}/opencode.json": json.dumps(config, indent=2)},
            sessions=f"{home}/data/opencode/storage",
        )


class OpenCode(ProgramRunner):
    """Implements ``ProgramAgent`` with OpenCode."""

    def __init__(self, options: OpenCodeOptions) -> None:
        super().__init__(options, lambda: _Recipe(options, program_for("opencode", options.version, options.program)))
