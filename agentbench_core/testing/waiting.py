"""Work that must be done soon, in a thread of its own so that a check does not wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def in_thread(call: Callable[[], T]) -> Future[T]:
    """What ``call`` will give or raise. The thread ends with the process at the latest."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def done_soon(future: Future[T], patience: float) -> T:
    """What comes of work that is under way; an AssertionError if that takes longer than ``patience`` seconds."""
    wait_for([future], timeout=patience)
    assert future.done(), f"it has not come back after {patience:g} s"
    return future.result()


def soon(call: Callable[[], T], patience: float) -> T:
    """What ``call`` gives or raises; an AssertionError if that takes longer than ``patience`` seconds."""
    return done_soon(in_thread(call), patience)


def at_once(works: Sequence[Callable[[], T]], patience: float) -> Sequence[T]:
    """What calls give that begin at the same time, in their order."""
    barrier = threading.Barrier(len(works))

    def begin(work: Callable[[], T]) -> T:
        barrier.wait(patience)
        return work()

    futures = [in_thread(partial(begin, work)) for work in works]
    return [done_soon(future, patience) for future in futures]
