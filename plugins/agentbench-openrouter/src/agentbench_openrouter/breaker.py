"""Stops requests once a provider rejects all calls: from then on, every call raises the same error."""

from __future__ import annotations

import threading

from agentbench_core import LLMError
from agentbench_openrouter.failures import Blame, Failure

REFUSED_IN_A_ROW = 3


class Breaker:
    """Shared by all calls of a provider. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused = 0
        self._why: tuple[str, str] | None = None

    def check(self) -> None:
        """Raise LLMError if no call can succeed any more, always with the same message."""
        if self._why is not None:
            message, remedy = self._why
            raise LLMError(message, remedy=remedy, stops_run=True)

    def succeeded(self) -> None:
        """Record that the server has responded."""
        with self._lock:
            self._refused = 0

    def failed(self, failure: Failure, message: str) -> None:
        """Record that a call has failed permanently. If that stops the run, all other calls raise ``message``."""
        with self._lock:
            if failure.blame is Blame.NOTHING:
                return
            self._refused += 1
            stops = failure.blame is Blame.STOPS_RUN or self._refused >= REFUSED_IN_A_ROW
            if stops and self._why is None:
                self._why = (message, failure.remedy)
