"""Multiple comparisons: adjusted p-values, and one test for all variants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench_report.statistics.numerics import chi_square_above


def holm(ps: Sequence[float]) -> list[float]:
    """p-values adjusted to control the family-wise error rate, for claims against a baseline.

    In ascending order ``max_{j<=i} min(1, (m-j+1) p_j)``. The result is in the input order. Values that are not finite
    become NaN and are not counted in m.

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979) 65; like R's ``p.adjust``.

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
    """p-values adjusted to control the false discovery rate, for exploration.

    In ascending order ``min_{j>=i} min(1, p_j m/j)``. Valid for independent tests and for tests that share a baseline.
    Values that are not finite are handled as in ``holm``.

    Source: Y. Benjamini and Y. Hochberg, Journal of the Royal Statistical Society B 57 (1995) 289.

    Raises:
        ValueError: a finite p is outside 0 to 1.
    """
    return _step_up(ps, 1.0)


def benjamini_yekutieli(ps: Sequence[float]) -> list[float]:
    """``benjamini_hochberg`` with the p-values multiplied by ``Σ_{j<=m} 1/j``, valid for tests with any dependence.

    Source: Y. Benjamini and D. Yekutieli, Annals of Statistics 29 (2001) 1165.

    Raises:
        ValueError: a finite p is outside 0 to 1.
    """
    return _step_up(ps, math.fsum(1 / j for j in range(1, len(_ascending(ps)) + 1)))


def cochran_q(matrix: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Cochran's Q and its p-value, testing whether k variants have equal pass rates.

    ``matrix`` has a row per task with 1 or 0 for each variant. With column sums C, row sums R and the total T,
    Q is as follows, approximately chi-square with k-1 degrees of freedom::

        (k-1)(k ΣC² - T²) / (k T - ΣR²)

    The result is (0, 1) if the variants agree on every task.

    Source: W. G. Cochran, The comparison of percentages in matched samples, Biometrika 37 (1950) 256.

    Raises:
        ValueError: rows differ in length or have fewer than two columns, or a cell is neither 0 nor 1.
    """
    k = len(matrix[0]) if matrix else 2
    if k < 2 or any(len(row) != k or any(cell not in (0, 1) for cell in row) for row in matrix):
        raise ValueError("rows must have equal length, contain only 0 and 1, and cover at least two variants")
    rows, columns = [sum(row) for row in matrix], [sum(column) for column in zip(*matrix, strict=True)]
    total = sum(rows)
    denominator = k * total - sum(row * row for row in rows)
    if denominator == 0:
        return 0.0, 1.0
    q = (k - 1) * (k * sum(column * column for column in columns) - total * total) / denominator
    return q, chi_square_above(q, k - 1)


def _ascending(ps: Sequence[float]) -> list[int]:
    finite = [index for index, p in enumerate(ps) if math.isfinite(p)]
    for index in finite:
        if not 0 <= ps[index] <= 1:
            raise ValueError(f"a p-value must be between 0 and 1, got {ps[index]}")
    return sorted(finite, key=lambda index: ps[index])


def _step_up(ps: Sequence[float], factor: float) -> list[float]:
    order = _ascending(ps)
    adjusted, lowest = [math.nan] * len(ps), 1.0
    for rank in range(len(order), 0, -1):
        index = order[rank - 1]
        lowest = min(lowest, factor * ps[index] * len(order) / rank)
        adjusted[index] = lowest
    return adjusted
