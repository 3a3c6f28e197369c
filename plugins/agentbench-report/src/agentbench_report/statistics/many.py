"""Many comparisons at once: what is left of a p value among others, and one test for all variants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench_report.statistics.numerics import chi_square_above


def holm(ps: Sequence[float]) -> list[float]:
    """p values adjusted so that a false one among all is found with at most alpha: for claims against a baseline.

    In ascending order ``max_{j<=i} min(1, (m-j+1) p_j)``; given back in the order they came in. One that is not finite
    stays NaN in its place and does not count in m.

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979) 65; as R's ``p.adjust``.

    Raises:
        ValueError: a finite p is outside 0 to 1.
    """
    order = _ascending(ps)
    adjusted, highest = [math.nan] * len(ps), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """p values adjusted so that of what is found alpha is false on average: for exploration.

    In ascending order ``min_{j>=i} min(1, p_j m/j)``. For independent tests and those that share a baseline. NaN as in
    ``holm``.

    Source: Y. Benjamini and Y. Hochberg, Journal of the Royal Statistical Society B 57 (1995) 289.

    Raises:
        ValueError: a finite p is outside 0 to 1.
    """
    return _step_up(ps, 1.0)


def benjamini_yekutieli(ps: Sequence[float]) -> list[float]:
    """The same for tests that depend on each other in any way: times ``Σ_{j<=m} 1/j``.

    Source: Y. Benjamini and D. Yekutieli, Annals of Statistics 29 (2001) 1165.

    Raises:
        ValueError: a finite p is outside 0 to 1.
    """
    return _step_up(ps, math.fsum(1 / j for j in range(1, len(_ascending(ps)) + 1)))


def cochran_q(matrix: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Cochran's Q and its p: do k variants have one pass rate? A row per task, in it 1 or 0 for each variant.

    With column sums C, row sums R and the total T, chi-square with k-1 degrees of freedom::

        (k-1)(k ΣC² - T²) / (k T - ΣR²)

    (0, 1) when no task tells variants apart.

    Source: W. G. Cochran, The comparison of percentages in matched samples, Biometrika 37 (1950) 256.

    Raises:
        ValueError: rows differ in length or have fewer than two columns, or something is neither 0 nor 1.
    """
    k = len(matrix[0]) if matrix else 2
    if k < 2 or any(len(row) != k or any(cell not in (0, 1) for cell in row) for row in matrix):
        raise ValueError("takes rows of 0 and 1, as many in each, for at least two variants")
    rows, columns = [sum(row) for row in matrix], [sum(column) for column in zip(*matrix, strict=True)]
    total = sum(rows)
    apart = k * total - sum(row * row for row in rows)
    if apart == 0:
        return 0.0, 1.0
    q = (k - 1) * (k * sum(column * column for column in columns) - total * total) / apart
    return q, chi_square_above(q, k - 1)


def _ascending(ps: Sequence[float]) -> list[int]:
    finite = [index for index, p in enumerate(ps) if math.isfinite(p)]
    for index in finite:
        if not 0 <= ps[index] <= 1:
            raise ValueError(f"a p value lies between 0 and 1, not at {ps[index]}")
    return sorted(finite, key=lambda index: ps[index])


def _step_up(ps: Sequence[float], factor: float) -> list[float]:
    order = _ascending(ps)
    adjusted, lowest = [math.nan] * len(ps), 1.0
    for rank in range(len(order), 0, -1):
        index = order[rank - 1]
        lowest = min(lowest, factor * ps[index] * len(order) / rank)
        adjusted[index] = lowest
    return adjusted
