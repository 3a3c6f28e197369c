"""Tests that need more than Python say so with a marker; what cannot be run here is named at the end.

With ``AGENTBENCH_TEST_EVERYTHING=1`` (as in CI) nothing may be left out: a test whose component is missing fails.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from agentbench_core.values.task import EnvironmentSettings

# No test is timed; CI's time is short, and its examples are the same each time: new ones are for whoever can mend them.
settings.register_profile(
    "usual", max_examples=25, deadline=None, derandomize=bool(os.environ.get("AGENTBENCH_TEST_EVERYTHING"))
)
settings.load_profile("usual")

_IMAGE = EnvironmentSettings().docker_image

_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of this session is made below
_ROOM = 8 << 30  # bytes; a session takes about 2 GiB


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--times`` is for CI, and for whoever makes tests faster."""
    parser.addoption("--times", action="store_true", help="name seconds by directory, and the slowest tests")


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files into memory where there is room, unless TMPDIR is set.

    Tests make and delete very many small files. Some file systems take ten times as long for that: ext4 looks for an
    inode that was not in use a moment ago.
    """
    if hasattr(config, "workerinput") or "TMPDIR" in os.environ or not _MEMORY.is_dir():
        return
    about = os.statvfs(_MEMORY)
    if about.f_bavail * about.f_frsize >= _ROOM and not about.f_flag & os.ST_NOEXEC:
        place = tempfile.mkdtemp(prefix="t-", dir=_MEMORY)
        atexit.register(shutil.rmtree, place, ignore_errors=True)  # after all other cleanup
        Path(place).chmod(0o755)  # as /tmp: some tests become another user
        os.environ["TMPDIR"] = place
        tempfile.tempdir = None  # which is remembered once it was asked for


def _docker() -> str:
    """Why there is no Docker engine, or nothing."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    try:
        asked = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True, timeout=20
        )
    except subprocess.TimeoutExpired:
        return "the docker engine does not answer"
    if asked.returncode != 0:
        return "no docker engine answers"
    image = subprocess.run(["docker", "image", "inspect", _IMAGE], capture_output=True, timeout=20)
    return "" if image.returncode == 0 else f"the image {_IMAGE} is not here (agentbench docker build)"


def _browser() -> str:
    """Why there is no browser, or nothing."""
    return "" if shutil.which("chromium") else "there is no chromium"


def _mounts() -> str:
    """Why no file system can be mounted in a namespace of one's own, or nothing."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *as_root, "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None:
        return "there is no unshare command"
    asked = subprocess.run(command, capture_output=True, text=True)
    return "" if asked.returncode == 0 else f"no file system can be mounted: {asked.stderr.strip()}"


def _index() -> str:
    """Why no package index answers, or nothing. Tests install by uv, and some by pip, which have their own settings."""
    with tempfile.TemporaryDirectory() as place:
        wanted = ("--quiet", "--no-deps", "iniconfig")
        for command in (("pip", "download", "--dest", place), ("uv", "pip", "install", "--target", place)):
            asked = subprocess.run([sys.executable, "-m", *command, *wanted], capture_output=True, text=True)
            if asked.returncode != 0:
                return f"no package index answers {command[0]}"
    return ""


_NEEDS: dict[str, Callable[[], str]] = {
    "docker": _docker,
    "browser": _browser,
    "mounts": _mounts,
    "index": _index,
}


@pytest.fixture(scope="session", autouse=True)
def _no_images_stay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the images of the environments that tests kept in caches of their own."""
    yield
    caches = list(tmp_path_factory.getbasetemp().glob("*/*/agentbench/docker"))
    if caches and not _docker():
        from agentbench_docker.cache import Cache

        marks = tuple(f"-{Cache(root).mark}" for root in caches)
        listing = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", "agentbench/environment"]
        names = subprocess.run(listing, capture_output=True, text=True).stdout.split()
        if gone := [name for name in names if name.endswith(marks)]:
            subprocess.run(["docker", "image", "rm", *gone], capture_output=True)


_NOT_HERE = "not run here: "
_PROBLEM = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot be run here; or have it fail, where nothing may be left out."""
    for need, problem_of in _NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(need)]
        problem = problem_of() if marked else ""
        for item in marked if problem else ():
            item.stash[_PROBLEM] = f"{need}: {problem}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out, or fail."""
    problem = item.stash.get(_PROBLEM, "")
    if problem and os.environ.get("AGENTBENCH_TEST_EVERYTHING"):
        pytest.fail(f"nothing may be left out here, and {problem}", pytrace=False)
    elif problem:
        pytest.skip(f"{_NOT_HERE}{problem}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was left out, and how long tests took; read from the reports, since other processes may have run them."""
    if terminalreporter.config.getoption("--times"):
        _name_times(terminalreporter)
    left_out: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", ()):
        _, found, why = str(report.longrepr[-1]).partition(_NOT_HERE)
        if found:
            left_out[why].append(report.nodeid)
    if left_out:
        terminalreporter.section("not run here")
    for why, tests in left_out.items():
        terminalreporter.line(f"{why}; left out:")
        for test in tests:
            terminalreporter.line(f"  {test}")


def _name_times(terminalreporter: pytest.TerminalReporter) -> None:
    """Seconds of waiting or working, each test with its set-up and teardown; workers beside each other add up."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    rooms: dict[str, list[float]] = defaultdict(list)
    for test, took in seconds.items():
        rooms[str(Path(test.partition("::")[0]).parent)].append(took)
    terminalreporter.section(f"{len(seconds)} cases, {sum(seconds.values()):.0f} s")
    for room, each in sorted(rooms.items(), key=lambda one: -sum(one[1])):
        terminalreporter.line(f"{sum(each):7.1f} s  {len(each):5} cases  {room}")
    terminalreporter.section("the twenty slowest")
    for test, took in sorted(seconds.items(), key=lambda one: -one[1])[:20]:
        terminalreporter.line(f"{took:7.1f} s  {test}")
