"""mini-swe-agent's own configuration, read from the installed package: prompts, templates, variables of commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import minisweagent
from minisweagent.agents.default import AgentConfig
from minisweagent.config import builtin_config_dir

from agentbench_core import InputError, Prompt, read_yaml

_TEXT_MODE = "mswea_bash_command"
"""Marks commands in the words of a model; the configurations for tool calls do not have it."""
_NEEDED = ("observation_template", "format_error_template")


@attrs.frozen(kw_only=True)
class Configuration:
    """One YAML file. ``version`` names its text and the release of mini-swe-agent."""

    version: str
    agent: Mapping[str, Any]
    model: Mapping[str, Any]
    env: Mapping[str, str]
    """Variables that every command gets."""

    @classmethod
    def read(cls, name: str) -> Configuration:
        """A file of the package, or one by its absolute path. Raises InputError where it is none for tool calls."""
        path = Path(builtin_config_dir) / name
        if not path.is_file():
            known = ", ".join(sorted(found.name for found in Path(builtin_config_dir).glob("*.yaml")))
            raise InputError(f"mini-swe-agent has no configuration {name!r}", remedy=f"It has: {known}")
        text, given = path.read_text(encoding="utf-8"), read_yaml(path)
        sections = {section: _section(given, section) for section in ("agent", "model", "environment")}
        if missing := [key for key in _NEEDED if key not in sections["model"]]:
            raise InputError(f"{path}: `model` lacks {', '.join(missing)}", remedy="See mini.yaml of mini-swe-agent.")
        if _TEXT_MODE in text or "action_regex" in sections["model"]:
            raise InputError(
                f"{path}: is for models that write commands into their words",
                remedy="The model gets a tool here: take mini.yaml, or a copy of it.",
            )
        try:
            AgentConfig(**sections["agent"])
        except ValueError as error:
            raise InputError(f"{path}: {error}", remedy="See mini.yaml of mini-swe-agent.") from None
        return cls(
            version=Prompt(f"mini-swe-agent-{minisweagent.__version__}-{path.stem}", text).version,
            agent=sections["agent"],
            model=sections["model"],
            env={key: str(value) for key, value in _section(sections["environment"], "env").items()},
        )


def _section(given: object, name: str) -> Mapping[str, Any]:
    found = given.get(name) if isinstance(given, Mapping) else None
    return found if isinstance(found, Mapping) else {}
