"""Options are described as a table and as JSON Schema."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import describe, json_schema, option
from agentbench_core.plugin.discovery import discover


@attrs.frozen(kw_only=True)
class Example:
    path: str = option(help="a file")
    limit: int | None = option(None, help="lines", minimum=1)
    how: Literal["fast", "slow"] = option("fast", help="speed")
    words: tuple[str, ...] = option(("a", "b"), help="list")


def test_describe_gives_name_type_default_and_help() -> None:
    """Types and defaults are shown in a readable form."""
    rows = [(row.name, row.type, row.default, row.help) for row in describe(Example)]
    assert rows == [
        ("path", "text", "required", "a file"),
        ("limit", "integer or null", "null", "lines"),
        ("how", "one of fast, slow", "fast", "speed"),
        ("words", "list of text", "[a, b]", "list"),
    ]


def test_json_schema_forbids_what_the_converter_forbids() -> None:
    """Required fields, unknown fields and limits."""
    schema = json_schema(Example)
    assert schema["required"] == ["path"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["limit"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "lines",
        "minimum": 1,
        "default": None,
    }


def test_every_option_of_every_component_has_help() -> None:
    """Includes plugins installed in this environment."""
    for component in discover().registry.all():
        for row in describe(component.options) if component.options else ():
            assert row.help, f"{component.kind} {component.name}: {row.name}"
