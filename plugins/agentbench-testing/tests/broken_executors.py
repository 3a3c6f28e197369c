"""An executor that passes all checks, and variants that are each broken in one respect."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from agentbench_core import Attempt, Executor, ExpectedAttempts, UnavailableError, Work
from agentbench_testing import ExecutorConformance


class Places:
    """Runs attempts in threads. It is correct; doubles override one method each."""

    def __init__(self) -> None:
        self.closed = False

    def preflight(self, expected: ExpectedAttempts) -> None:
        pass

    def run(self, work: Work) -> None:
        threads = [threading.Thread(target=self.place, args=[work]) for _ in range(self.count(work))]
        for thread in threads:
            thread.start()
        self.join(threads, work)

    def count(self, work: Work) -> int:
        return min(work.places, work.remaining)

    def place(self, work: Work) -> None:
        while (attempt := work.take()) is not None:
            self.call(attempt)

    def call(self, attempt: Attempt) -> None:
        attempt()

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        for thread in threads:
            thread.join()

    def close(self) -> None:
        self.closed = True


class Careless(Places):
    """Refuses too many places with an error of Python."""

    def preflight(self, expected: ExpectedAttempts) -> None:
        if expected.places > 64:
            raise ValueError("too many places")


class Terse(Places):
    """Refuses too many places without saying what to do."""

    def preflight(self, expected: ExpectedAttempts) -> None:
        if expected.places > 64:
            raise UnavailableError("too many places")


class Forgetful(Places):
    """Divides the attempts by the number of places, and forgets the rest."""

    def run(self, work: Work) -> None:
        self.share = work.remaining // max(1, self.count(work))
        super().run(work)

    def place(self, work: Work) -> None:
        for _ in range(self.share):
            if (attempt := work.take()) is None:
                return
            self.call(attempt)


class Greedy(Places):
    """Starts a thread for each attempt, most of which wait."""

    def count(self, work: Work) -> int:
        return work.remaining


class Repeater(Places):
    """Calls attempts that ended quickly again."""

    def call(self, attempt: Attempt) -> None:
        began = time.monotonic()
        attempt()
        if time.monotonic() - began < 60:
            attempt()


class Restless(Places):
    """Looks again whether something is left."""

    def place(self, work: Work) -> None:
        super().place(work)
        super().place(work)


class Hasty(Places):
    """Does not wait for long attempts."""

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        give_up_at = time.monotonic() + 0.7
        for thread in threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))


class Lingering(Places):
    """Waits until every place has begun, including those that were never started."""

    def run(self, work: Work) -> None:
        self.begun: list[threading.Thread] = []
        super().run(work)

    def place(self, work: Work) -> None:
        self.begun.append(threading.current_thread())
        while len(self.begun) < work.places and not LEFT.wait(0.02):
            pass
        super().place(work)


class Impatient(Places):
    """Waits for a report of every place, although there may be none."""

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        super().join(threads, work)
        if not threads:
            LEFT.wait()


class Deaf(Places):
    """Waits until all attempts are recorded, although a stopped run leaves some."""

    def join(self, threads: Sequence[threading.Thread], work: Work) -> None:
        super().join(threads, work)
        while work.remaining and not LEFT.wait(0.02):
            pass


class CloseOnce(Places):
    """Can be closed only once."""

    def close(self) -> None:
        del self.closed


class Exclusive(Places):
    """Closes when nothing is running."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def run(self, work: Work) -> None:
        with self.lock:
            super().run(work)

    def close(self) -> None:
        with self.lock:
            super().close()


class Litterer(Places):
    """Leaves a thread running."""

    def run(self, work: Work) -> None:
        threading.Thread(target=LEFT.wait, name="heartbeat", daemon=True).start()
        super().run(work)


class ParentOfOrphans(Places):
    """Leaves a process running."""

    def run(self, work: Work) -> None:
        PROCESSES.append(subprocess.Popen(["sleep", "60"]))
        super().run(work)


LEFT = threading.Event()
"""Set at the end of a test, so that what doubles have left ends."""
PROCESSES: list[subprocess.Popen[bytes]] = []


def end() -> None:
    """End the threads and processes that doubles have left."""
    LEFT.set()
    for process in PROCESSES:
        process.kill()
        process.wait()
    PROCESSES.clear()


DOUBLES: Mapping[str, type[Places]] = {
    "test_preflight_errors_have_a_remedy": Careless,
    "test_it_runs_every_attempt": Forgetful,
    "test_no_more_places_than_allowed": Greedy,
    "test_each_attempt_is_called_once": Repeater,
    "test_places_end_when_nothing_is_left": Restless,
    "test_it_waits_for_running_attempts": Hasty,
    "test_it_returns_with_fewer_attempts_than_places": Lingering,
    "test_it_ends_after_a_stop": Deaf,
    "test_closing_twice": CloseOnce,
    "test_closing_while_it_runs": Exclusive,
    "test_nothing_is_left": Litterer,
}
MORE: Sequence[tuple[str, type[Places]]] = (
    ("test_preflight_errors_have_a_remedy", Terse),
    ("test_it_returns_with_fewer_attempts_than_places", Impatient),
    ("test_nothing_is_left", ParentOfOrphans),
)


def on(executor: type[Places], seconds: float = ExecutorConformance.patience) -> type[ExecutorConformance]:
    """The checks for such an executor."""

    class Checked(ExecutorConformance):
        patience = seconds

        @classmethod
        def make_executor(cls) -> Executor:
            return executor()

    return Checked
