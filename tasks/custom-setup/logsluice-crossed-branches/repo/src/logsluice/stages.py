"""The stages that come with logsluice.

A factory takes the options of a step and gives a stage: a function from one stream of records to another. What a stage
remembers, it remembers for one stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from logsluice.records import MISSING, Record, fits, get, put, take

Stage = Callable[[Iterator[Record]], Iterator[Record]]


def keep(options: Any) -> Stage:
    """Only records that fit."""
    condition = expect(options, dict)
    return lambda records: (record for record in records if fits(record, condition))


def drop(options: Any) -> Stage:
    """Only records that do not fit."""
    condition = expect(options, dict)
    return lambda records: (record for record in records if not fits(record, condition))


def assign(options: Any) -> Stage:
    """Set fields."""
    values = expect(options, dict)

    def change(record: Record) -> None:
        for field, value in values.items():
            put(record, field, value)

    return changing(change)


def append(options: Any) -> Stage:
    """Add values to the ends of lists."""
    values = expect(options, dict)

    def change(record: Record) -> None:
        for field, value in values.items():
            items = get(record, field)
            if not isinstance(items, list):
                items = [] if items is MISSING else [items]
                put(record, field, items)
            items.append(value)

    return changing(change)


def rename(options: Any) -> Stage:
    """Move fields."""
    names = expect(options, dict)

    def change(record: Record) -> None:
        for old, new in names.items():
            if (value := take(record, old)) is not MISSING:
                put(record, new, value)

    return changing(change)


def redact(options: Any) -> Stage:
    """Hide the values of fields."""
    fields = expect(options, list)

    def change(record: Record) -> None:
        for field in fields:
            if get(record, field) is not MISSING:
                put(record, field, "***")

    return changing(change)


def unique(options: Any) -> Stage:
    """Only the first record with each value."""
    field = expect(options, str)

    def stage(records: Iterator[Record]) -> Iterator[Record]:
        seen = set()
        for record in records:
            value = get(record, field)
            key = None if value is MISSING else json.dumps(value, sort_keys=True)
            if key not in seen:
                seen.add(key)
                yield record

    return stage


def head(options: Any) -> Stage:
    """So many records."""
    count = expect(options, int)
    return lambda records: islice(records, count)


def changing(change: Callable[[Record], None]) -> Stage:
    """A stage that changes every record."""

    def stage(records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            change(record)
            yield record

    return stage


def expect(options: Any, kind: type) -> Any:
    """The options, if they are of this kind; otherwise a ValueError."""
    if not isinstance(options, kind) or isinstance(options, bool):
        names = {dict: "a table", list: "a list", str: "a text", int: "a number"}
        raise ValueError(f"takes {names[kind]}, not {options!r}")
    return options
