"""mini-swe-agent's configuration, from the installed package: prompts, templates, environment variables."""

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
"""Marks commands in the text of a response; configurations for tool calls do not contain it."""
_REQUIRED = ("observation_template", "format_error_template")


@attrs.frozen(kw_only=True)
class Configuration:
    """A configuration file. ``version`` contains the release of mini-swe-agent, and the file's name and digest."""

    version: str
    agent: Mapping[str, Any]
    model: Mapping[str, Any]
    env: Mapping[str, str]
    """Environment variables for every command."""

    @classmethod
    def read(cls, name: str) -> Configuration:
        """Read a file in the package or at an absolute path. Raises InputError if it is not for tool calls."""
        path = Path(builtin_config_dir) / name
        if not path.is_file():
            known = ", ".join(sorted(file.name for file in Path(builtin_config_dir).glob("*.yaml")))
            raise InputError(f"mini-swe-agent has no configuration {name!r}", remedy=f"Available: {known}")
        text, data = path.read_text(encoding="utf-8"), read_yaml(path)
        sections = {section: _section(data, section) for section in ("agent", "model", "environment")}
        if missing := [key for key in _REQUIRED if key not in sections["model"]]:
            raise InputError(f"{path}: `model` has no {', '.join(missing)}", remedy="See mini-swe-agent's mini.yaml.")
        if _TEXT_MODE in text or "action_regex" in sections["model"]:
            raise InputError(
                f"{path}: this configuration is for models that write commands as text",
                remedy="Use a configuration for tool calls: mini.yaml, or a copy of it.",
            )
        try:
            AgentConfig(**sections["agent"])
        except ValueError as error:
            raise InputError(f"{path}: {error}", remedy="See mini-swe-agent's mini.yaml.") from None
        return cls(
            version=Prompt(f"mini-swe-agent-{minisweagent.__version__}-{path.stem}", text).version,
            agent=sections["agent"],
            model=sections["model"],
            env={key: str(value) for key, value in _section(sections["environment"], "env").items()},
        )


def _section(data: object, name: str) -> Mapping[str, Any]:
    section = data.get(name) if isinstance(data, Mapping) else None
    return section if isinstance(section, Mapping) else {}
