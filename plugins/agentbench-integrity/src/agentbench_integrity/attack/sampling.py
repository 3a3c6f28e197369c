"""Select agents, or pairs of tasks and agents, if all of them would take too long."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import TypeVar

L = TypeVar("L")
R = TypeVar("R")


def spread_sample(items: Sequence[L], size: int, seed: str) -> Sequence[L]:
    """At most ``size`` items in their order: one of each of ``size`` equal parts, since neighbors are similar."""
    count = min(size, len(items))
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    bounds = [len(items) * part // count for part in range(count + 1)] if count else [0]
    return [items[chance.randrange(start, end)] for start, end in itertools.pairwise(bounds)]


def every_pair(left: Sequence[L], right: Sequence[R]) -> list[tuple[L, R]]:
    """All pairs, in the order of ``left``."""
    return [(one, other) for one in left for other in right]


def sampled_pairs(left: Sequence[L], right: Sequence[R], partners: int, seed: int) -> list[tuple[L, R]]:
    """Pairs in which each item has at least ``partners`` partners, or all that exist, in the order of ``left``.

    The sample is minimal: items of the longer side have no more than that. Partners are assigned in turn, so that
    the numbers of partners on the shorter side differ by at most one. The same seed and lengths always yield the same
    pairs.
    """
    if len(left) < len(right):
        turned = sampled_pairs(right, left, partners, seed)
        at = {id(each): number for number, each in enumerate(left)}
        return sorted(((one, other) for other, one in turned), key=lambda pair: at[id(pair[0])])
    each = min(partners, len(right))
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    dealt = list(range(len(left)))
    deck = list(range(len(right)))
    chance.shuffle(dealt)
    chance.shuffle(deck)
    chosen: dict[int, list[int]] = {}
    for place, number in enumerate(dealt):
        chosen[number] = sorted(deck[(place * each + n) % len(deck)] for n in range(each))
    return [(one, right[number]) for place, one in enumerate(left) for number in chosen[place]]
