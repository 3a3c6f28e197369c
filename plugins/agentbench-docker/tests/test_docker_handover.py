"""The descriptor that is handed over, as the harness receives it; without an engine."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from agentbench_docker import handover
from agentbench_docker.handover import NotHandedOverError, received_listener

SOON = 60.0


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> tuple[str, int]:
    """A free address instead of the one of sandboxes, which may be in use on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        free: tuple[str, int] = server.getsockname()
    monkeypatch.setattr(handover, "ADDRESS", free)
    return free


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _sending(*descriptors: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    socket.send_fds(theirs, [b"l"], list(descriptors))
    theirs.close()
    return ours


def test_the_socket_that_is_received(address: tuple[str, int]) -> None:
    """A listening socket on the address is accepted, and not inherited by other processes."""
    with socket.create_server(address) as listener, _sending(listener.fileno()) as channel:
        received = received_listener(channel)
        with received:
            assert received.getsockname() == address
            assert not received.get_inheritable()


def test_descriptors_that_are_refused(tmp_path: Path, address: tuple[str, int]) -> None:
    """E03: Anything else is refused, and no descriptor stays open."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((tmp_path / "file").open("w"))
        right = stack.enter_context(socket.create_server(address))
        port = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        unbound = stack.enter_context(socket.socket())
        local = stack.enter_context(handover.bound_socket(tmp_path / "s", 1))
        every = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        connected = stack.enter_context(socket.create_connection(address))
        before = _open_files()
        for sent in (
            (),
            (right.fileno(), right.fileno()),
            *((each.fileno(),) for each in (file, port, datagrams, unbound, local, every, connected)),
        ):
            with _sending(*sent) as channel, pytest.raises(NotHandedOverError):
                received_listener(channel)
        assert _open_files() == before


def test_a_holder_that_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """E03: Waiting for the descriptor is bounded in time."""
    monkeypatch.setattr(handover, "_SEND_SEC", 0.05)
    ours, theirs = socket.socketpair()
    began = time.monotonic()
    with ours, theirs, pytest.raises(NotHandedOverError, match="timed out"):
        received_listener(ours)
    assert time.monotonic() - began < SOON
