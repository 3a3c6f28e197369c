"""Records, their fields, and the conditions that they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = dict[str, Any]
MISSING = object()


def get(record: Record, field: str) -> Any:
    """The value of a field such as ``user.email``, or ``MISSING``."""
    value: Any = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


def put(record: Record, field: str, value: Any) -> None:
    """Set a field; tables on the way there are made, also in the place of something else."""
    *tables, last = field.split(".")
    for key in tables:
        if not isinstance(record.get(key), dict):
            record[key] = {}
        record = record[key]
    record[last] = value


def take(record: Record, field: str) -> Any:
    """Remove a field that is there; its value, or ``MISSING``."""
    table, _, last = field.rpartition(".")
    owner = get(record, table) if table else record
    return owner.pop(last, MISSING) if isinstance(owner, dict) else MISSING


def fits(record: Record, condition: Mapping[str, Any]) -> bool:
    """Whether every field has its value, or one of a list of values."""
    for field, wanted in condition.items():
        value = get(record, field)
        if value is MISSING or value not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True
