"""From layers to the settings that hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from typing import Any

from lintstack.defaults import default_settings
from lintstack.layers import from_environment, from_options
from lintstack.merging import Settings, merge
from lintstack.profiles import Profiles


class Resolver:
    """Answers which settings hold, for any profile of one configuration."""

    def __init__(
        self,
        tables: Mapping[str, Any] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        options: Iterable[str] = (),
    ) -> None:
        tables = tables or {}
        self._file_settings = tables.get("settings", {})
        self.profiles = Profiles(tables.get("profiles", {}))
        self._overrides = [*from_environment(environment or {}), *from_options(options)]

    @cached_property
    def _base(self) -> Settings:
        return merge(default_settings(), self._file_settings)

    def settings(self, profile: str | None = None) -> Settings:
        """The settings with this profile, or with none."""
        layers = [] if profile is None else self.profiles.layers(profile)
        return reduce(merge, [*layers, *self._overrides], self._base)

    def differences(self, first: str, second: str) -> dict[str, tuple[Any, Any]]:
        """The settings in which two profiles differ: name -> both values, None for a missing one."""
        one, other = flatten(self.settings(first)), flatten(self.settings(second))
        return {
            name: (one.get(name), other.get(name))
            for name in sorted({*one, *other})
            if one.get(name) != other.get(name)
        }


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings without nesting, sorted: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key in sorted(settings):
        value = settings[key]
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
