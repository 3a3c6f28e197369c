"""What a run may cost, and what it has cost."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agentbench_core.errors import Interrupted

_LOOK_EVERY_SEC = 0.2
_CRUMBS = 1e-9  # US dollars: sums of floats are not exact


class PurseEmptyError(Interrupted):
    """A run has not enough money left for its next call."""


class Purse:
    """The money of a run. The worst case of a call is held back before it is sent, so it is never overdrawn.

    Thread-safe. ``None`` as ``max_usd`` means no limit.
    """

    def __init__(self, max_usd: float | None, spent_usd: float = 0.0) -> None:
        self.max_usd = max_usd
        self.spent_usd = spent_usd
        self._held = 0.0
        self._holders = 0
        self._changed = threading.Condition()

    def hold(self, usd: float, waiting: Callable[[float], None]) -> None:
        """Hold back what a call may cost at most; waits while other calls may still give some of theirs back.

        ``waiting`` is told before each wait how many seconds that takes. Raises PurseEmptyError when the run has not so
        much left, and what ``waiting`` raises.
        """
        with self._changed:
            while self.max_usd is not None and self.spent_usd + self._held + usd > self.max_usd + _CRUMBS:
                if not self._holders:
                    raise PurseEmptyError(
                        f"the run may cost {self.max_usd:g} USD: {self.spent_usd:.6f} are spent, "
                        f"and the next call may cost {usd:.6f}"
                    )
                waiting(_LOOK_EVERY_SEC)
                self._changed.wait(_LOOK_EVERY_SEC)
            self._held += usd
            self._holders += 1

    def settle(self, held: float, spent: float) -> None:
        """Pay what a call has cost, in place of what was held back for it."""
        with self._changed:
            self._holders -= 1
            self._held = self._held - held if self._holders else 0.0  # floats leave crumbs
            self.spent_usd += spent
            self._changed.notify_all()
