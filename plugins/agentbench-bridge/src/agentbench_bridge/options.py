"""Options of the agents; imported by every command, so without heavy imports."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class ProgramOptions:
    """Options shared by all agents of this distribution. A base class."""

    program: str = option("", help="directory that contains a program to use instead of the installed one")
    slug: str = option(
        "", help="name of the model as shown to the program; empty: the last part of the variant's model"
    )
    models: tuple[str, ...] = option(
        (), help="additional model names that the program may request; all of them map to the variant's model"
    )
    arguments: tuple[str, ...] = option((), help="additional arguments for the program")
    env: tuple[str, ...] = option(
        (), help="additional environment variables for the program, as NAME=VALUE; no secrets"
    )


@attrs.frozen(kw_only=True)
class InstalledOptions(ProgramOptions):
    """Options of agents whose program can be installed."""

    version: str = option("", help="version of the installed program to use; empty: the default version")


@attrs.frozen(kw_only=True)
class ClaudeCodeOptions(InstalledOptions):
    """Options of the ``claude-code`` agent."""

    disallowed_tools: tuple[str, ...] = option(
        ("WebSearch", "WebFetch"), help="tools that the program must not use; tools that need the internet cannot work"
    )


@attrs.frozen(kw_only=True)
class CodexOptions(InstalledOptions):
    """Options of the ``codex`` agent."""

    reasoning_effort: Literal["", "minimal", "low", "medium", "high", "xhigh"] = option(
        "", help="reasoning effort; empty: the program's default"
    )


@attrs.frozen(kw_only=True)
class OpenCodeOptions(InstalledOptions):
    """Options of the ``opencode`` agent."""

    protocol: Literal["chat", "responses", "messages"] = option("chat", help="protocol for model requests")


@attrs.frozen(kw_only=True)
class CommandOptions(ProgramOptions):
    """Options of the ``command`` agent."""

    installed: str = option(
        "", help="installed program to use instead of a directory, as NAME or NAME@VERSION, for example mini-swe-agent"
    )
    command: str = option("", help="shell command that runs the program; {program} is replaced by its directory")
    prompt: Literal["argument", "file", "stdin"] = option(
        "stdin",
        help="how the instruction is passed: as the last argument, in the file $AGENTBENCH_PROMPT_FILE, or on stdin",
    )
