"""What every container is started with: nothing that its task did not ask for, and nothing of the host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import EnvironmentSpec
from agentbench_docker.gate import gate
from agentbench_docker.options import DockerOptions

FIXED_ID = 10001
"""User and group of commands when the harness itself is root."""
HOME = "/home/agent"
PREFIX = "/opt/venv"
"""Where set-up installs: HOME is a fresh one in every start."""
OURS = "/agentbench"
"""Where our own files are mounted."""
_INSIDE = Path(__file__).with_name("inside")
_MAIN = f"import sys; sys.path.insert(0, '{OURS}/lib'); from agentbench_docker.inside.server import main; main()"

# A python of the system first: the one in PREFIX belongs to the task's set-up.
START = f"""\
for python in /usr/local/bin/python3 /usr/bin/python3 python3; do
    command -v "$python" >/dev/null && exec "$python" -I -S -c "{_MAIN}"
done
exit 127
"""
WAIT = "trap : INT TERM HUP QUIT USR1 USR2 ALRM; while :; do sleep 3600 & wait $!; done"
"""Process 1 where there is no Python: it cannot be killed from within either, and it buries the dead."""


@attrs.frozen(kw_only=True)
class Person:
    """Who commands run as."""

    uid: int
    gid: int

    @property
    def user(self) -> str:
        """As docker wants it."""
        return f"{self.uid}:{self.gid}"

    def give(self, path: Path) -> None:
        """Make a file or directory of ours theirs, where we can and must."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def give_tree(self, root: Path) -> None:
        """The same for all in a tree of ours, which nobody else writes to."""
        if os.geteuid() == 0:
            for directory, names, files in os.walk(root):
                for path in (Path(directory), *(Path(directory, name) for name in (*names, *files))):
                    self.give(path)


def person() -> Person:
    """Never root: the owner of the workspace, which is us, or a fixed one when we are root."""
    if os.geteuid() == 0:
        return Person(uid=FIXED_ID, gid=FIXED_ID)
    return Person(uid=os.geteuid(), gid=os.getegid())


@attrs.frozen(kw_only=True)
class Mount:
    """A file or directory of the host inside a container."""

    source: Path
    target: str
    read_only: bool = True

    def words(self) -> list[str]:
        """As docker wants it: the fields of a line of CSV."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        quoted = ['"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field for field in fields]
        return [*quoted, *(["readonly"] if self.read_only else [])]


@attrs.frozen(kw_only=True)
class Hardening:
    """What all containers of a provider have in common."""

    options: DockerOptions
    person: Person
    cpus: int
    """Processors that the engine has; more cannot be asked for."""
    own: Sequence[Mount]
    """What :func:`write_own_files` gave."""
    gate: Mount | None
    """What :func:`write_gate` gave."""
    labels: Mapping[str, str]

    def arguments(
        self,
        spec: EnvironmentSpec,
        *,
        mounts: Sequence[Mount],
        volumes: Sequence[str],
        network: str,
        set_up: bool,
        hosted: bool,
        labels: Mapping[str, str],
    ) -> dict[str, Any]:
        """Keywords for python-on-whales' ``create``.

        Args:
            spec: the task's limits.
            mounts: besides our own.
            volumes: directories of the image that become memory, too.
            network: ``none``, or the name of one.
            set_up: whether its changes are to be kept: then the root file system can be written.
            hosted: whether our process 1 runs there, or a shell that waits.
            labels: besides our own.
        """
        settings, options = spec.settings, self.options
        memory = f"{settings.mem_limit_mb}m"
        first, *more = ["/bin/sh"] if hosted else self.shell()
        own = [*self.own, *([self.gate] if self.gate and not hosted else [])]
        arguments: dict[str, Any] = {
            "entrypoint": first,
            "command": [*more, "-c", START if hosted else WAIT],
            "user": self.person.user,
            "workdir": "/",
            "interactive": hosted,
            "networks": [network],
            "hostname": "sandbox",
            "add_hosts": [("sandbox", "127.0.0.1")],
            "sysctl": _sysctl(),
            "cap_drop": ["ALL"],
            "cap_add": list(options.capabilities),
            "security_options": ["no-new-privileges"],
            "read_only": options.read_only_root and not set_up,
            "tmpfs": self._tmpfs(settings.mem_limit_mb, volumes),
            "shm_size": f"{options.shm_mb}m",
            "ipc": "private",
            "memory": memory,
            "memory_swap": memory,
            "cpus": float(min(settings.cpu_limit, self.cpus)),
            "pids_limit": settings.pids_limit,
            "ulimit": ["nofile=4096:4096", "core=0", "fsize=2147483648"],
            "log_driver": "none",
            "stop_signal": "SIGKILL",  # there is nothing in it to be asked politely
            "pull": "never",
            "labels": {**self.labels, **labels},
            "mounts": [mount.words() for mount in (*own, *mounts)],
            "healthcheck": False,
        }
        if options.runtime:
            arguments["runtime"] = options.runtime
        return arguments

    def shell(self) -> list[str]:
        """A shell in an image without Python, under the filter that process 1 takes on in others."""
        return [*([self.gate.target] if self.gate else []), "/bin/sh"]

    def _tmpfs(self, memory_mb: int, volumes: Sequence[str]) -> list[str]:
        """What is written there is memory, so all of it together stays below the limit."""
        options, person = self.options, self.person
        tmp = max(1, min(options.tmp_mb, memory_mb // 2))
        home = max(1, min(options.home_mb, memory_mb // 4))
        var = max(1, min(64, memory_mb // 8))
        owner = f"uid={person.uid},gid={person.gid}"
        return [
            f"/tmp:rw,exec,nosuid,nodev,size={tmp}m,mode=1777",  # noqa: S108 - the container's own
            f"/var/tmp:rw,exec,nosuid,nodev,size={var}m,mode=1777",  # noqa: S108 - the same
            *(f"{place}:rw,exec,nosuid,nodev,size={var}m,mode=1777" for place in volumes),
            "/run:rw,nosuid,nodev,noexec,size=16m,mode=755",
            f"{HOME}:rw,exec,nosuid,nodev,size={home}m,{owner},mode=0700",
        ]

    @property
    def loosened(self) -> Sequence[str]:
        """What options took away from it, in words."""
        options = self.options
        found = [f"capability {name}" for name in options.capabilities]
        return (*found, *(() if options.read_only_root else ("the root file system can be written",)))


def _sysctl() -> dict[str, str]:
    """Without a network, docker switches IPv6 off on the loopback interface, too."""
    return {"net.ipv6.conf.all.disable_ipv6": "0"} if Path("/proc/sys/net/ipv6").exists() else {}


def write_own_files(place: Path, person: Person) -> tuple[Mount, ...]:
    """Put what every container gets of us into a directory of ours, where all may read it.

    The program that is its process 1; ``passwd`` and ``group``, since programs ask for the name and home of a user.
    """
    inside = place / "inside"
    inside.mkdir()
    for source in _INSIDE.glob("*.py"):
        (inside / source.name).write_bytes(source.read_bytes())
    passwd, group = place / "passwd", place / "group"
    passwd.write_text(
        f"root:x:0:0:root:/root:/bin/sh\nagent:x:{person.uid}:{person.gid}:agent:{HOME}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    group.write_text(f"root:x:0:\nagent:x:{person.gid}:\nnogroup:x:65534:\n")
    for file in (passwd, group, *inside.iterdir()):
        file.chmod(0o644)
    inside.chmod(0o755)
    return (
        Mount(source=inside, target=f"{OURS}/lib/agentbench_docker/inside"),
        Mount(source=passwd, target="/etc/passwd"),
        Mount(source=group, target="/etc/group"),
    )


def write_gate(place: Path) -> Mount | None:
    """Put the program that shells are started through into a directory of ours; nothing where there is none."""
    file = place / "gate"
    file.write_bytes(gate())
    file.chmod(0o755)
    return Mount(source=file, target=f"{OURS}/gate") if file.stat().st_size else None


def variables(image: Mapping[str, str], workdir: str) -> dict[str, str]:
    """The environment of commands: the image's own, and what every task gets."""
    path = image.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {
        **image,
        "PATH": f"{PREFIX}/bin:{path}".replace(f"{PREFIX}/bin:{PREFIX}/bin:", f"{PREFIX}/bin:"),
        "HOME": HOME,
        "USER": "agent",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - the container's own
        "PWD": workdir,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
