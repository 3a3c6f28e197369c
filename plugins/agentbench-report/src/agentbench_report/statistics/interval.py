"""What the other rooms give back for a quantity that is not known exactly."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Interval:
    """Where a rate (0 to 1), a difference of rates (-1 to 1) or an odds ratio (0 to infinity) may be.

    ``low <= high``; ``confidence`` is two-sided and between 0 and 1.
    """

    low: float
    high: float
    confidence: float
