"""The number of tickets to submit, determined without Dask."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentbench_dask import board as board_module
from agentbench_dask.board import Board, BoardError


class Desk:
    """A board, and its submitted tickets, cancelled tickets and notes."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.submitted = 0
        self.preferred: Sequence[str] = ()
        self.notes: list[str] = []
        self.board = Board("t-", "t-", submit=self._submit, cancel=self._cancel, note=self.notes.append)

    def want(self, places: int) -> None:
        self.board.want(places)
        self.board.fill()

    def started(self, name: str, worker: str = "w1") -> None:
        self.board.event({"ticket": name, "state": "started", "worker": worker})

    def ended(self, name: str, code: int, worker: str = "w1") -> None:
        self.board.event({"ticket": name, "state": "ended", "code": code, "problem": "", "worker": worker})
        self.board.fill()

    def done(self, name: str, status: str = "finished") -> None:
        self.open.remove(name)
        self.board.done(name, status)
        self.board.fill()

    def count(self, state: str) -> int:
        return self.board.counts()[state]

    def _submit(self, name: str, workers: Sequence[str]) -> None:
        self.submitted += 1
        self.preferred = workers
        self.open.append(name)

    def _cancel(self, names: Sequence[str]) -> None:
        self.open = [name for name in self.open if name not in names]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_finished_tickets_are_replaced(desk: Desk) -> None:
    """As long as places are wanted."""
    desk.want(2)
    assert desk.open == ["t-1", "t-2"]
    desk.started("t-1")
    desk.ended("t-1", 0)
    desk.done("t-1")
    assert desk.open == ["t-2", "t-3"]
    assert desk.count("finished") == 1


def test_a_resting_node_does_not_count(desk: Desk) -> None:
    """Its ticket is replaced before Dask has finished with it, and the failure is noted once."""
    desk.want(1)
    desk.started("t-1")
    desk.ended("t-1", 3)
    assert desk.open == ["t-1", "t-2"]
    desk.started("t-2")
    desk.ended("t-2", 3)
    assert desk.notes == ["a worker process on w1 ended with exit code 3"]


def test_resting_tickets_are_limited(desk: Desk) -> None:
    """Their number is limited if all nodes are broken, or a Dask worker pretends that they are."""
    desk.want(1)
    for number in range(1, 1000):
        desk.ended(f"t-{number}", 3)
    assert desk.submitted == 18


def test_fewer_places(desk: Desk) -> None:
    """Queued tickets are cancelled, newest first. Running processes continue, and are not replaced."""
    desk.want(4)
    desk.started("t-1")
    desk.started("t-4")
    desk.want(1)
    assert desk.open == ["t-1", "t-4"]
    desk.ended("t-1", 0)
    desk.done("t-1")
    assert desk.open == ["t-4"]


def test_processes_of_an_earlier_launcher_count(desk: Desk) -> None:
    """Until they end, or their Dask worker is gone."""
    desk.started("t-old-1", "w1")
    desk.started("t-old-2", "w2")
    desk.board.look({"w1": 1, "w2": 2})
    desk.want(3)
    assert len(desk.open) == 1
    assert desk.preferred == ["w2"]  # Dask takes w1 to be free
    desk.board.look({"w1": 1})
    desk.board.fill()
    assert len(desk.open) == 2
    desk.ended("t-old-1", 0)
    assert len(desk.open) == 3


def test_workers_that_cannot_run_tickets(desk: Desk) -> None:
    """Tickets go to other workers; if there are none, no tickets are submitted."""
    desk.board.look({"w1": 1}, some_unable=True)
    desk.want(1)
    assert (desk.open, desk.preferred) == (["t-1"], ["w1"])
    desk.board.look({}, some_unable=True)
    desk.want(2)
    assert desk.open == ["t-1"]


def test_a_lost_dask_worker(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask starts its ticket again, so it is queued; if Dask gives up, this is noted, and the ticket is replaced."""
    now = 1000.0
    monkeypatch.setattr("agentbench_dask.board.time.monotonic", lambda: now)
    desk.want(1)
    desk.started("t-1", "w1")
    desk.board.look({"w2": 1})
    assert desk.count("queued") == 1
    assert desk.submitted == 1
    desk.done("t-1", "error")
    assert desk.notes == ["a worker process on w1 failed: the Dask worker died, or its log has the error"]
    now += 1.0
    desk.board.fill()
    assert desk.open == ["t-2"]


def test_tickets_that_dask_cannot_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are resubmitted after increasing delays, and the fifth consecutive one is an error."""
    now = 1000.0
    monkeypatch.setattr("agentbench_dask.board.time.monotonic", lambda: now)
    desk.want(1)
    for number in range(1, 5):
        desk.done(f"t-{number}", "error")
        assert desk.open == []
        now += board_module.FIRST_WAIT * 2**number
        desk.board.fill()
        assert desk.open == [f"t-{number + 1}"]
    with pytest.raises(BoardError, match="could not start the last 5 worker processes"):
        desk.done("t-5", "error")


def test_one_broken_node_is_no_error(desk: Desk) -> None:
    """There is no error while a process is running elsewhere."""
    desk.want(9)
    desk.started("t-1")
    for name in desk.open[1:]:
        desk.done(name, "error")
    assert desk.board.busy


def test_stale_tickets_move_to_free_threads(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without work stealing, Dask leaves a ticket with the worker that it chose first."""
    now = 1000.0
    monkeypatch.setattr("agentbench_dask.board.time.monotonic", lambda: now)
    desk.want(3)
    desk.started("t-1")
    desk.board.look({"w1": 1, "w2": 1})
    assert desk.open == ["t-1", "t-2", "t-3"]
    now += board_module.STALE + 1
    desk.board.look({"w1": 1, "w2": 1})
    desk.board.fill()
    assert desk.open == ["t-1", "t-3", "t-4"]


@pytest.mark.parametrize(
    "event",
    [
        None,
        "started",
        {"ticket": 1, "state": "started"},
        {"ticket": "other-1", "state": "started", "worker": "w"},
        {"ticket": "t-99", "state": "ended", "code": 1, "worker": "w"},
        {"ticket": "t-" + "x" * 1000, "state": "started", "worker": "w"},
        {"ticket": "t-1", "state": ["ended"], "worker": {}},
    ],
)
def test_other_events_are_ignored(desk: Desk, event: object) -> None:
    """Any Dask worker may send any event."""
    desk.want(1)
    before = desk.board.counts()
    desk.board.event(event)
    assert desk.board.counts() == before


def test_stop_follows_processes(desk: Desk) -> None:
    """Everything is cancelled, and processes are tracked until they end."""
    desk.want(2)
    desk.started("t-1")
    desk.board.stop()
    desk.board.fill()
    assert desk.open == []
    assert desk.board.busy
    desk.board.event({"ticket": "t-1", "state": "ended", "code": 0, "worker": "w1"})
    assert not desk.board.busy
