"""Checks: agents that are programs. Directories mounted into a sandbox, and an address accepted on the host."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shlex
import time
from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

import attrs
import pytest

from agentbench_core import ProgramSandbox, SandboxError
from agentbench_testing.checks.sandbox.isolation import CONNECT, INTERFACES, listening
from agentbench_testing.checks.sandbox.program_stage import (
    NAME,
    Serving,
    answering,
    open_files,
    program_directory,
    received,
    send_all,
    serving,
    starting,
)
from agentbench_testing.checks.sandbox.stage import CAPTURE, COMMANDS, Hooks, Stage
from agentbench_testing.doubles.observing import LONG, contents, done_soon, in_thread

LARGE = 5 << 20
CONNECTIONS = 50
REQUESTS, BODY = 300, 30_000
BUFFERED = 1 << 20
"""Bytes that fit into the buffers between a server and a client that does not read."""
PAUSE = 0.3
_ECHO = "s = connect()\nwhile byte := s.recv(1):\n    s.sendall(byte)"
_HALF = "s = connect(); s.sendall(b'a question'); s.shutdown(socket.SHUT_WR); print(rest(s).decode())"
_LATE = "s = connect(); s.sendall(b'r'); time.sleep(float(sys.argv[4])); print(len(rest(s)))"
_MANY = """
connections = [connect() for _ in range(int(sys.argv[4]))]
for number, s in enumerate(connections):
    s.sendall(b'%d\\n' % number)
print(' '.join(rest(s).decode() for s in connections))
"""
_SLOW = """
slow, quick = connect(), connect()
slow.sendall(b's'); quick.sendall(b'q')
sender = threading.Thread(target=slow.sendall, args=(b'x' * int(sys.argv[4]),))
sender.start()
while byte := quick.recv(1):
    quick.sendall(byte)
print(len(rest(slow)))
sender.join()
"""
_WAIT_FOR_END = "s = connect(); s.sendall(b'r'); s.settimeout(None); rest(s)"
_REACH = "s = connect(); s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(len(rest(s)))"
_TAMPER = (
    "echo changed > {0}/run; echo changed >> {0}/data/text; echo new > {0}/new; rm -rf {0}/data; mv {0}/run {0}/moved; "
    "chmod 777 {0}/data/text; ln -s /etc {0}/way; ln {0}/run ./hard && echo changed >> ./hard; "
    "ln -s {0}/run soft && echo changed > soft; mkdir {0}/made; true"
)


class ServingHooks(Hooks):
    """The sandbox that most of these checks share."""

    @pytest.fixture(scope="class")
    @classmethod
    def served(cls, stage: Stage) -> Iterator[Serving]:
        """A sandbox with an open address, for checks that leave it open."""
        with serving(stage) as served:
            yield served


class ProgramChecks(ServingHooks):
    """Directories of programs."""

    def test_programs_run(self, served: Serving) -> None:
        """``programs`` has the path of each directory in the sandbox. Its programs can be run and its files read."""
        path = cast(ProgramSandbox, served.started.sandbox).programs[NAME]
        assert served.started.ask([f"{path}/run"]) == "the text"

    def test_programs_are_not_part_of_the_environment(self, stage: Stage, served: Serving) -> None:
        """The environment's digest is the same with and without programs, and so are its facts and prepared tree."""
        prepared = stage.environment
        before = (prepared.digest, dict(prepared.facts), contents(prepared.workspace))
        with starting(stage, {NAME: program_directory(stage)}, prepared) as started:
            started.ask("echo changed > made")
        again = stage.prepare(stage.spec(*COMMANDS, capture=CAPTURE))
        assert (prepared.digest, dict(prepared.facts), contents(prepared.workspace)) == before
        assert again.digest == before[0]

    def test_commands_work_as_in_other_sandboxes(self, stage: Stage, served: Serving) -> None:
        """The workspace, variables and user of commands are the same as in a sandbox without programs."""
        command = "ls; cat made; id; hostname; env | sort | grep -v -e ^HOME= -e ^TMPDIR= -e ^PWD= -e ^AGENTBENCH_"
        with stage.start() as plain:
            assert served.started.ask(command) == plain.ask(command)


class AddressChecks(ServingHooks):
    """Addresses on which the host accepts connections."""

    def test_requests_are_answered_on_the_host(self, served: Serving) -> None:
        """An HTTP request to ``url`` is accepted by the ``listener``, and its answer arrives unchanged."""
        with answering(served.endpoint.listener):
            result = served.post("question", 1)
        expected = b"POST /a/path?b=c question"
        assert result.stdout.text.split() == [hashlib.sha256(expected).hexdigest(), str(len(expected))], result

    def test_large_bodies(self, served: Serving) -> None:
        """Bodies of several megabytes arrive unchanged, in both directions."""
        with answering(served.endpoint.listener):
            result = served.post("0123456789", LARGE // 10)
        expected = b"POST /a/path?b=c " + b"0123456789" * (LARGE // 10)
        assert result.stdout.text.split() == [hashlib.sha256(expected).hexdigest(), str(len(expected))], result

    def test_bytes_are_not_held_back(self, served: Serving) -> None:
        """Each byte arrives at once, in both directions, without waiting for more."""
        running = in_thread(lambda: served.python_with_socket(_ECHO))
        with served.accept() as connection:
            for number in range(100):
                byte = bytes([number])
                connection.sendall(byte)
                assert connection.recv(10) == byte
        assert done_soon(running, LONG).ok

    def test_an_end_in_one_direction(self, served: Serving) -> None:
        """A client that has sent everything can still read: each direction of a connection ends separately."""
        running = in_thread(lambda: served.python_with_socket(_HALF))
        with served.accept() as connection:
            assert received(connection) == b"a question"
            connection.sendall(b"an answer")
        assert done_soon(running, LONG).stdout.text.strip() == "an answer"

    def test_an_answer_is_not_cut(self, served: Serving) -> None:
        """A server can close its connection after an answer, and the client can read the answer later."""
        running = in_thread(lambda: served.python_with_socket(_LATE, PAUSE))
        with served.accept() as connection:
            assert connection.recv(1) == b"r"
            connection.sendall(b"y" * BUFFERED)
        assert done_soon(running, LONG).stdout.text.strip() == str(BUFFERED)

    def test_many_connections_at_once(self, served: Serving) -> None:
        """Connections do not wait for each other: all are accepted before the first one is answered."""
        running = in_thread(lambda: served.python_with_socket(_MANY, CONNECTIONS))
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(served.accept()) for _ in range(CONNECTIONS)]
            numbers = [connection.makefile().readline().strip() for connection in connections]
            for connection, number in zip(connections, numbers, strict=True):
                connection.sendall(f"n{number}".encode())
        assert done_soon(running, LONG).stdout.text.split() == [f"n{number}" for number in range(CONNECTIONS)]

    def test_a_slow_connection_delays_no_other(self, served: Serving) -> None:
        """A connection whose bytes are not read, in either direction, does not delay another one."""
        running = in_thread(lambda: served.python_with_socket(_SLOW, LARGE))
        with served.accept() as first, served.accept() as second:
            by_kind = {connection.recv(1): connection for connection in (first, second)}
            slow, quick = by_kind[b"s"], by_kind[b"q"]
            slow.settimeout(LONG)
            sending = in_thread(functools.partial(send_all, slow, b"y" * LARGE))
            for number in range(100):
                byte = bytes([number])
                quick.sendall(byte)
                assert quick.recv(10) == byte
            quick.close()
            assert len(received(slow, LARGE)) == LARGE
            done_soon(sending, LONG)
        assert done_soon(running, LONG).stdout.text.strip() == str(LARGE)

    def test_connections_leave_nothing(self, served: Serving) -> None:
        """After many connections, the harness has no more open files than before."""
        with answering(served.endpoint.listener):
            served.post("x", BODY)
            before = open_files()
            result = served.post("x", BODY, REQUESTS)
        assert result.ok, result
        give_up_at = time.monotonic() + served.patience
        while open_files() > before and time.monotonic() < give_up_at:
            time.sleep(0.01)
        assert open_files() <= before

    def test_the_address_ends_with_its_listener(self, stage: Stage) -> None:
        """After the caller has closed the ``listener``, no connection is accepted."""
        with serving(stage) as own:
            own.endpoint.listener.close()
            result = own.python_with_socket(_REACH)
        assert result.stdout.text.strip() in ("", "0"), "something answers"
        assert "timed out" not in result.stderr.text, "a connection was accepted and kept"

    def test_the_address_ends_with_its_sandbox(self, stage: Stage, served: Serving) -> None:
        """``close`` ends the address, and the connections that clients have opened."""
        with serving(stage) as own:
            running = in_thread(lambda: own.python_with_socket(_WAIT_FOR_END))
            with own.accept() as connection:
                assert connection.recv(1) == b"r"
                own.started.sandbox.close()
                assert received(connection) == b""
            with contextlib.suppress(SandboxError):  # unless the command notices the end before it is killed
                done_soon(running, LONG)
            other = attrs.evolve(served, endpoint=own.endpoint)
            if own.endpoint.url != served.endpoint.url:
                result = other.python_with_socket(_REACH)
                assert result.stdout.text.strip() in ("", "0"), "something answers"
                assert "timed out" not in result.stderr.text, "a connection was accepted and kept"
            with pytest.raises(SandboxError):
                cast(ProgramSandbox, own.started.sandbox).listen()


class IsolatedProgramChecks(ServingHooks):
    """Directories of programs in sandboxes that are also ``isolated``."""

    def test_programs_cannot_be_changed(self, served: Serving, stage: Stage) -> None:
        """Commands cannot change the files of a program, nor create or remove any."""
        directory = program_directory(stage)
        for path in (directory, *directory.rglob("*")):  # so that permissions do not prevent it
            path.chmod(0o777)
        before = contents(directory)
        mounted = cast(ProgramSandbox, served.started.sandbox).programs[NAME]
        served.started.run(_TAMPER.format(shlex.quote(mounted)))
        assert contents(directory) == before

    def test_only_this_sandbox_has_programs(self, served: Serving, stage: Stage) -> None:
        """Other sandboxes and single commands, such as those that decide the verdict, have none of the directories."""
        path = cast(ProgramSandbox, served.started.sandbox).programs[NAME]
        look = f"test ! -e {shlex.quote(path)}"
        assert stage.shared.run(look).ok
        assert stage.once(look).ok


class IsolatedAddressChecks(ServingHooks):
    """Addresses of sandboxes that are also ``isolated``."""

    def test_only_this_sandbox_has_the_address(self, served: Serving, stage: Stage) -> None:
        """Other sandboxes and single commands cannot connect, not even with the same address."""
        with answering(served.endpoint.listener):
            elsewhere = attrs.evolve(served, started=stage.shared)
            assert served.python_with_socket(_REACH).stdout.text.strip() not in ("", "0")
            assert elsewhere.python_with_socket(_REACH).stdout.text.strip() in ("", "0")
            address = urlsplit(served.endpoint.url)
            words = [self.python, "-c", CONNECT, str(address.port), str(address.hostname)]
            assert stage.once(shlex.join(words)).stdout.text == ""

    def test_addresses_are_equal(self, served: Serving, stage: Stage) -> None:
        """Each sandbox has the same ``url``, so that requests can be replayed, and reaches its own ``listener``."""
        with serving(stage) as other:
            assert other.endpoint.url == served.endpoint.url
            for each in (served, other):
                running = in_thread(functools.partial(each.python_with_socket, _HALF))
                with each.accept() as connection:
                    assert received(connection) == b"a question"
                assert done_soon(running, LONG).ok

    def test_no_other_way_out(self, served: Serving) -> None:
        """A sandbox with an address still has no interface but loopback, and reaches no other service of the host."""
        assert set(served.started.ask([self.python, "-c", INTERFACES]).split()) <= {"lo"}
        with listening() as (port, addresses):
            assert served.started.ask([self.python, "-c", CONNECT, port, *addresses]) == ""
