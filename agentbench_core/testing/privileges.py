"""Checks: what runs inside has no rights that it does not need."""

from __future__ import annotations

from pathlib import Path

from agentbench_core.testing.stage import Hooks, Stage, Started

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
"""Prints the directories of the system in which something can be made."""
_SOCKETS = (
    *("/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/crio/crio.sock"),
    *("/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"),
)


class PrivilegeChecks(Hooks):
    """The user, capabilities, the system's files."""

    def test_not_root(self, shared: Started) -> None:
        """Commands run as somebody else, in all respects."""
        assert "0" not in shared.ask("id -u; id -ru; id -g; id -G").split()

    def test_no_capabilities(self, shared: Started) -> None:
        """No process has any, nor can it get one."""
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(_status(shared, name), 16) == 0, f"{name} is not empty"

    def test_no_new_privileges(self, shared: Started) -> None:
        """``no_new_privs`` is set: no program gives more rights than its caller has."""
        assert _status(shared, "NoNewPrivs") == "1"

    def test_system_calls_are_filtered(self, shared: Started) -> None:
        """A seccomp filter is in force."""
        assert _status(shared, "Seccomp") == "2"

    def test_setuid_programs(self, shared: Started) -> None:
        """One that the host puts into the workspace runs with the rights of its caller."""
        shared.ask('cp "$(command -v id)" borrowed')
        privileged = shared.workspace / "privileged"  # made here, so that it belongs to the harness's user
        privileged.write_bytes((shared.workspace / "borrowed").read_bytes())
        privileged.chmod(0o4755)
        assert shared.ask("./privileged -u") == shared.ask("id -u")

    def test_the_system_cannot_be_changed(self, shared: Started) -> None:
        """Nothing outside of the workspace, HOME and temporary directories can be written."""
        _demand_own_namespace(shared, "mnt")  # it would happen to the host
        assert shared.ask([self.python, "-c", _MAKE]) == ""

    def test_no_socket_of_an_engine(self, shared: Started) -> None:
        """Whoever reaches one is root on the host."""
        found = shared.ask(f'for place in {" ".join(_SOCKETS)}; do [ -e "$place" ] && echo "$place"; done; true')
        assert found == ""

    def test_no_disks_of_the_host(self, shared: Started) -> None:
        """/dev has no block devices."""
        assert shared.ask("find /dev -type b 2>/dev/null; true") == ""

    def test_killing_everybody(self, stage: Stage) -> None:
        """``kill -9 -1`` hits commands only: later calls work, files are there, and the host notices nothing."""
        with stage.start() as started:
            _demand_own_namespace(started, "pid")  # it would happen to the host
            started.run("kill -9 -1")
            after = started.run("cat text")
        assert (after.exit_code, after.stdout.data) == (0, b"pristine\n")


def _status(shared: Started, name: str) -> str:
    lines = shared.ask("cat /proc/self/status").splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


def _demand_own_namespace(shared: Started, kind: str) -> None:
    """Before a check does harm: it must happen in a namespace that is not the harness's own."""
    inside = shared.ask(["readlink", f"/proc/self/ns/{kind}"])
    assert inside != str(Path(f"/proc/self/ns/{kind}").readlink()), f"the {kind} namespace is the host's"
