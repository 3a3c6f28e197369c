"""Sandboxes that are broken in how they run agents that are programs, each in one respect."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import attrs

from agentbench_core import Deadline, Endpoint, ExecResult, ProgramSandbox
from agentbench_testing.doubles.sandboxes import Call, EnvironmentDouble, SandboxDouble


class IsolatesNothing(SandboxDouble):
    """The sandbox ``local`` as it is."""


class LosesModes(EnvironmentDouble):
    """Copies programs without their modes."""

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> ProgramSandbox:
        copies = {}
        for name, path in programs.items():
            copies[name] = workspace.parent / name
            shutil.copytree(path, copies[name], copy_function=shutil.copyfile)
        return super().start_with_programs(
            workspace, programs=copies, read_only=read_only, network=network, deadline=deadline
        )


class CountsPrograms(EnvironmentDouble):
    """Treats programs as a part of the environment."""

    programs: ClassVar[tuple[str, ...]] = ()

    @property
    def digest(self) -> str:
        return f"{self.inner.digest} {' '.join(self.programs)}"

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> ProgramSandbox:
        self.__dict__["programs"] = tuple(programs)
        return super().start_with_programs(
            workspace, programs=programs, read_only=read_only, network=network, deadline=deadline
        )


class CopiesIntoTheWorkspace(EnvironmentDouble):
    """Copies programs into the workspace."""

    def start_with_programs(
        self, workspace: Path, *, programs: Mapping[str, Path], read_only: bool, network: bool, deadline: Deadline
    ) -> ProgramSandbox:
        for name, path in programs.items():
            shutil.copytree(path, workspace / name)
        return super().start_with_programs(
            workspace, programs=programs, read_only=read_only, network=network, deadline=deadline
        )


class NamesAnotherPort(SandboxDouble):
    """Returns an address on which nobody listens."""

    def listen(self) -> Endpoint:
        endpoint = super().listen()
        with socket.create_server(("127.0.0.1", 0)) as unused:
            return Endpoint(url=f"http://127.0.0.1:{unused.getsockname()[1]}", listener=endpoint.listener)


class Forwards(SandboxDouble):
    """Forwards connections from an address of its own, correctly; two threads for each."""

    def listen(self) -> Endpoint:
        endpoint = super().listen()
        self.__dict__["listener"] = endpoint.listener
        self.__dict__["target"] = endpoint.listener.getsockname()
        self.__dict__["front"] = front = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.__dict__["open"] = [front]
        self.__dict__["threads"] = []
        self.begin(self.accept)
        return Endpoint(url=f"http://127.0.0.1:{front.getsockname()[1]}", listener=endpoint.listener)

    def begin(self, work: Callable[[], None]) -> threading.Thread:
        def quietly() -> None:
            with contextlib.suppress(OSError):
                work()

        thread = threading.Thread(target=quietly, daemon=True)
        self.__dict__["threads"].append(thread)
        thread.start()
        return thread

    def accept(self) -> None:
        while True:
            client = self.track(self.__dict__["front"].accept()[0])
            try:
                server = self.track(socket.create_connection(self.__dict__["target"]))
            except ConnectionRefusedError:
                client.close()
            else:
                self.serve(client, server)

    def track(self, connection: socket.socket) -> socket.socket:
        self.__dict__["open"].append(connection)
        return connection

    def serve(self, client: socket.socket, server: socket.socket) -> None:
        both = [self.begin(lambda: self.carry(client, server)), self.begin(lambda: self.carry(server, client))]
        self.begin(lambda: self.finish(both, client, server))

    def finish(self, both: list[threading.Thread], *connections: socket.socket) -> None:
        for thread in both:
            thread.join()
        for connection in connections:
            connection.close()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        while part := source.recv(1 << 16):
            target.sendall(part)
        self.end(target)

    def end(self, target: socket.socket) -> None:
        target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for connection in self.__dict__.get("open", ()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.__dict__.get("threads", ()):
            thread.join()
        for connection in self.__dict__.get("open", ()):
            connection.close()
        super().close()


class Truncates(Forwards):
    """Forwards only the first megabyte of each direction."""

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        left = 1 << 20
        while part := source.recv(1 << 16):
            target.sendall(part[: max(0, left)])
            left -= len(part)
        self.end(target)


class HoldsBack(Forwards):
    """Collects bytes until there are many, or no more."""

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        held = b""
        while part := source.recv(1 << 16):
            held += part
            if len(held) > 1000:
                target.sendall(held)
                held = b""
        target.sendall(held)
        self.end(target)


class EndsBothDirections(Forwards):
    """Closes a connection when one direction has ended."""

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        while part := source.recv(1 << 16):
            target.sendall(part)
        for connection in (source, target):
            connection.shutdown(socket.SHUT_RDWR)


class ResetsAtTheEnd(Forwards):
    """Resets the client's connection when the server has closed its own."""

    def end(self, target: socket.socket) -> None:
        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        target.close()


class OneAtATime(Forwards):
    """Serves connections one after the other."""

    def serve(self, client: socket.socket, server: socket.socket) -> None:
        both = [self.begin(lambda: self.carry(client, server)), self.begin(lambda: self.carry(server, client))]
        self.finish(both, client, server)


class CarriesInOneThread(Forwards):
    """Carries all connections in one thread, which waits until a slow reader has taken its bytes."""

    def accept(self) -> None:
        front, ways = self.__dict__["front"], {}
        while True:
            for ready in select.select([front, *ways], [], [])[0]:
                if ready is front:
                    client = self.track(front.accept()[0])
                    server = self.track(socket.create_connection(self.__dict__["target"]))
                    ways |= {client: server, server: client}
                elif part := ready.recv(1 << 16):
                    ways[ready].sendall(part)
                else:
                    ways.pop(ready).shutdown(socket.SHUT_WR)


class KeepsDescriptors(Forwards):
    """Never closes the descriptors of a connection that has ended."""

    def serve(self, client: socket.socket, server: socket.socket) -> None:
        self.track(client.dup())
        super().serve(client, server)


class KeepsListening(SandboxDouble):
    """Keeps the address open when the caller closes it."""

    def listen(self) -> Endpoint:
        endpoint = super().listen()
        self.__dict__["kept"] = endpoint.listener
        return Endpoint(url=endpoint.url, listener=endpoint.listener.dup())


class StaysReachable(SandboxDouble):
    """Keeps the address open when the sandbox is closed."""

    def listen(self) -> Endpoint:
        endpoint = super().listen()
        self.__dict__["endpoint"] = endpoint
        return Endpoint(url=endpoint.url, listener=endpoint.listener.dup())


class ChangesVariables(SandboxDouble):
    """Sets another variable in sandboxes with programs."""

    def call(self, call: Call) -> ExecResult:
        if not self.programs:
            return super().call(call)
        return super().call(attrs.evolve(call, env={**(call.env or {}), "PROGRAMS": "1"}))


DOUBLES: Mapping[str, type[SandboxDouble | EnvironmentDouble]] = {
    "test_programs_run": LosesModes,
    "test_programs_are_not_part_of_the_environment": CountsPrograms,
    "test_commands_work_as_in_other_sandboxes": ChangesVariables,
    "test_requests_are_answered_on_the_host": NamesAnotherPort,
    "test_large_bodies": Truncates,
    "test_bytes_are_not_held_back": HoldsBack,
    "test_an_end_in_one_direction": EndsBothDirections,
    "test_an_answer_is_not_cut": ResetsAtTheEnd,
    "test_many_connections_at_once": OneAtATime,
    "test_a_slow_connection_delays_no_other": CarriesInOneThread,
    "test_connections_leave_nothing": KeepsDescriptors,
    "test_the_address_ends_with_its_listener": KeepsListening,
    "test_the_address_ends_with_its_sandbox": StaysReachable,
    "test_programs_cannot_be_changed": IsolatesNothing,
    "test_only_this_sandbox_has_programs": IsolatesNothing,
    "test_only_this_sandbox_has_the_address": IsolatesNothing,
    "test_addresses_are_equal": IsolatesNothing,
    "test_no_other_way_out": IsolatesNothing,
}
CORRECT = {"Forwards": Forwards, "IsolatesNothing": IsolatesNothing}
"""Doubles that pass all checks of sandboxes that are not isolated."""
