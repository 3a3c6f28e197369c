"""Checks: isolation of commands from the host, the network and privileges."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_core import ToolError
from agentbench_testing.checks.sandbox.stage import Hooks, Stage, Started
from agentbench_testing.doubles.observing import contents

INTERFACES = """
import fcntl, socket, struct
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _, name in socket.if_nameindex():
    flags = struct.unpack('16xH', fcntl.ioctl(asking, 0x8913, struct.pack('256s', name.encode()))[:18])[0]
    if flags & 1: print(name)
"""
"""Prints the interfaces that are up; others, such as fallback tunnels, exist in every network namespace."""
CONNECT = """
import socket, sys
for address in sys.argv[2:]:
    try: socket.create_connection((address, int(sys.argv[1])), timeout=2).close()
    except OSError: continue
    print(address)
"""
_SEARCH = """
import pathlib, sys
for path in pathlib.Path('/proc').glob('[0-9]*/' + sys.argv[1]):
    try: match = sys.argv[2][::-1].encode() in path.read_bytes()
    except OSError: continue
    if match: print(path)
"""
"""Prints the files under /proc that contain a word. The word is passed reversed, to exclude this process."""
_WRITE = "echo changed > text; echo new > new; rm -f program; mv link moved; chmod 777 text; mkdir made-here; true"
_MAKE = """
import os, sys, sysconfig
places = '/ /bin /boot /dev /etc /home /lib /mnt /opt /proc/sys /root /srv /sys/fs/cgroup /usr /usr/bin /usr/local /usr/local/bin /var'
for place in [*places.split(), os.path.dirname(sys.executable), sysconfig.get_path('purelib')]:
    probe = os.path.join(place, 'agentbench-probe')
    try: os.mkdir(probe)
    except OSError: continue
    os.rmdir(probe)
    print(place)
"""  # noqa: E501 - one list
"""Prints the system directories that are writable."""
_SOCKETS = (
    *("/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/crio/crio.sock"),
    *("/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"),
)


class IsolationChecks(Hooks):
    """Isolation from the host's network, files, processes and variables, and from other sandboxes."""

    def test_no_network(self, stage: Stage, shared: Started) -> None:
        """Without network access, there is at most a loopback interface, and no service of the host is reachable."""
        assert self._interfaces(shared.ask([self.python, "-c", INTERFACES])) <= {"lo"}
        with listening() as (port, addresses):
            assert shared.ask([self.python, "-c", CONNECT, port, *addresses]) == ""

    def test_no_network_once(self, stage: Stage) -> None:
        """A command in a fresh sandbox has no network access either."""
        with listening() as (port, addresses):
            connect = shlex.join([self.python, "-c", CONNECT, port, *addresses])
            result = stage.once(f"{shlex.join([self.python, '-c', INTERFACES])}; echo; {connect}")
        interfaces, _, reached = result.stdout.text.partition("\n\n")
        assert result.ok
        assert self._interfaces(interfaces) <= {"lo"}
        assert reached == ""

    def test_files_of_the_host(self, shared: Started, tmp_path: Path) -> None:
        """The host's files cannot be read by path."""
        (tmp_path / "planted").write_text("secret of the host\n")
        result = shared.run(f"cat {shlex.quote(str(tmp_path / 'planted'))}")
        assert not result.ok
        assert "secret of the host" not in result.stdout.text

    def test_reading_through_a_link(self, shared: Started, tmp_path: Path) -> None:
        """``read_file`` follows links only inside the workspace: an agent's link must not lead to the host's files."""
        (tmp_path / "planted").write_text("secret of the host\n")
        shared.run(["ln", "-s", str(tmp_path / "planted"), "link-to-host"])
        shared.run(["ln", "-s", str(tmp_path), "way-to-host"])
        for path in ("link-to-host", "way-to-host/planted", str(tmp_path / "planted")):
            with contextlib.suppress(ToolError):
                assert b"secret of the host" not in shared.sandbox.read_file(path, limit=1000)

    def test_writing_through_a_link(self, shared: Started, tmp_path: Path) -> None:
        """``write_file`` never changes the host's files, whatever links an agent makes."""
        directory = tmp_path / "of-the-host"
        directory.mkdir()
        (directory / "planted").write_text("original\n")
        shared.run(["ln", "-s", str(directory / "planted"), "link-out"])
        shared.run(["ln", "-s", str(directory), "way-out"])
        for path in ("link-out", "way-out/planted", "way-out/new", str(directory / "planted")):
            with contextlib.suppress(ToolError):
                shared.sandbox.write_file(path, b"changed")
        assert {path.name: path.read_text() for path in directory.iterdir()} == {"planted": "original\n"}

    def test_processes_of_the_host(self, shared: Started) -> None:
        """The host's processes are not visible in /proc."""
        with _host_process() as word:
            assert self._search(shared, "cmdline", word) == ""

    def test_variables_of_the_host_in_proc(self, stage: Stage, shared: Started) -> None:
        """Neither PID 1 nor any other visible process has the harness's variables."""
        with _host_process():
            assert self._search(shared, "environ", stage.planted) == ""

    def test_processes_of_other_sandboxes(self, stage: Stage, shared: Started) -> None:
        """Processes of other sandboxes are not visible either."""
        word = secrets.token_hex(8)
        stage.other.run(f"sh -c ': {word}; sleep 60; true' </dev/null >/dev/null 2>&1 &")
        assert self._search(stage.other, "cmdline", word) != ""
        assert self._search(shared, "cmdline", word) == ""

    def test_temporary_files_of_others(self, stage: Stage, shared: Started) -> None:
        """``/tmp`` is a different directory in each sandbox and on the host."""
        path = Path("/tmp", f"agentbench-{secrets.token_hex(8)}")  # noqa: S108 - this check is about that directory
        stage.other.run(["touch", str(path)])
        try:
            assert not path.exists()
            assert not shared.run(["test", "-e", str(path)]).ok
        finally:
            stage.other.run(["rm", "-f", str(path)])

    def test_a_read_only_workspace(self, stage: Stage) -> None:
        """Commands can read the workspace but not change it; HOME and TMPDIR are writable."""
        before = contents(stage.read_only.workspace)
        stage.read_only.run(_WRITE)
        assert contents(stage.read_only.workspace) == before
        command = 'cat made && ./program && touch "$HOME/file" "$TMPDIR/file"'
        assert stage.read_only.ask(command) == "one\ntwo\nit runs"

    def test_a_read_only_workspace_through_files(self, stage: Stage) -> None:
        """``write_file`` raises a ToolError if the workspace is read-only."""
        with pytest.raises(ToolError):
            stage.read_only.sandbox.write_file("text", b"changed")
        assert (stage.read_only.workspace / "text").read_text() == "pristine\n"

    def test_a_read_only_workspace_once(self, stage: Stage) -> None:
        """A command in a fresh sandbox cannot change a read-only workspace either."""
        workspace = stage.fork()
        before = contents(workspace)
        stage.once(_WRITE, workspace=workspace, read_only=True)
        assert contents(workspace) == before

    def test_inputs_stay_as_they_are(self, stage: Stage, tmp_path: Path) -> None:
        """Commands can read their inputs but not change them, since inputs are shared with other commands."""
        directory = tmp_path / "given"
        directory.write_text("original\n")
        directory.chmod(0o666)
        result = stage.once(
            'cat "$AGENTBENCH_INPUTS/file"; echo changed >> "$AGENTBENCH_INPUTS/file"', inputs={"file": directory}
        )
        assert result.stdout.data == b"original\n"
        assert directory.read_text() == "original\n"

    def _search(self, started: Started, kind: str, word: str) -> str:
        return started.ask([self.python, "-c", _SEARCH, kind, word[::-1]])

    @staticmethod
    def _interfaces(printed: str) -> set[str]:
        return set(printed.split())


class PrivilegeChecks(Hooks):
    """User, capabilities, and system files."""

    def test_not_root(self, shared: Started) -> None:
        """Commands do not run as root: neither a user id nor a group id is 0."""
        assert "0" not in shared.ask("id -u; id -ru; id -g; id -G").split()

    def test_no_capabilities(self, shared: Started) -> None:
        """Commands have no capabilities and cannot gain any."""
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(_status(shared, name), 16) == 0, f"{name} is not empty"

    def test_no_new_privileges(self, shared: Started) -> None:
        """``no_new_privs`` is set, so that no program can gain privileges."""
        assert _status(shared, "NoNewPrivs") == "1"

    def test_system_calls_are_filtered(self, shared: Started) -> None:
        """A seccomp filter is active."""
        assert _status(shared, "Seccomp") == "2"

    def test_setuid_programs(self, shared: Started) -> None:
        """A setuid program in the workspace runs with the caller's privileges."""
        shared.ask('cp "$(command -v id)" borrowed')
        privileged = shared.workspace / "privileged"  # created here, so that it belongs to the harness's user
        privileged.write_bytes((shared.workspace / "borrowed").read_bytes())
        privileged.chmod(0o4755)
        assert shared.ask("./privileged -u") == shared.ask("id -u")

    def test_the_system_cannot_be_changed(self, shared: Started) -> None:
        """Nothing outside the workspace, HOME and temporary directories is writable."""
        _require_own_namespace(shared, "mnt")  # otherwise the host would be affected
        assert shared.ask([self.python, "-c", _MAKE]) == ""

    def test_no_socket_of_an_engine(self, shared: Started) -> None:
        """No socket of a container engine or system service is reachable: access can mean root on the host."""
        result = shared.ask(f'for place in {" ".join(_SOCKETS)}; do [ -e "$place" ] && echo "$place"; done; true')
        assert result == ""

    def test_no_disks_of_the_host(self, shared: Started) -> None:
        """/dev has no block devices."""
        assert shared.ask("find /dev -type b 2>/dev/null; true") == ""

    def test_killing_all_processes(self, stage: Stage) -> None:
        """``kill -9 -1`` only kills processes in the sandbox: later calls work, and files are preserved."""
        _require_own_namespace(stage.other, "pid")  # otherwise the host would be affected
        stage.other.run("kill -9 -1")
        after = stage.other.run("cat text")
        assert (after.exit_code, after.stdout.data) == (0, b"pristine\n")


@contextlib.contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A port that accepts connections on all addresses of the host, and some of these addresses."""
    addresses = ["127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, contextlib.suppress(OSError):
        asking.connect(("192.0.2.1", 9))  # sends nothing, but selects the address that would be used
        addresses.append(asking.getsockname()[0])
    with socket.create_server(("", 0)) as server:
        yield str(server.getsockname()[1]), addresses


@contextlib.contextmanager
def _host_process() -> Iterator[str]:
    """A host process with the harness's variables; its command line contains the yielded word."""
    word = secrets.token_hex(8)
    command = [sys.executable, "-c", "import sys; sys.stdin.read()", word]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdin is not None
        yield word
        process.stdin.close()


def _status(shared: Started, name: str) -> str:
    lines = shared.ask("cat /proc/self/status").splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


def _require_own_namespace(shared: Started, kind: str) -> None:
    """Fail unless the sandbox's namespace differs from the harness's. Call it before a destructive check."""
    inside = shared.ask(["readlink", f"/proc/self/ns/{kind}"])
    assert inside != str(Path(f"/proc/self/ns/{kind}").readlink()), f"the {kind} namespace is the host's"
