"""The ``command`` agent: any program that calls a model through OpenAI's or Anthropic's API."""

from __future__ import annotations

import attrs

from agentbench_bridge.agents.program import Launch, Place, ProgramRunner
from agentbench_bridge.options import CommandOptions
from agentbench_bridge.programs.store import Program, find, from_directory
from agentbench_bridge.programs.versions import parse
from agentbench_core import InputError


@attrs.frozen
class _Recipe:
    options: CommandOptions
    program: Program | None

    def launch(self, place: Place, instruction: str) -> Launch:
        prompt_file = f"{place.home}/prompt.txt"
        as_argument = self.options.prompt == "argument"
        command = self.options.command.replace("{program}", place.program)
        # The shell passes the arguments on to the command's last word: the user's own, then the instruction.
        script = f'{command} "$@"'
        if self.options.prompt != "stdin":
            script = f"{script} </dev/null"
        last = [*self.options.arguments, *([instruction] if as_argument else [])]
        return Launch(
            argv=["sh", "-c", script, "sh", *last],
            env={
                **_endpoints(place),
                "AGENTBENCH_BASE_URL": place.url,
                "AGENTBENCH_API_KEY": place.secret,
                "AGENTBENCH_MODEL": place.model,
                "AGENTBENCH_PROGRAM": place.program,
                "AGENTBENCH_PROMPT_FILE": prompt_file,
            },
        )


def _endpoints(place: Place) -> dict[str, str]:
    """The variables from which common clients read their server, key and model."""
    openai, anthropic = f"{place.url}/v1", place.url
    return {
        "OPENAI_BASE_URL": openai,
        "OPENAI_API_BASE": openai,
        "OPENAI_API_KEY": place.secret,
        "OPENAI_MODEL": place.model,
        "ANTHROPIC_BASE_URL": anthropic,
        "ANTHROPIC_API_KEY": place.secret,
        "ANTHROPIC_MODEL": place.model,
        "OPENROUTER_BASE_URL": openai,
        "OPENROUTER_API_KEY": place.secret,
    }


class AnyCommand(ProgramRunner):
    """Implements ``ProgramAgent`` with the user's own command."""

    def __init__(self, options: CommandOptions) -> None:
        super().__init__(options, lambda: _recipe(options))


def _recipe(options: CommandOptions) -> _Recipe:
    if not options.command.strip():
        raise InputError(
            "the 'command' agent has no command", remedy="Set it, for example: --set agent.command='my-agent --yes'"
        )
    if options.program and options.installed:
        raise InputError("agent.program and agent.installed cannot both be set", remedy="Remove one of them.")
    program = from_directory(options.program) if options.program else None
    if options.installed:
        program = find(parse(options.installed))
    return _Recipe(options, program)
