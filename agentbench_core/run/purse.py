"""What a run may cost, and what it has cost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from agentbench_core.errors import Interrupted
from agentbench_core.evidence import journal
from agentbench_core.evidence.layout import EVENTS
from agentbench_core.evidence.reader import RunDirectory
from agentbench_core.values.events import LLMFailed, LLMRequest, LLMResponse, event_type
from agentbench_core.values.limits import Deadline

_LOOK_EVERY_SEC = 0.2


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

    def hold(self, usd: float, deadline: Deadline) -> None:
        """Hold back what a call may cost at most; waits while other calls may still give some of theirs back.

        Raises PurseEmptyError when the run has not so much left, and what ``deadline`` raises.
        """
        with self._changed:
            while self.max_usd is not None and self.spent_usd + self._held + usd > self.max_usd:
                if not self._holders:
                    raise PurseEmptyError(
                        f"the run may cost {self.max_usd:g} USD: {self.spent_usd:.6f} are spent, "
                        f"and the next call may cost {usd:.6f}"
                    )
                deadline.check()
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


def spent_usd(run: RunDirectory) -> float:
    """What a run has cost so far by its events: every exchange that was sent or was about to be.

    Where nobody knows what one has cost, the reservation counts.
    """
    costs: dict[tuple[str, int, int], float] = {}
    for value in _ledger(run):
        key = (value["attempt_id"], value["call"], value.get("exchange", 1))
        if value["type"] == event_type(LLMRequest):
            costs[key] = value["reserved_usd"]
        elif value["cost_usd"] is not None:
            costs[key] = value["cost_usd"]
    return sum(costs.values())


def _ledger(run: RunDirectory) -> Iterator[Mapping[str, Any]]:
    kinds = {event_type(kind) for kind in (LLMRequest, LLMResponse, LLMFailed)}
    for _, value in journal.lines(run.directory / EVENTS, sealed=True, type_="llm_"):
        if value["type"] in kinds:
            yield value
