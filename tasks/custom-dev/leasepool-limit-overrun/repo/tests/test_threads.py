from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from leasepool import Pool, PoolClosed

LIMIT = 2  # seconds; it is only reached when something hangs


def in_thread(function: Callable[[], object]) -> Future[object]:
    """Call a function in a thread of its own."""
    future: Future[object] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


def test_a_thread_waits_until_a_resource_is_released() -> None:
    waits = Event()
    pool = Pool(object, limit=1, on_wait=waits.set)
    resource = pool.acquire()
    second = in_thread(pool.acquire)
    assert waits.wait(LIMIT)
    pool.release(resource)
    assert second.result(LIMIT) is resource


def test_threads_that_wait_learn_that_the_pool_is_closed() -> None:
    happens: SimpleQueue[str] = SimpleQueue()
    pool = Pool(object, limit=1, on_wait=lambda: happens.put("waits"))
    pool.acquire()
    threads = [in_thread(pool.acquire) for _ in range(3)]
    assert [happens.get(timeout=LIMIT) for _ in threads] == ["waits"] * 3
    pool.close()
    for thread in threads:
        with pytest.raises(PoolClosed):
            thread.result(LIMIT)


def test_limit_while_a_resource_is_created() -> None:
    happens: SimpleQueue[str] = SimpleQueue()
    go_on = Event()

    def create() -> object:
        happens.put("creates")
        assert go_on.wait(LIMIT)
        return object()

    pool = Pool(create, limit=1, on_wait=lambda: happens.put("waits"))
    first = in_thread(pool.acquire)
    assert happens.get(timeout=LIMIT) == "creates"
    second = in_thread(pool.acquire)
    assert happens.get(timeout=LIMIT) == "waits"
    go_on.set()
    resource = first.result(LIMIT)
    pool.release(resource)
    assert second.result(LIMIT) is resource


def test_pool_is_closed_while_a_resource_is_created() -> None:
    begun, go_on = Event(), Event()
    closed: list[object] = []

    def create() -> str:
        begun.set()
        assert go_on.wait(LIMIT)
        return "new"

    pool = Pool(create, limit=1, close=closed.append)
    thread = in_thread(pool.acquire)
    assert begun.wait(LIMIT)
    pool.close()
    go_on.set()
    with pytest.raises(PoolClosed):
        thread.result(LIMIT)
    assert (closed, pool.size) == (["new"], 0)
