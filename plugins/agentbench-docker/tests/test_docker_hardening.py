"""Container hardening: nothing of the host gets in or out, and real test suites still run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import Command, Deadline, SandboxError, fork, remove_tree
from agentbench_docker import disk, inside
from agentbench_docker.disk import DiskWatch, Usage
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider

pytestmark = pytest.mark.docker

SECRET = "sk-5ecret-of-the-host"
PROXY = f"http://user:{SECRET}@proxy.example:3128"


@pytest.fixture(scope="module", autouse=True)
def hostile_home(place: Path) -> Iterator[Path]:
    """A home directory whose docker configuration passes proxies to every container."""
    configuration = place / "home" / ".docker" / "config.json"
    configuration.parent.mkdir(parents=True)
    proxies = {"httpProxy": PROXY, "httpsProxy": PROXY, "noProxy": "localhost"}
    configuration.write_text(json.dumps({"proxies": {"default": proxies}}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(place / "home"))
        patch.setenv("OPENROUTER_API_KEY", SECRET)
        patch.setenv("HTTPS_PROXY", PROXY)
        yield configuration


@pytest.fixture(scope="module")
def shared(stage: Any) -> Iterator[Any]:
    """One sandbox for all tests that change nothing in it but files of their own."""
    with stage.start() as started:
        yield started


def inspected(*names: str) -> list[dict[str, Any]]:
    done = subprocess.run(["docker", "inspect", *names], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


# --- rights ------------------------------------------------------------------------------------------------------


def test_engine_reports_the_hardening_options(shared: Any) -> None:
    """D: the engine reports the expected user, capabilities, limits and file systems."""
    (found,) = inspected(shared.id)
    host, config = found["HostConfig"], found["Config"]
    assert config["User"] not in ("", "0", "root")
    assert not config["User"].startswith("0:")
    assert (host["NetworkMode"], host["IpcMode"], host["Privileged"]) == ("none", "private", False)
    assert (host["CapDrop"], host["CapAdd"] or []) == (["ALL"], [])
    assert "no-new-privileges" in str(host["SecurityOpt"])
    assert "unconfined" not in str(host["SecurityOpt"])
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (256 << 20, 256 << 20, 128)
    assert host["NanoCpus"] > 0
    assert host["ReadonlyRootfs"] is True
    assert (host["PidMode"], host["UTSMode"], host["UsernsMode"], host["Devices"] or []) == ("", "", "", [])
    assert host["LogConfig"]["Type"] == "none"
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == {"nofile": 4096, "core": 0, "fsize": 1 << 31}
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert all("nosuid" in words and "nodev" in words for words in host["Tmpfs"].values())


def test_privileges_inside_the_container(shared: Any) -> None:
    """H07, D: commands are not root, have and gain no capabilities, and cannot create devices."""
    status = dict(line.split(":\t", 1) for line in shared.ask("cat /proc/self/status").splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0000000000000000"}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "0" not in status["Uid"].split() + status["Gid"].split()
    made = shared.run("mknod disk b 254 0; mknod null c 1 3; unshare -U true; unshare -m true; mount -t tmpfs x /tmp")
    assert not made.ok
    assert not (shared.workspace / "disk").exists()
    assert not (shared.workspace / "null").exists()
    devices = shared.ask("find /dev ! -type d ! -type l")
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "mqueue", "shm"}
    assert {Path(line).name for line in devices.splitlines()} <= allowed


def test_setuid_programs(shared: Any) -> None:
    """H08, H09: setuid programs in the workspace do not belong to root; those of the image have no effect."""
    shared.ask("cp /bin/sh s; chmod 6755 s; cp /bin/sh /tmp/s; chmod 6755 /tmp/s")
    left = (shared.workspace / "s").stat()
    assert left.st_mode & stat.S_ISUID
    assert left.st_uid != 0
    assert left.st_gid != 0
    person = shared.ask("id -u")
    programs = "./s -p -c 'id -u'; /tmp/s -p -c 'id -u'; su -c 'id -u' root; mount; umount /workspace; true"
    said = shared.run(programs, seconds=10).stdout.text
    assert "0" not in said.split()
    assert person in said.split()
    assert re.search("^0$", shared.run("cat /etc/shadow; id -u").stdout.text, re.MULTILINE) is None


def test_system_paths_are_read_only(shared: Any) -> None:
    """D, H29: the image, kernel settings, our own files and the accounts are read-only."""
    places = "/x /usr/x /usr/local/x /etc/passwd /etc/x /opt/x /var/x /run/x /agentbench/x $(find /agentbench)"
    switches = "/proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/x /sys/fs/cgroup/x /dev/x"
    said = shared.ask(f"for place in {places} {switches}; do (echo x >> $place) 2>/dev/null && echo $place; done; true")
    assert said == ""


def test_inaccessible_directories_are_removed(stage: Any) -> None:
    """H10: directories that a command made inaccessible can still be removed."""
    with stage.start() as started:
        started.run("mkdir -p a/b; echo x > a/b/c; chmod 0 a/b/c a/b a; chmod 0 .")
        assert started.workspace.stat().st_uid == (os.geteuid() or 10001)
        assert stat.S_IMODE(started.workspace.stat().st_mode) == 0
        after = started.run("echo alive")
        assert after.exit_code in (0, 126), "the next call should have a result"
    remove_tree(started.workspace)
    assert not started.workspace.exists()


def test_workspace_does_not_change_after_close(stage: Any) -> None:
    """H37: daemons that rewrite the workspace are dead before it is read."""
    with stage.start() as started:
        loop = "while :; do echo forged >> beat; done"
        begun = "until [ -s beat ]; do sleep 0.05; done"
        started.ask(f"setsid sh -c '{loop}' >/dev/null 2>&1 & (sh -c '{loop}' &) >/dev/null 2>&1; {begun}")
        assert (started.workspace / "beat").stat().st_size > 0
        started.sandbox.close()
        assert started.processes() == []
        frozen = (started.workspace / "beat").stat()
        time.sleep(0.2)
        assert (started.workspace / "beat").stat() == frozen


# --- what gets in ------------------------------------------------------------------------------------------------


def test_proxies_and_keys_do_not_reach_the_container(shared: Any, hostile_home: Path) -> None:
    """H28: ``env`` shows only expected variables, although a plain client would pass proxies on."""
    plain = ["docker", "run", "--rm", "--network", "none", "agentbench/py-runner:0.1.0", "env"]
    control = subprocess.run(plain, capture_output=True, text=True, env={**os.environ, "HOME": os.environ["HOME"]})
    assert SECRET in control.stdout, "the hostile configuration should affect a plain client"
    lines = shared.ask("env").splitlines()
    (image,) = inspected(shared.sandbox.container.id)
    of_the_image = {line.partition("=")[0] for line in image["Config"]["Env"]} - {"PATH"}
    expected = {"HOME", "LANG", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "TMPDIR", "USER", *of_the_image}
    assert {line.partition("=")[0] for line in lines} == expected
    everything = shared.run("cat /proc/*/environ /proc/*/cmdline 2>/dev/null").stdout.text
    assert SECRET not in everything + str(lines) + json.dumps(image)


@pytest.fixture(scope="module")
def without_python(stage: Any) -> Iterator[Any]:
    """The same with ``docker exec``, as in images without Python."""
    with stage.start(hosted=False) as started:
        yield started


@pytest.fixture(params=["process-1", "docker-exec"])
def either(request: pytest.FixtureRequest, shared: Any, without_python: Any) -> Any:
    """Both shared sandboxes, one after the other."""
    return shared if request.param == "process-1" else without_python


def test_secrets_are_not_on_command_lines_or_stored_by_the_engine(either: Any) -> None:
    """H27: a command's variable appears on no command line and in nothing the engine stores."""
    started, word = either, f"{SECRET}-{os.getpid()}-{either.id}"
    with _command_lines() as seen:
        result = started.run('sleep 0.5; echo "$K"', env={"K": word})
        known = json.dumps(inspected(started.id))
    assert result.stdout.text == f"{word}\n"
    assert any(started.id in line for line in seen), "the watch should see docker's own command lines"
    assert not [line for line in seen if word in line]
    assert word not in known


@contextlib.contextmanager
def _command_lines() -> Iterator[set[str]]:
    """Collect all command lines of this machine."""
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for place in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    seen.add((place / "cmdline").read_bytes().decode(errors="replace"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def test_only_expected_paths_are_mounted(shared: Any) -> None:
    """H29: only the workspace, our program and the accounts are mounted; there are no host sockets."""
    (found,) = inspected(shared.id)
    mounts = {mount["Destination"]: mount["RW"] for mount in found["Mounts"]}
    own = {place for place in mounts if place.startswith("/agentbench/")}
    assert len(own) == 1, "expected only the program of process 1"
    assert mounts == {"/workspace": True, "/etc/passwd": False, "/etc/group": False, **dict.fromkeys(own, False)}
    names = {Path(line).name for line in shared.ask("find /agentbench -type f").splitlines()}
    assert names == {path.name for path in Path(inside.__file__).parent.iterdir() if path.is_file()}
    assert not found["HostConfig"]["Binds"]
    assert not found["HostConfig"]["VolumesFrom"]
    seen = [line.split() for line in shared.ask("cat /proc/self/mountinfo").splitlines()]
    kernel = ("proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay")
    of_the_host = {words[4] for words in seen if words[words.index("-") + 1] not in kernel}
    assert of_the_host - {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} <= set(mounts)
    assert shared.ask("find / -xdev -type s 2>/dev/null; find /run /var/run /tmp /workspace -type s") == ""


# --- the network -------------------------------------------------------------------------------------------------

LISTEN = """
import pathlib, socket, time
server = socket.create_server(("0.0.0.0", 8000))
found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
found.connect(("192.0.2.1", 9))
address = found.getsockname()[0]
socket.create_connection((address, 8000), 5).close()
pathlib.Path("draft").write_text(address)
pathlib.Path("draft").rename("address")
end = time.monotonic() + 60
while not pathlib.Path("done").exists() and time.monotonic() < end: time.sleep(0.05)
"""
REACH = """
import socket, sys
try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close(); print("reached")
except OSError as error: print("refused")
"""


@pytest.mark.release
def test_setup_cannot_reach_other_containers(
    place: Path, pristine: Path, spec_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H30: a setup with network access cannot reach other containers; agents have no network.

    Setup can reach the internet and this machine, since there is no list of allowed hosts. It has no secrets but
    the variables in ``setup_environment``, which are not stored in the image.
    """
    monkeypatch.setenv("PIP_INDEX_URL", f"https://user:{SECRET}@index.example/simple")
    provider = DockerProvider(DockerOptions(setup_environment=("PIP_INDEX_URL",)))
    images = []
    try:
        log = _Printed()
        with socket.create_server(("0.0.0.0", 0)) as host:
            thread = _Preparing(provider, spec_of(_python(LISTEN), network_policy="setup-only"), pristine, _Printed())
            thread.start()
            (found,) = _poll(
                lambda: list((place / "cache").glob("agentbench/docker/environments/*/*/workspace/address"))
            )
            address, gateway = found.read_text(), re.sub(r"\.\d+$", ".1", found.read_text())
            commands = (
                f"{_python(REACH)} {address} 8000",
                f"{_python(REACH)} {gateway} {host.getsockname()[1]}",
                'test -n "$PIP_INDEX_URL"',
            )
            spec = spec_of(*commands, network_policy="setup-only")
            environment = provider.prepare(spec, pristine, log, Deadline(60))
            found.with_name("done").touch()
            thread.join()
        images = [each.image.id for each in (environment, thread.environment)]
        assert log.said == ["refused", "reached", ""]
        for image in images:
            shown = json.dumps(inspected(image))
            history = subprocess.run(["docker", "history", "--no-trunc", image], capture_output=True, text=True).stdout
            assert SECRET not in shown + history
        sandbox = environment.start(environment.workspace, read_only=True, network=False, deadline=Deadline(60))
        reach = sandbox.exec(f"{_python(REACH)} {gateway} 53; cat /proc/net/route; env", deadline=Deadline(60))
        assert reach.stdout.text.startswith("refused\n")
        assert SECRET not in reach.stdout.text
        assert not [line for line in reach.stdout.text.splitlines() if line.startswith("eth")]
    finally:
        provider.close()
        for image in images:
            subprocess.run(["docker", "image", "rm", "--force", image], capture_output=True)


@attrs.define
class _Printed:
    """A setup log that keeps the output of commands."""

    said: list[str] = attrs.field(factory=list)

    def started(self, command: str) -> None:
        pass

    def finished(self, command: str, result: Any) -> None:
        self.said.append(result.stdout.text.strip())

    def reused(self, command: str, result: Any) -> None:
        self.finished(command, result)


class _Preparing(threading.Thread):
    """A preparation in its own thread."""

    def __init__(self, provider: DockerProvider, spec: Any, pristine: Path, log: Any) -> None:
        super().__init__()
        self._prepare = lambda: provider.prepare(spec, pristine, log, Deadline(90))
        self.environment: Any = None

    def run(self) -> None:
        self.environment = self._prepare()


def _python(code: str) -> str:
    return f"python3 -c '{code}'"


def _poll(look: Callable[[], Any]) -> Any:
    give_up_at = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
    return found


NO_WAY_OUT = """
import ctypes, mmap, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def wide(*words):
    return -ctypes.get_errno() if libc.syscall(*map(ctypes.c_long, words)) < 0 else "done"
def narrow(number, first):  # called as in a 32-bit program
    code = struct.pack("<2sI1sI", b"\\x53\\xb8", number, b"\\xbb", first)
    code += b"\\xb9\\1\\0\\0\\0\\x31\\xd2\\xcd\\x80\\x5b\\xc3"
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print(wide(41, 40, 1, 0), wide(41, 40 | 1 << 32, 1, 0), wide(425, 1, 0), narrow(359, 40), narrow(102, 1))
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    socket.socket(family, socket.SOCK_DGRAM).close()
"""


def test_vsock_and_io_uring_are_refused(stage: Any, shared: Any, without_python: Any) -> None:
    """H29: AF_VSOCK, which reaches the host of a virtual machine without a network, is refused.

    ``io_uring``, which bypasses the filter, and ``socketcall``, whose arguments it cannot see, are refused, too.
    """
    for started in (shared, without_python):
        assert started.ask(["python3", "-c", NO_WAY_OUT]) == "-1 -1 -1 -1 -1"
    once = stage.once(f"python3 -c '{NO_WAY_OUT}'", hosted=False)  # otherwise, the same process 1 as above would run it
    assert once.stdout.text == "-1 -1 -1 -1 -1\n", once


# --- floods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("once", [False, True], ids=["exec", "run_once"])
def test_a_flood_of_output(stage: Any, shared: Any, once: bool) -> None:
    """H18: of 200 MB of output only head and tail are kept; neither harness nor process 1 grows."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory
    before = _highest_memory("self")
    command = "echo head; yes | head -c 100000000; yes | head -c 100000000 >&2; echo tail; exit 3"
    result = stage.once(command) if once else shared.run(command)
    assert _highest_memory("self") - before < 30 << 20
    assert result.exit_code == 3
    assert result.stdout.omitted + len(result.stdout.head) + len(result.stdout.tail) == 100000000 + 10
    assert result.stdout.head.startswith(b"head\ny\n")
    assert result.stdout.tail.endswith(b"y\ntail\n")
    assert len(result.stdout.data) + len(result.stderr.data) < 2_200_000
    if not once:
        (first,) = inspected(shared.id)
        assert _highest_memory(str(first["State"]["Pid"])) < 64 << 20


def _highest_memory(process: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


@pytest.fixture(scope="module")
def small_disk(pristine: Path, spec_of: Callable[..., Any]) -> Iterator[Any]:
    """An environment whose sandboxes may write 64 MiB and 1,000 files; they are measured more often than usual."""
    provider = DockerProvider(DockerOptions(workspace_mb=64, workspace_files=1000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "INTERVAL", 0.1)
        patch.setattr(disk, "_REST", 1)
        yield provider.prepare(spec_of(), pristine, _Printed(), Deadline(60))
        provider.close()


def _wait_until_measured(environment: Any, sandbox: Any) -> None:
    """Wait until a sandbox has been measured twice, so that the consequences of the first time have happened."""
    watched = environment.launcher._disk._watched.values()
    (entry,) = [each for each in watched if each.container == sandbox.container.id]
    for _ in range(2):
        _poll(lambda before=entry.next_at: entry.next_at > before)


@pytest.mark.long
def test_filling_the_disk(small_disk: Any, place: Path, stage: Any) -> None:
    """H13: a command over the disk limit is killed with the reason; the sandbox can free space and go on."""
    workspace = stage.fork()
    with contextlib.closing(
        small_disk.start(workspace, read_only=False, network=False, deadline=Deadline(60))
    ) as sandbox:
        result = sandbox.exec("head -c 300000000 /dev/zero > big; sync; sleep 600; echo end", deadline=Deadline(90))
        assert (result.ok, result.stdout.text, result.limits_hit) == (False, "", ("disk",))
        _wait_until_measured(small_disk, sandbox)  # while a model would think
        assert sandbox.exec("rm big; echo room", deadline=Deadline(60)).stdout.text == "room\n"
        _wait_until_measured(small_disk, sandbox)
        after = sandbox.exec("echo alive", deadline=Deadline(60))
        assert (after.stdout.text, after.limits_hit) == ("alive\n", ())


def test_filling_the_disk_while_scoring(small_disk: Any, stage: Any) -> None:
    """H13: tests over the disk limit are killed: a failed result, not a SandboxError."""
    command = Command("head -c 300000000 /dev/zero > big; sync; sleep 600; exit 0")
    result = small_disk.run_once(command, stage.fork(), Deadline(90))
    assert (result.ok, result.limits_hit) == (False, ("disk",))


NAMELESS = """
import mmap, os, time
file = open("big", "wb+"); os.unlink("big")
for _ in range(200): file.write(bytes(1 << 20))
file.flush()
memory = mmap.mmap(file.fileno(), 0)
%s
time.sleep(600)
"""
WAYS_TO_FILL = {
    "an open file without a name": NAMELESS % "",
    "a mapped file without a name": NAMELESS % "file.close()",
    "many files": "import time; [open(str(number), 'w').close() for number in range(2000)]; time.sleep(600)",
}


@pytest.mark.parametrize("way", WAYS_TO_FILL)
def test_disk_use_not_shown_in_file_sizes_is_counted(small_disk: Any, stage: Any, way: str) -> None:
    """H13: disk space that does not show in file sizes is counted."""
    with contextlib.closing(
        small_disk.start(stage.fork(), read_only=False, network=False, deadline=Deadline(60))
    ) as sandbox:
        result = sandbox.exec(["python3", "-c", WAYS_TO_FILL[way]], deadline=Deadline(90))
        assert (result.exit_code, result.limits_hit) == (137, ("disk",))


def test_disk_use_in_inaccessible_directories_is_counted() -> None:
    """H13: files in a directory of mode 000 are counted, even for an ordinary user."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o777)
    child = os.fork()
    if child == 0:
        told = threading.Event()
        with contextlib.suppress(BaseException):
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(10001, 10001, 10001)
                os.setresuid(10001, 10001, 10001)
            for name in ("before", "written/closed"):
                (place / name).mkdir(parents=True)
            watch = DiskWatch(Usage(1 << 20, 1000))
            watch.add("its-container", [place / "written"], place / "before", lambda why: told.set())
            (place / "written/closed/file").write_bytes(bytes(4 << 20))
            (place / "written/closed").chmod(0)
            told.wait(60)
        os._exit(not told.is_set())
    try:
        assert os.waitpid(child, 0)[1] == 0, "the hidden file should have been counted"
    finally:
        remove_tree(place)


@pytest.mark.long
@pytest.mark.mounts
def test_disk_filled_by_others_is_a_sandbox_error(small_disk: Any, place: Path) -> None:
    """H13: a disk filled by others raises SandboxError with the reason and is not held against an attempt."""
    small = place / "disk"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(small)], check=True)
    told = pytest.raises(SandboxError, match=rf"the disk is full, but no sandbox .* MiB free at {small}")
    given: dict[str, Any] = {"read_only": False, "network": False, "deadline": Deadline(40)}
    try:
        fork(small_disk.workspace, small / "workspace")
        with contextlib.closing(small_disk.start(small / "workspace", **given)) as sandbox:
            (small / "others").write_bytes(bytes(120 << 20))
            for command in ("exit 1", "true"):
                with told:
                    sandbox.exec(command, deadline=Deadline(40))
        with contextlib.closing(small_disk.start(small / "workspace", **given)) as sandbox, told:
            sandbox.exec("sleep 20", deadline=Deadline(40))
        with told:
            small_disk.run_once(Command("exit 1"), small / "workspace", Deadline(40))
    finally:
        subprocess.run(["umount", str(small)], check=True)


# --- real test suites --------------------------------------------------------------------------------------------

LITTLE_THINGS = {
    "a pool of processes": "import multiprocessing as m; print(sum(m.Pool(4).map(abs, range(-9, 1))))",
    "shared memory": """
from multiprocessing.shared_memory import SharedMemory
memory = SharedMemory(create=True, size=100 << 20)
memory.buf[:] = bytes(100 << 20)
memory.close(); memory.unlink()""",
    "scripts in /tmp": """
import os, pathlib, subprocess, tempfile
for place in (tempfile.mkdtemp(), tempfile.mkdtemp(dir="/var/tmp"), tempfile.mkdtemp(dir=os.environ["HOME"])):
    script = pathlib.Path(place, "script"); script.write_text("#!/bin/sh\\nexit 3\\n"); script.chmod(0o755)
    assert subprocess.run([script]).returncode == 3""",
    "threads": """
import threading
over = threading.Event()
threads = [threading.Thread(target=over.wait) for _ in range(300)]
[thread.start() for thread in threads]; over.set(); [thread.join() for thread in threads]""",
    "descriptors": "files = [open('/dev/null') for _ in range(2000)]",
    "the user": """
import getpass, os, pwd, pathlib
assert getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name == 'agent'
assert str(pathlib.Path.home()) == os.path.expanduser('~agent') == os.environ['HOME']""",
    "the home": """
import pathlib
cache = pathlib.Path.home() / '.cache/x'; cache.mkdir(parents=True); (cache / 'y').write_text('z')""",
    "the host's name": """
import socket
assert socket.gethostbyname(socket.gethostname()) == socket.gethostbyname('localhost') == '127.0.0.1'
assert socket.getfqdn()""",
    "IPv6 loopback": "import socket; socket.create_server(('::1', 0), family=socket.AF_INET6)",
    "a server and its client": """
import socket
server = socket.create_server(('127.0.0.1', 0)); socket.create_connection(server.getsockname(), 5)""",
    "port 80": "import socket; socket.create_server(('127.0.0.1', 80))",
    "tracing a child": """
import ctypes, os, signal
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
child = os.fork()
if child == 0:
    assert ptrace(0, 0, 0, 0) == 0
    os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)
_, status = os.waitpid(child, 0)
assert os.WIFSTOPPED(status) and ptrace(7, child, 0, 0) == 0
assert os.waitpid(child, 0)[1] == 0""",
    "a pipe with a name": "import os; os.mkfifo('fifo'); os.mkfifo('/tmp/fifo')",
    "a hard link": "import os; open('one', 'w').close(); os.link('one', 'two')",
    "sqlite with a log": """
import sqlite3
base = sqlite3.connect('base.db')
assert base.execute('pragma journal_mode=wal').fetchone() == ('wal',)
base.execute('create table t (x)'); base.commit()""",
    "process groups": """
import os, signal, subprocess
child = subprocess.Popen(['sleep', '60'], start_new_session=True)
os.killpg(child.pid, signal.SIGTERM); assert child.wait() == -15""",
    "an interrupted child": """
import signal, subprocess, sys
code = "import time; print(1, flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, '-c', code], stdout=-1, stderr=-1)
child.stdout.readline(); child.send_signal(signal.SIGINT)
assert b'KeyboardInterrupt' in child.communicate()[1]""",
    "closed files stay closed": """
import os
open('closed', 'w').close(); os.chmod('closed', 0)
try: open('closed')
except PermissionError: pass
else: raise AssertionError('root would have opened it')""",
    "locked memory": "import ctypes; assert ctypes.CDLL(None).mlock(ctypes.create_string_buffer(4096), 4096) == 0",
    "a terminal": """
import os, pty
ours, theirs = pty.openpty(); os.write(theirs, b'x'); assert os.read(ours, 1) == b'x'""",
}
INTENDED = {
    "a raw socket": "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "a user namespace": "import ctypes, os; os._exit(ctypes.CDLL(None).unshare(0x10000000) != 0)",
    "a file of more than two gigabytes": "open('large', 'wb').truncate((2 << 30) + 1)",
}


@pytest.fixture(scope="module")
def roomy(make: Callable[..., Any]) -> Iterator[Any]:
    """A sandbox with the default limits of a task."""
    with make().start() as started:
        yield started


@pytest.mark.parametrize("name", LITTLE_THINGS)
def test_common_operations_of_test_suites_work(roomy: Any, name: str) -> None:
    """D, part 5: things that test suites do work as on a developer's machine."""
    result = roomy.run(["python3", "-c", LITTLE_THINGS[name]])
    assert (result.exit_code, result.limits_hit) == (0, ()), result.stderr.text


@pytest.mark.parametrize("name", INTENDED)
def test_unneeded_operations_are_refused(roomy: Any, name: str) -> None:
    """D, part 5: things that no repository's tests should need are refused."""
    result = roomy.run(["python3", "-c", INTENDED[name]])
    assert result.exit_code not in (0, None)


def test_pytest_and_venv_work_as_the_sandbox_user(roomy: Any) -> None:
    """D, part 5: pytest with temporary files and a virtual environment work as the sandbox user."""
    suite = (
        b"import os\ndef test(tmp_path, capfd):\n    os.system(f'touch {tmp_path}/x'); assert os.listdir(tmp_path)\n"
    )
    roomy.sandbox.write_file("test_it.py", suite)
    make = "python -m venv --without-pip /tmp/venv"  # installing pip takes most of the time; setups use it anyway
    show = "/tmp/venv/bin/python -c 'import sys; print(sys.prefix)'"
    said = roomy.run(f"python -m pytest -q test_it.py && {make} && {show}")
    assert said.ok, said
    assert "1 passed" in said.stdout.text
    assert said.stdout.text.endswith("\n/tmp/venv\n")


@pytest.mark.long
def test_a_command_that_ends_while_its_sandbox_is_killed_for_the_disk(started: Any) -> None:
    """H13: if a command ends just before the kill for disk use, the next command gets the limit."""
    sandbox = started.sandbox
    with sandbox._busy:  # as if the watch found a command running
        sandbox._full = True
    assert started.run("true").exit_code == 0
    sandbox.container.kill()
    told = started.run("true")
    assert (told.exit_code, told.limits_hit) == (137, ("disk",))
    assert started.ask("echo again") == "again"
