"""Profiles, and what they extend."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from lintstack.errors import ConfigError


class Profiles:
    """The profiles of a configuration file."""

    def __init__(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self._tables = tables
        self._trail: list[str] = []

    def names(self) -> list[str]:
        """The names of all profiles, sorted."""
        return sorted(self._tables)

    def layers(self, name: str) -> list[Mapping[str, Any]]:
        """The layers that make up a profile, in the order in which they are applied."""
        return [
            {key: value for key, value in self._tables[each].items() if key != "extends"} for each in self.lineage(name)
        ]

    def lineage(self, name: str) -> list[str]:
        """The profile after all those it extends, each once."""
        if name in self._trail:
            way = [*self._trail[self._trail.index(name) :], name]
            raise ConfigError("profiles extend each other: " + " -> ".join(way))
        self._trail.append(name)
        order: list[str] = []
        for parent in self._parents(name):
            order += [each for each in self.lineage(parent) if each not in order]
        return [*order, name]

    def _parents(self, name: str) -> list[str]:
        try:
            parents = self._tables[name].get("extends", [])
        except KeyError:
            near = get_close_matches(name, self._tables, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"there is no profile {name!r}{hint}") from None
        if isinstance(parents, str):
            return [parents]
        if isinstance(parents, list) and all(isinstance(parent, str) for parent in parents):
            return parents
        raise ConfigError(f"profile {name!r}: 'extends' is a name or a list of names")
