"""Pipelines: streams through steps, and into branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import tee
from typing import Any

from logsluice.records import Record, fits
from logsluice.stages import Stage


@dataclass(frozen=True)
class Pipeline:
    """Steps for all records, and the steps of each branch."""

    steps: tuple[Stage, ...]
    branches: Mapping[str, tuple[Stage, ...]]

    def run(self, records: Iterable[Record]) -> dict[str, Iterator[Record]]:
        """What each branch gives, by name; nothing is read before somebody asks."""
        stream = through(self.steps, copies(records))
        streams = tee(stream, len(self.branches))
        return {
            name: through(stages, copies(each))
            for (name, stages), each in zip(self.branches.items(), streams, strict=True)
        }


def copies(records: Iterable[Record]) -> Iterator[Record]:
    """Records of our own, because stages change them."""
    return map(dict, records)


def through(stages: Iterable[Stage], records: Iterator[Record]) -> Iterator[Record]:
    """A stream through one stage after the other."""
    for stage in stages:
        records = stage(records)
    return records


def only_when(condition: Mapping[str, Any], stage: Stage) -> Stage:
    """A stage for the records that fit; the others pass by in their place."""

    def conditional(records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            if fits(record, condition):
                yield from stage(iter([record]))
            else:
                yield record

    return conditional
