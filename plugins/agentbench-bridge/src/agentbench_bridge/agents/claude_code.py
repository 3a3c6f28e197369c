"""The ``claude-code`` agent: Claude Code in its headless mode."""

from __future__ import annotations

import attrs

from agentbench_bridge.agents.program import Launch, Place, ProgramRunner
from agentbench_bridge.options import ClaudeCodeOptions
from agentbench_bridge.programs.store import Program, program_for

_OFF = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_BUG_COMMAND",
)
_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)


@attrs.frozen
class _Recipe:
    options: ClaudeCodeOptions
    program: Program

    def launch(self, place: Place, instruction: str) -> Launch:
        home = f"{place.home}/claude"
        disallowed = self.options.disallowed_tools
        return Launch(
            argv=[
                f"{place.program}/{self.program.entry}",
                "--print",
                "--output-format",
                "stream-json",
                "--verbose",
                "--dangerously-skip-permissions",
                *(["--disallowedTools", ",".join(disallowed)] if disallowed else []),
                *self.options.arguments,
            ],
            env={
                "ANTHROPIC_BASE_URL": place.url,
                "ANTHROPIC_AUTH_TOKEN": place.secret,
                "CLAUDE_CONFIG_DIR": home,
                "IS_SANDBOX": "1",
                "API_TIMEOUT_MS": "3600000",
                "CLAUDE_CODE_MAX_RETRIES": "2",
                **dict.fromkeys(_MODELS, place.model),
                **dict.fromkeys(_OFF, "1"),
            },
            files={f"{home}/settings.json": "{}\n"},
            sessions=f"{home}/projects",
        )


class ClaudeCode(ProgramRunner):
    """Implements ``ProgramAgent`` with Claude Code."""

    def __init__(self, options: ClaudeCodeOptions) -> None:
        super().__init__(
            options, lambda: _Recipe(options, program_for("claude-code", options.version, options.program))
        )
