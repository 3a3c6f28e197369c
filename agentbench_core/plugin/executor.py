"""The contract of executors, which decide where the attempts of a run take place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:  # see contracts
    from agentbench_core.values.limits import Deadline

Attempt = Callable[[], None]
"""Runs one attempt in the calling thread and records it. Raises nothing; call it once."""


@attrs.frozen(kw_only=True)
class ExpectedAttempts:
    """The attempts that an executor can expect."""

    attempts: int  #: number of attempts of all runs of the command that are not yet recorded
    places: int  #: maximum number of concurrent attempts across all machines (`run.workers`)
    deadline: Deadline  #: end of the preflight


class Work(Protocol):
    """The attempts of a command, handed out one at a time to the *places* that run them. Thread-safe.

    A place is anything that runs one attempt after another, such as a thread. Places pull: a fast one runs more.
    """

    @property
    def places(self) -> int:
        """Maximum number of concurrent attempts. :meth:`take` waits if that many are running."""

    @property
    def remaining(self) -> int:
        """Number of attempts that are not yet recorded."""

    @property
    def finished(self) -> bool:
        """Whether no attempt is running, and no more will be handed out."""

    @property
    def stop(self) -> Deadline:
        """Ends when the user interrupts the run. Running attempts end by themselves; no others are handed out."""

    def take(self) -> Attempt | None:
        """The next attempt, for the calling thread; ``None`` if nothing is left, or the run has been stopped.

        Waits while no attempt is left, since running attempts may have to be repeated.
        """

    def note(self, message: str) -> None:
        """Show a note to the user."""

    def remote(self, lease_sec: float = 30.0) -> RemoteWork:
        """The attempts, for worker processes. Call it at most once.

        An attempt is taken back from a worker that sends nothing about it for ``lease_sec``, and repeated by another
        worker.
        """


class RemoteWork(Protocol):
    """The attempts of a command, for processes that run :class:`agentbench_core.harness.Worker`. Thread-safe.

    An executor only carries calls from workers to :meth:`call`; events, evidence and model calls are all part of them.
    """

    @property
    def workers(self) -> Sequence[str]:
        """Names of accepted workers that are not lost."""

    @property
    def refusals(self) -> Sequence[str]:
        """The reasons why workers were refused, such as different versions."""

    def call(self, peer: str, method: str, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Answer one call of a worker with one document or more. Raises nothing; may wait for a long time.

        Args:
            peer: the identity of the worker if the connection proves it; otherwise empty.
            method: name of the method.
            document: the worker's document, parsed from JSON. It is not trusted.
        """

    def lost(self, worker: str, why: str) -> None:
        """Report that a worker has ended, so that other workers repeat its attempts at once."""


class Executor(Protocol):
    """Starts places, which take attempts until none is left. One instance per command.

    Capability: ``remote`` (attempts run in other processes, so this one needs no sandbox).
    """

    def preflight(self, expected: ExpectedAttempts) -> None:
        """Check that attempts can be run. Raises InputError or UnavailableError, with a remedy; nothing has started."""

    def run(self, work: Work) -> None:
        """Run the attempts, and return when :meth:`Work.take` has returned ``None`` in every place.

        Called once, in its own thread. Raises UnavailableError if no place is left; the run can be resumed.
        """

    def close(self) -> None:
        """Release everything. Idempotent; may be called while :meth:`run` is running."""
