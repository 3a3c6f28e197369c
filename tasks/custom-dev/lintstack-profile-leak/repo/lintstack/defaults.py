"""The settings that hold if nobody says otherwise."""

from __future__ import annotations

from typing import Any


def default_settings() -> dict[str, Any]:
    """A new dictionary of the defaults."""
    return {
        "color": True,
        "exclude": [".git", ".venv"],
        "format": "text",
        "jobs": 1,
        "rules": {"line-length": 88, "quotes": "double", "select": ["E", "F"]},
    }
