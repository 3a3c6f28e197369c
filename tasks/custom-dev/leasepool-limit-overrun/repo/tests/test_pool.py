from itertools import count

import pytest

from leasepool import Pool, PoolClosed, PoolTimeout


def test_created_when_needed() -> None:
    pool = Pool(count(1).__next__, limit=3)
    assert (pool.size, pool.idle) == (0, 0)
    assert [pool.acquire(), pool.acquire()] == [1, 2]
    assert (pool.size, pool.idle) == (2, 0)


def test_released_last_comes_first() -> None:
    pool = Pool(count(1).__next__, limit=3)
    for resource in [pool.acquire(), pool.acquire(), pool.acquire()]:
        pool.release(resource)
    assert (pool.size, pool.idle) == (3, 3)
    assert [pool.acquire(), pool.acquire(), pool.acquire()] == [3, 2, 1]


def test_limit() -> None:
    pool = Pool(object, limit=1)
    resource = pool.acquire()
    for timeout in (0, 0.01):
        with pytest.raises(PoolTimeout):
            pool.acquire(timeout)
    pool.release(resource)
    assert pool.acquire(0) is resource
    with pytest.raises(ValueError, match="limit must be at least 1"):
        Pool(object, limit=0)


def test_lease() -> None:
    closed: list[int] = []
    pool = Pool(count(1).__next__, limit=1, close=closed.append)
    with pool.lease() as resource:
        assert (resource, pool.idle) == (1, 0)
    assert (pool.size, pool.idle, closed) == (1, 1, [])
    with pytest.raises(OSError, match="lost"), pool.lease():
        raise OSError("lost")
    assert (pool.size, pool.idle, closed) == (0, 0, [1])


def test_only_healthy_ones_are_given_out() -> None:
    ill: set[int] = set()
    closed: list[int] = []
    pool = Pool(count(1).__next__, limit=2, close=closed.append, check=lambda resource: resource not in ill)
    for resource in [pool.acquire(), pool.acquire()]:
        pool.release(resource)
    ill.add(2)
    assert (pool.acquire(), closed) == (1, [2])
    pool.release(1)
    ill.add(1)
    assert (pool.acquire(), closed) == (3, [2, 1])


def test_failed_creation() -> None:
    results = iter([OSError("down"), OSError("down"), "up"])

    def create() -> object:
        result = next(results)
        if isinstance(result, OSError):
            raise result
        return result

    pool = Pool(create, limit=1)
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            pool.acquire(0)
        assert pool.size == 0
    assert pool.acquire(0) == "up"


def test_close() -> None:
    closed: list[int] = []
    pool = Pool(count(1).__next__, limit=2, close=closed.append)
    first, second = pool.acquire(), pool.acquire()
    pool.release(first)
    pool.close()
    assert closed == [first]
    with pytest.raises(PoolClosed):
        pool.acquire()
    pool.release(second)
    pool.close()
    assert (closed, pool.size) == ([first, second], 0)
