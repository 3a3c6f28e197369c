"""Security settings, mounts and limits of all containers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import EnvironmentSpec
from agentbench_docker.options import DockerOptions
from agentbench_docker.seccomp_exec import elf_program

FIXED_ID = 10001
"""User and group id of commands when the harness runs as root."""
HOME = "/home/agent"
PREFIX = "/opt/venv"
"""Virtual environment for setup. It is not in HOME, which is new in every container."""
MOUNT_ROOT = "/agentbench"
"""Mount point of AgentBench's own files."""
_INSIDE = Path(__file__).with_name("inside")


def start_script(module: str) -> str:
    """A shell script that runs ``main`` of a module in :mod:`.inside` with the script's arguments."""
    path = f"import sys; sys.path.insert(0, '{MOUNT_ROOT}/lib')"
    main = f"{path}; from agentbench_docker.inside.{module} import main; main()"
    # Prefer a system Python: the one in PREFIX belongs to the task's setup.
    return f"""\
for python in /usr/local/bin/python3 /usr/bin/python3 python3; do
    command -v "$python" >/dev/null && exec "$python" -I -S -c "{main}" "$@"
done
exit 127
"""


START = start_script("server")
WAIT = "trap : INT TERM HUP QUIT USR1 USR2 ALRM; while :; do sleep 3600 & wait $!; done"
"""PID 1 in images without Python. Other processes cannot kill it, and it reaps zombies."""


@attrs.frozen(kw_only=True)
class Person:
    """User and group of commands in a container."""

    uid: int
    gid: int

    @property
    def uid_gid(self) -> str:
        """Value of docker's ``--user``."""
        return f"{self.uid}:{self.gid}"

    def chown(self, path: Path) -> None:
        """Change the owner of a file or directory to this user if the harness runs as root."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def chown_tree(self, root: Path) -> None:
        """Change the owner of a whole tree, which must not be modified concurrently."""
        if os.geteuid() == 0:
            for directory, names, files in os.walk(root):
                for path in (Path(directory), *(Path(directory, name) for name in (*names, *files))):
                    self.chown(path)


def container_user() -> Person:
    """The user for commands: the current user, or ``FIXED_ID`` if that is root."""
    if os.geteuid() == 0:
        return Person(uid=FIXED_ID, gid=FIXED_ID)
    return Person(uid=os.geteuid(), gid=os.getegid())


@attrs.frozen(kw_only=True)
class Mount:
    """A bind mount of a host file or directory."""

    source: Path
    target: str
    read_only: bool = True

    def words(self) -> list[str]:
        """Fields of docker's ``--mount`` value, quoted as CSV."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        quoted = ['"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field for field in fields]
        return [*quoted, *(["readonly"] if self.read_only else [])]


@attrs.frozen(kw_only=True)
class Hardening:
    """Settings that all containers of a provider share."""

    options: DockerOptions
    user: Person
    cpus: int
    """Number of the engine's CPUs, the upper bound of a task's CPU limit."""
    own: Sequence[Mount]
    """Result of :func:`write_own_files`."""
    gate: Mount | None
    """Result of :func:`write_gate`."""
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
        """Keyword arguments for ``create`` of python-on-whales.

        Args:
            spec: the task's limits.
            mounts: additional mounts.
            volumes: directories of the image to mount as tmpfs.
            network: a network name, ``none``, or ``container:ID`` for the network namespace of another container.
            set_up: whether this is a setup container, with a writable root file system.
            hosted: whether PID 1 is the AgentBench server; otherwise it is a waiting shell.
            labels: additional labels.
        """
        settings, options = spec.settings, self.options
        memory = f"{settings.mem_limit_mb}m"
        first, *more = ["/bin/sh"] if hosted else self.shell()
        own = [*self.own, *([self.gate] if self.gate and not hosted else [])]
        arguments: dict[str, Any] = {
            "entrypoint": first,
            "command": [*more, "-c", START if hosted else WAIT],
            "user": self.user.uid_gid,
            "workdir": "/",
            "interactive": hosted,
            **network_arguments(network),
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
            "stop_signal": "SIGKILL",  # no process handles a graceful stop
            "pull": "never",
            "labels": {**self.labels, **labels},
            "mounts": [mount.words() for mount in (*own, *mounts)],
            "healthcheck": False,
        }
        if options.runtime:
            arguments["runtime"] = options.runtime
        return arguments

    def shell(self) -> list[str]:
        """Shell command for images without Python, with the same seccomp filter as PID 1 in other images."""
        return [*([self.gate.target] if self.gate else []), "/bin/sh"]

    def _tmpfs(self, memory_mb: int, volumes: Sequence[str]) -> list[str]:
        """The tmpfs mounts. Their contents count as memory, so their total size stays below the limit."""
        options, user = self.options, self.user
        tmp = max(1, min(options.tmp_mb, memory_mb // 2))
        home = max(1, min(options.home_mb, memory_mb // 4))
        var = max(1, min(64, memory_mb // 8))
        owner = f"uid={user.uid},gid={user.gid}"
        return [
            f"/tmp:rw,exec,nosuid,nodev,size={tmp}m,mode=1777",  # noqa: S108 - inside the container
            f"/var/tmp:rw,exec,nosuid,nodev,size={var}m,mode=1777",  # noqa: S108 - inside the container
            *(f"{volume}:rw,exec,nosuid,nodev,size={var}m,mode=1777" for volume in volumes),
            "/run:rw,nosuid,nodev,noexec,size=16m,mode=755",
            f"{HOME}:rw,exec,nosuid,nodev,size={home}m,{owner},mode=0700",
        ]

    @property
    def loosened(self) -> Sequence[str]:
        """Descriptions of the options that weaken isolation."""
        options = self.options
        relaxed = [f"capability {name}" for name in options.capabilities]
        return (*relaxed, *(() if options.read_only_root else ("the root file system is writable",)))


def network_arguments(network: str) -> dict[str, Any]:
    """Arguments for ``create`` that concern the network. A container that joins another one shares its host name."""
    if network.startswith("container:"):
        return {"networks": [network]}
    return {
        "networks": [network],
        "hostname": "sandbox",
        "add_hosts": [("sandbox", "127.0.0.1")],
        "sysctl": _sysctl(),
    }


def _sysctl() -> dict[str, str]:
    """Kernel parameters that enable IPv6 on loopback, which docker disables in containers without a network."""
    return {"net.ipv6.conf.all.disable_ipv6": "0"} if Path("/proc/sys/net/ipv6").exists() else {}


def write_own_files(directory: Path, user: Person) -> tuple[Mount, ...]:
    """Write the files that are mounted into every container, readable by all users.

    These are the program for PID 1, and ``passwd`` and ``group`` for programs that look up the user.
    """
    inside = directory / "inside"
    inside.mkdir()
    for source in _INSIDE.glob("*.py"):
        (inside / source.name).write_bytes(source.read_bytes())
    passwd, group = directory / "passwd", directory / "group"
    passwd.write_text(
        f"root:x:0:0:root:/root:/bin/sh\nagent:x:{user.uid}:{user.gid}:agent:{HOME}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    group.write_text(f"root:x:0:\nagent:x:{user.gid}:\nnogroup:x:65534:\n")
    for file in (passwd, group, *inside.iterdir()):
        file.chmod(0o644)
    inside.chmod(0o755)
    return (
        Mount(source=inside, target=f"{MOUNT_ROOT}/lib/agentbench_docker/inside"),
        Mount(source=passwd, target="/etc/passwd"),
        Mount(source=group, target="/etc/group"),
    )


def write_gate(directory: Path) -> Mount | None:
    """Write the program that installs the seccomp filter for shells; None on unsupported architectures."""
    file = directory / "gate"
    file.write_bytes(elf_program())
    file.chmod(0o755)
    return Mount(source=file, target=f"{MOUNT_ROOT}/gate") if file.stat().st_size else None


def variables(image: Mapping[str, str], workdir: str) -> dict[str, str]:
    """Environment variables of commands: the image's variables, and variables set by AgentBench."""
    path = image.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {
        **image,
        "PATH": f"{PREFIX}/bin:{path}".replace(f"{PREFIX}/bin:{PREFIX}/bin:", f"{PREFIX}/bin:"),
        "HOME": HOME,
        "USER": "agent",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - inside the container
        "PWD": workdir,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
