# agentbench-canary: aa2baaf7-e3ae-4fd9-b6a6-28fd442f86f8
"""The limit holds, and nobody waits in vain. Each step is taken when the one before has happened: nothing is timed."""

from concurrent.futures import Future
from itertools import product
from queue import SimpleQueue
from threading import Event, Lock, Semaphore, Thread

import pytest

from leasepool import Pool, PoolClosed, PoolTimeout

LIMIT = 2  # seconds; it is only reached when something hangs


def in_thread(function, *arguments):
    future = Future()

    def call():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


def promptly(function, *arguments):
    """Call a function that must not block."""
    return in_thread(function, *arguments).result(LIMIT)


class Stop(BaseException):
    pass


class Workshop:
    """Makes numbers. Steps named in ``slow`` go on when told to; ``fails`` has what to raise for which number."""

    def __init__(self, limit, slow="", fails=None):
        self.happens = SimpleQueue()
        self.may_go_on = {step: Event() for step in product(("creates", "checks", "closes"), range(1, 10))}
        self.slow = slow
        self.fails = fails or {}
        self.ill = set()
        self.made = self.most = 0
        self.count = set()  # what the limit is about
        self.closed = []
        self.lock = Lock()
        self.pool = Pool(
            self.create, limit=limit, close=self.close, check=self.check, on_wait=lambda: self.happens.put("waits")
        )

    def create(self):
        with self.lock:
            self.made += 1
            number = self.made
            self.count.add(number)
            self.most = max(self.most, len(self.count))
        self.step("creates", number)
        if number in self.fails:
            self.gone(number)
            raise self.fails[number]
        return number

    def check(self, number):
        self.step("checks", number)
        if number in self.ill:
            self.gone(number)
        if number in self.ill and number in self.fails:
            raise self.fails[number]
        return number not in self.ill

    def close(self, number):
        self.gone(number)
        with self.lock:
            assert number not in self.closed
            self.closed.append(number)
        self.step("closes", number)

    def discard(self, number):
        self.gone(number)  # before it is closed: another one may be created in the meantime
        self.pool.discard(number)

    def gone(self, number):
        with self.lock:
            self.count.discard(number)

    def step(self, name, number):
        if name in self.slow.split():
            self.happens.put(name)
            assert self.may_go_on[name, number].wait(LIMIT)

    def thread(self, expected, function=None, *arguments):
        """A thread that acquires a resource, once it has come to where it is expected."""
        future = in_thread(function or self.pool.acquire, *arguments)
        assert self.happens.get(timeout=LIMIT) == expected
        return future

    def sees(self, name, count):
        """Wait until a step was begun so many times; who waits may wake up and wait again meanwhile."""
        while count:
            happened = self.happens.get(timeout=LIMIT)
            assert happened in (name, "waits")
            count -= happened == name

    def go_on(self, name, *numbers):
        for number in numbers:
            self.may_go_on[name, number].set()


def results(futures):
    return sorted(future.result(LIMIT) for future in futures)


def as_they_come(futures):
    queue = SimpleQueue()
    for future in futures:
        future.add_done_callback(queue.put)
    while True:
        yield queue.get(timeout=LIMIT).result()


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("more", [1, 4])
def test_limit_while_resources_are_created(limit, more):
    shop = Workshop(limit, slow="creates")
    creating = [shop.thread("creates") for _ in range(limit)]
    waiting = [shop.thread("waits") for _ in range(more)]
    assert promptly(lambda: (shop.pool.size, shop.pool.idle)) == (limit, 0)
    for _ in range(3):
        with pytest.raises(PoolTimeout):
            promptly(shop.pool.acquire, 0)
    shop.go_on("creates", *range(1, limit + 1))
    assert results(creating) == list(range(1, limit + 1))
    number, come = limit, as_they_come(waiting)
    for _ in waiting:
        shop.pool.release(number)
        number = next(come)
        assert number == limit
    assert (shop.made, shop.most, shop.pool.size) == (limit, limit, limit)


def test_limit_with_resources_in_every_state():
    shop = Workshop(4)
    first, second = shop.pool.acquire(), shop.pool.acquire()
    shop.slow = "creates"
    creating = [shop.thread("creates") for _ in range(2)]
    assert promptly(lambda: shop.pool.size) == 4
    promptly(shop.pool.release, first)
    assert promptly(lambda: (shop.pool.size, shop.pool.idle)) == (4, 1)
    assert promptly(shop.pool.acquire, 0) == first
    waiting = shop.thread("waits")
    promptly(shop.pool.release, second)
    assert waiting.result(LIMIT) == second
    shop.go_on("creates", 3, 4)
    assert results(creating) == [3, 4]
    assert shop.most == 4


def test_one_that_waits_gets_what_is_released_while_another_is_created():
    shop = Workshop(2)
    first = shop.pool.acquire()
    shop.slow = "creates"
    creating = shop.thread("creates")
    waiting = shop.thread("waits")
    promptly(shop.pool.release, first)
    assert waiting.result(LIMIT) == first
    shop.go_on("creates", 2)
    assert creating.result(LIMIT) == 2


@pytest.mark.parametrize("error", [OSError("down"), Stop()], ids=["Exception", "BaseException"])
def test_failed_creation_leaves_room(error):
    shop = Workshop(2, fails={1: error, 2: error, 3: error, 5: error})
    for _ in range(3):
        with pytest.raises(type(error)):
            promptly(shop.pool.acquire, 0)
        assert shop.pool.size == 0
    assert promptly(shop.pool.acquire, 0) == 4
    with pytest.raises(type(error)):
        promptly(shop.pool.acquire, 0)
    assert promptly(shop.pool.acquire, 0) == 6
    assert (shop.pool.size, shop.most, shop.closed) == (2, 2, [])


@pytest.mark.parametrize("error", [OSError("down"), Stop()], ids=["Exception", "BaseException"])
@pytest.mark.parametrize("limit", [1, 3])
def test_failed_creation_wakes_who_waits(limit, error):
    shop = Workshop(limit, slow="creates", fails=dict.fromkeys(range(1, limit + 1), error))
    failing = [shop.thread("creates") for _ in range(limit)]
    waiting = [shop.thread("waits") for _ in range(limit)]
    shop.go_on("creates", *range(1, limit + 1))
    for future in failing:
        with pytest.raises(type(error)):
            future.result(LIMIT)
    shop.sees("creates", limit)
    shop.go_on("creates", *range(limit + 1, 2 * limit + 1))
    assert results(waiting) == list(range(limit + 1, 2 * limit + 1))
    assert shop.most == limit


def test_discard_wakes_who_waits():
    limit = 3
    shop = Workshop(limit)
    numbers = [shop.pool.acquire() for _ in range(limit)]
    waiting = [shop.thread("waits") for _ in range(limit)]
    for number in numbers:
        shop.discard(number)
    assert results(waiting) == list(range(limit + 1, 2 * limit + 1))
    assert (shop.pool.size, shop.most, sorted(shop.closed)) == (limit, limit, numbers)


def test_exceptions_in_leases_wake_who_waits():
    shop = Workshop(2)
    begun, fail = Semaphore(0), Event()

    def work():
        with shop.pool.lease():
            begun.release()
            assert fail.wait(LIMIT)
            raise OSError("lost")

    working = [in_thread(work) for _ in range(2)]
    for _ in working:
        assert begun.acquire(timeout=LIMIT)
    waiting = [shop.thread("waits"), shop.thread("waits", shop.pool.acquire, 4 * LIMIT)]
    fail.set()
    for future in working:
        with pytest.raises(OSError, match="lost"):
            future.result(LIMIT)
    assert results(waiting) == [3, 4]


def test_discard_and_release_wake_one_each():
    shop = Workshop(2)
    first, second = shop.pool.acquire(), shop.pool.acquire()
    waiting = [shop.thread("waits") for _ in range(3)]
    shop.discard(first)
    shop.pool.release(second)
    come = as_they_come(waiting)
    number = next(come)
    assert sorted([number, next(come)]) == [2, 3]
    shop.pool.release(number)
    assert next(come) == number
    assert (shop.made, shop.most) == (3, 2)


def test_failed_check_wakes_who_waits():
    shop = Workshop(1)
    shop.pool.release(shop.pool.acquire())
    shop.ill.add(1)
    shop.fails[1] = OSError("odd")
    shop.slow = "checks"
    checking = shop.thread("checks")
    waiting = shop.thread("waits")
    shop.go_on("checks", 1)
    with pytest.raises(OSError, match="odd"):
        checking.result(LIMIT)
    assert waiting.result(LIMIT) == 2
    assert (shop.closed, shop.pool.size) == ([1], 1)


def test_limit_while_one_is_checked():
    shop = Workshop(2)
    for number in [shop.pool.acquire(), shop.pool.acquire()]:
        shop.pool.release(number)
    shop.ill |= {1, 2}
    shop.slow = "checks creates"
    acquiring = [shop.thread("checks") for _ in range(2)]
    assert promptly(lambda: (shop.pool.size, shop.pool.idle)) == (2, 0)
    with pytest.raises(PoolTimeout):
        promptly(shop.pool.acquire, 0)
    shop.go_on("checks", 1, 2)
    shop.sees("creates", 2)
    with pytest.raises(PoolTimeout):
        promptly(shop.pool.acquire, 0)
    shop.go_on("creates", 3, 4)
    assert results(acquiring) == [3, 4]
    assert (sorted(shop.closed), shop.most) == ([1, 2], 2)


def test_what_is_being_closed_does_not_count():
    shop = Workshop(1, slow="closes")
    number = shop.pool.acquire()
    waiting = shop.thread("waits")
    discarding = shop.thread("closes", shop.discard, number)
    assert waiting.result(LIMIT) == 2
    assert promptly(lambda: shop.pool.size) == 1
    promptly(shop.pool.release, 2)
    assert promptly(shop.pool.acquire, 0) == 2
    shop.go_on("closes", number)
    assert discarding.result(LIMIT) is None


def test_closed_while_resources_are_created():
    shop = Workshop(3, slow="creates", fails={3: OSError("down")})
    creating = [shop.thread("creates") for _ in range(3)]
    waiting = [shop.thread("waits") for _ in range(2)]
    promptly(shop.pool.close)
    for future in waiting:
        with pytest.raises(PoolClosed):
            future.result(LIMIT)
    shop.go_on("creates", 1, 2, 3)
    errors = [type(future.exception(LIMIT)) for future in creating]
    assert sorted(error.__name__ for error in errors) == ["OSError", "PoolClosed", "PoolClosed"]
    assert (sorted(shop.closed), shop.count, shop.pool.size, shop.pool.idle) == ([1, 2], set(), 0, 0)
    with pytest.raises(PoolClosed):
        promptly(shop.pool.acquire)


def test_closed_with_resources_in_use():
    shop = Workshop(3)
    numbers = [shop.pool.acquire() for _ in range(3)]
    shop.pool.release(numbers[0])
    shop.pool.close()
    assert (shop.closed, shop.pool.size) == ([1], 2)
    shop.pool.release(numbers[1])
    shop.discard(numbers[2])
    shop.pool.close()
    assert (shop.closed, shop.pool.size, shop.pool.idle) == ([1, 2, 3], 0, 0)


def test_who_gave_up_takes_nothing():
    shop = Workshop(1)
    number = shop.pool.acquire()
    with pytest.raises(PoolTimeout):
        shop.pool.acquire(0.01)
    shop.pool.release(number)
    assert (shop.pool.idle, shop.pool.acquire(0)) == (1, number)
    with pytest.raises(PoolTimeout):
        shop.pool.acquire(0.01)
    shop.discard(number)
    assert (shop.pool.size, shop.pool.acquire(0)) == (0, 2)


def test_nobody_waits_without_need():
    shop = Workshop(2)
    assert [shop.pool.acquire(), shop.pool.acquire()] == [1, 2]
    shop.pool.release(1)
    shop.pool.release(2)
    assert [shop.pool.acquire(0), shop.pool.acquire(0)] == [2, 1]
    assert shop.happens.empty()
    assert shop.made == 2


def test_everything_at_once():
    shop = Workshop(3, fails=dict.fromkeys(range(0, 10_000, 5), OSError("down")))

    def work(seed):
        for turn in range(100):
            try:
                number = shop.pool.acquire()
            except OSError:
                continue
            if (seed + turn) % 3:
                shop.pool.release(number)
            else:
                shop.discard(number)

    for future in [in_thread(work, seed) for seed in range(8)]:
        future.result(4 * LIMIT)
    assert shop.most <= 3
    assert shop.pool.size == shop.pool.idle == len(shop.count)
    shop.pool.close()
    assert shop.count == set()
