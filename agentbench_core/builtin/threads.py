"""The executor that runs attempts in threads of this process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentbench_core import ExpectedAttempts, Work
    from agentbench_core.builtin.options import NoOptions


class Threads:
    """Implements ``Executor``: each place is a thread."""

    def __init__(self, options: NoOptions) -> None:
        pass

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Nothing to check."""

    def run(self, work: Work) -> None:
        """See the contract."""
        places = min(work.places, work.remaining)
        threads = [threading.Thread(target=_run, args=[work], name=f"attempt_{n}") for n in range(places)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Nothing to close."""


def _run(work: Work) -> None:
    while (attempt := work.take()) is not None:
        attempt()
