"""Put one layer of settings on top of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lintstack.errors import ConfigError

Settings = dict[str, Any]


def merge(base: Mapping[str, Any], layer: Mapping[str, Any]) -> Settings:
    """The settings of ``base`` with those of ``layer`` on top. Neither of them changes.

    Tables are merged key by key; ``+key`` appends to the list ``key`` what it does not contain yet; anything else
    replaces.
    """
    merged = dict(base)
    for key, value in layer.items():
        if key.startswith("+"):
            _append(merged, key[1:], value)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _append(settings: Settings, key: str, items: Any) -> None:
    target = settings.setdefault(key, [])
    if not isinstance(target, list) or not isinstance(items, list):
        raise ConfigError(f"'+{key}' adds a list to a list")
    for item in items:
        if item not in target:
            target.append(item)


def nested(path: str, value: Any) -> Settings:
    """A layer with one setting: ``nested("a.+b", [1])`` is ``{"a": {"+b": [1]}}``."""
    *tables, key = path.split(".")
    if not all((*tables, key.removeprefix("+"))):
        raise ConfigError(f"{path!r} is not the name of a setting")
    layer: Settings = {key: value}
    for table in reversed(tables):
        layer = {table: layer}
    return layer
