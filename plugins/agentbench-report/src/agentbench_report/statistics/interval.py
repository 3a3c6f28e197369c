"""The confidence interval that the other modules return."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Interval:
    """A confidence interval of a rate (0 to 1), a difference in rates (-1 to 1), a ratio (at least 0) or an amount.

    ``low <= high``. ``confidence`` is two-sided and between 0 and 1.
    """

    low: float
    high: float
    confidence: float
