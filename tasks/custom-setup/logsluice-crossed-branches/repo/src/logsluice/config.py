"""From YAML to a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import yaml

from logsluice.pipeline import Pipeline, only_when
from logsluice.stages import Stage

WITHOUT_CONDITION = frozenset({"head", "unique"})


class ConfigError(ValueError):
    """A configuration that makes no pipeline."""


def load(text: str) -> Pipeline:
    """The pipeline that a YAML text describes. Raises ConfigError."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None
    return build(document)


def build(document: Any) -> Pipeline:
    """The pipeline that a document describes. Raises ConfigError."""
    if not isinstance(document, dict):
        raise ConfigError("a configuration is a table")
    branches = document.get("branches")
    if not isinstance(branches, dict) or not branches:
        raise ConfigError("'branches' is a table with at least one branch")
    return Pipeline(
        steps=_steps(document.get("steps", []), "steps"),
        branches={name: _steps(steps, f"branch {name!r}") for name, steps in branches.items()},
    )


def _steps(steps: Any, where: str) -> tuple[Stage, ...]:
    if not isinstance(steps, list):
        raise ConfigError(f"{where}: expected a list of steps")
    return tuple(_step(step, f"{where}, step {number}") for number, step in enumerate(steps, 1))


def _step(step: Any, where: str) -> Stage:
    if not isinstance(step, dict):
        raise ConfigError(f"{where}: a step is a table")
    condition = step.pop("when", None)
    if len(step) != 1:
        raise ConfigError(f"{where}: expected one stage, and perhaps 'when'")
    ((name, options),) = step.items()
    try:
        stage = _factory(name)(options)
    except ValueError as error:
        raise ConfigError(f"{where}: {name!r} {error}") from None
    if condition is None:
        return stage
    if name in WITHOUT_CONDITION or not isinstance(condition, dict):
        raise ConfigError(f"{where}: {name!r} takes no 'when' {condition!r}")
    return only_when(condition, stage)


@cache
def _factories() -> dict[str, Callable[[Any], Stage]]:
    return {entry.name: entry.load() for entry in entry_points(group="logsluice.stages")}


def _factory(name: str) -> Callable[[Any], Stage]:
    factories = _factories()
    if name not in factories:
        near = get_close_matches(str(name), factories, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"is not a stage{hint}")
    return factories[name]
