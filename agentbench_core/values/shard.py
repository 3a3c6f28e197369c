"""Shards: the attempts of one plan, divided among machines that do not communicate with each other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Any

import attrs
from attrs.validators import instance_of

from agentbench_core.errors import InputError

MOST_SHARDS = 10_000
"""The maximum number of shards of a plan."""
MOST_ATTEMPTS = 1_000_000
"""The maximum number of attempts of a plan with shards: each of them is hashed whenever its run is read."""


def _check_numbers(shard: Shard, _: Any, count: int) -> None:
    if not 1 <= shard.index <= count <= MOST_SHARDS:
        raise ValueError(f"{shard.index}/{count} is not a valid shard: expected I/N with 1 <= I <= N <= {MOST_SHARDS}")


@attrs.frozen
class Shard:
    """One part of the attempts of a plan.

    An attempt belongs to a shard by a hash of its task and its repeat alone, so that every machine divides a plan
    identically, and the attempts of all variants at the same task and repeat run on the same machine.
    """

    index: int = attrs.field(validator=instance_of(int))  #: number of this shard, from 1
    count: int = attrs.field(validator=[instance_of(int), _check_numbers])  #: number of shards

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def takes(self, task_id: str, repeat: int) -> bool:
        """Whether an attempt belongs to this shard."""
        return shard_index(task_id, repeat, self.count) == self.index


def shard_index(task_id: str, repeat: int, count: int) -> int:
    """The number of the shard that an attempt belongs to, from 1 to ``count``."""
    key = f"{repeat} {task_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % count + 1


def parse_shard(text: str) -> Shard:
    """A shard as written on the command line, such as ``2/8``. Raises InputError if it is invalid."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    try:
        if match is None:
            raise ValueError(f"{text!r} is not a valid shard")
        return Shard(index=int(match[1]), count=int(match[2]))
    except ValueError as error:
        raise InputError(
            str(error), remedy="Pass the shard number and the total number of shards, for example 2/8."
        ) from None


def planned_repeats(task_id: str, repeats: int, shard: Shard | None) -> Sequence[int]:
    """The planned repeats of a task: all of them, or the shard's."""
    every = range(1, repeats + 1)
    return every if shard is None else [repeat for repeat in every if shard.takes(task_id, repeat)]


def planned_count(task_ids: Collection[str], repeats: int, shard: Shard | None) -> int:
    """The number of planned attempts. Raises ValueError if there are too many to be divided into shards."""
    total = len(task_ids) * repeats
    if shard is None:
        return total
    if total > MOST_ATTEMPTS:
        raise ValueError(f"a plan with {total} attempts cannot be divided into shards; the maximum is {MOST_ATTEMPTS}")
    return sum(len(planned_repeats(task_id, repeats, shard)) for task_id in task_ids)
