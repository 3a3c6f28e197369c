"""Skips tests whose marker requires a missing tool, and lists them at the end.

With ``AGENTBENCH_TEST_EVERYTHING=1`` (as in CI) these tests fail instead.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from agentbench_core.values.task import EnvironmentSettings

if TYPE_CHECKING:  # not installed for all test runs
    from playwright.sync_api import Browser, Page

    from agentbench_local.process import Command, Order, Supervision

# No deadline per example. In CI, examples are always the same: new ones are useful only where failures can be fixed.
settings.register_profile(
    "usual", max_examples=25, deadline=None, derandomize=bool(os.environ.get("AGENTBENCH_TEST_EVERYTHING"))
)
settings.load_profile("usual")

_IMAGE = EnvironmentSettings().docker_image

_MEMORY = Path("/dev/shm")  # noqa: S108 - this session creates its own directory in it
_MIN_FREE = 8 << 30  # bytes; a session takes about 2 GiB


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--times``, for CI and for making tests faster."""
    parser.addoption("--times", action="store_true", help="print seconds by directory, and the slowest tests")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process, which may be a worker of pytest-xdist."""
    # A shell without job control starts background jobs with SIGINT ignored, and child processes inherit this: programs
    # that tests interrupt would continue.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _keep_files_in_memory(config)


def _keep_files_in_memory(config: pytest.Config) -> None:
    """Keep temporary files in memory if there is enough space, unless TMPDIR is set.

    Tests create and delete a great many small files, which takes ten times as long on some file systems: ext4 avoids
    recently freed inodes.
    """
    if hasattr(config, "workerinput") or "TMPDIR" in os.environ or not _MEMORY.is_dir():
        return
    status = os.statvfs(_MEMORY)
    if status.f_bavail * status.f_frsize >= _MIN_FREE and not status.f_flag & os.ST_NOEXEC:
        directory = tempfile.mkdtemp(prefix="t-", dir=_MEMORY)
        atexit.register(shutil.rmtree, directory, ignore_errors=True)  # after all other cleanup
        Path(directory).chmod(0o755)  # like /tmp: some tests switch to another user
        os.environ["TMPDIR"] = directory
        tempfile.tempdir = None  # tempfile caches it


def _docker() -> str:
    """The reason why no Docker engine is available, or an empty string."""
    if shutil.which("docker") is None:
        return "no docker command"
    try:
        result = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True, timeout=20
        )
    except subprocess.TimeoutExpired:
        return "the docker engine did not answer in time"
    if result.returncode != 0:
        return "no docker engine is available"
    image = subprocess.run(["docker", "image", "inspect", _IMAGE], capture_output=True, timeout=20)
    return "" if image.returncode == 0 else f"the image {_IMAGE} does not exist (run: agentbench docker build)"


def _browser() -> str:
    """The reason why no browser is available, or an empty string."""
    return "" if shutil.which("chromium") else "no chromium command"


def _tmux() -> str:
    """The reason why no terminal is available, or an empty string."""
    return "" if shutil.which("tmux") else "no tmux command"


def _image_registry() -> str:
    """The reason why no registry of images can be started, or an empty string."""
    return "" if shutil.which("docker-registry") else "no docker-registry command"


def _mounts() -> str:
    """The reason why no file system can be mounted in a new namespace, or an empty string."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *as_root, "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None:
        return "no unshare command"
    result = subprocess.run(command, capture_output=True, text=True)
    return "" if result.returncode == 0 else f"no file system can be mounted: {result.stderr.strip()}"


def _index() -> str:
    """The reason why no package index is available, or an empty string. uv and pip have separate settings."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = ("--quiet", "--no-deps", "iniconfig")
        for command in (("pip", "download", "--dest", directory), ("uv", "pip", "install", "--target", directory)):
            result = subprocess.run([sys.executable, "-m", *command, *arguments], capture_output=True, text=True)
            if result.returncode != 0:
                return f"{command[0]} cannot reach a package index"
    return ""


def _npm() -> str:
    """The reason why no npm is available, or an empty string."""
    return "" if shutil.which("npm") else "no npm command"


def _npm_registry() -> str:
    """The reason why no npm registry is available, or an empty string."""
    if problem := _npm():
        return problem
    try:
        result = subprocess.run(["npm", "view", "opencode-ai", "name"], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "npm did not reach a registry in time"
    return "" if result.returncode == 0 else "npm cannot reach a registry"


_NEEDS: dict[str, Callable[[], str]] = {
    "docker": _docker,
    "image_registry": _image_registry,
    "browser": _browser,
    "mounts": _mounts,
    "tmux": _tmux,
    "index": _index,
    "npm": _npm,
    "npm_registry": _npm_registry,
}


@pytest.fixture(scope="session", autouse=True)
def _remove_images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the environment images that tests have cached."""
    yield
    caches = list(tmp_path_factory.getbasetemp().glob("*/*/agentbench/docker"))
    if caches and not _docker():
        from agentbench_docker.cache import Cache

        marks = tuple(f"-{Cache(root).mark}" for root in caches)
        listing = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", "agentbench/environment"]
        names = subprocess.run(listing, capture_output=True, text=True).stdout.split()
        if leftovers := [name for name in names if name.endswith(marks)]:
            subprocess.run(["docker", "image", "rm", *leftovers], capture_output=True)


@pytest.fixture(scope="session")
def _supervision() -> Iterator[type[Supervision]]:
    """A replacement for the class, whose instances share one process that starts commands."""
    from agentbench_local.process import Supervision

    supervision = Supervision()

    class Shared(Supervision):
        def start(self, order: Order) -> Command:
            return supervision.start(order)

    yield Shared
    supervision.close()


@pytest.fixture
def one_supervisor(_supervision: type[Supervision], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the process that starts commands in the sandbox `local`; otherwise, each run waits for a new interpreter.

    Runs in other processes start their own.
    """
    from agentbench_local import launcher

    monkeypatch.setattr(launcher, "Supervision", _supervision)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless. One per process, since Playwright cannot be started twice."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def accessibility_problems() -> Callable[..., list[str]]:
    """Check the current state of a page with axe: WCAG 2.2 A and AA, and best practices; a line per rule and element.

    ``contrast=False`` is for pages whose contrast another test checks: this rule takes most of the time.
    """
    from axe_playwright_python.sync_playwright import Axe

    def check(page: Page, *, contrast: bool = True) -> list[str]:
        rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        options = {
            "runOnly": {"type": "tag", "values": rules},
            "rules": {"color-contrast": {"enabled": contrast}},
            "resultTypes": ["violations"],
        }
        response = Axe().run(page, options=options).response
        assert len(response["passes"]) >= 20, "axe must have looked at a page with content"
        return [
            f"{rule['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary'].splitlines()[-1].strip()}"
            for rule in response["violations"]
            for node in rule["nodes"]
        ]

    return check


_NOT_RUN = "not run: "
_PROBLEM = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests whose requirement is missing."""
    for need, problem_of in _NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(need)]
        problem = problem_of() if marked else ""
        for item in marked if problem else ():
            item.stash[_PROBLEM] = f"{need}: {problem}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during collection: it takes an eighth of the time and frees almost nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude all existing objects from garbage collection: thousands of tests and all modules are never freed anyway.

    Also collect less often: the default of 700 new objects takes up to a sixth of the time of a directory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a marked test."""
    problem = item.stash.get(_PROBLEM, "")
    if problem and os.environ.get("AGENTBENCH_TEST_EVERYTHING"):
        pytest.fail(f"all tests are required, but {problem}", pytrace=False)
    elif problem:
        pytest.skip(f"{_NOT_RUN}{problem}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print skipped tests and durations; read from the reports, since tests may have run in other processes."""
    if terminalreporter.config.getoption("--times"):
        _print_times(terminalreporter)
    left_out: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", ()):
        _, marker, why = str(report.longrepr[-1]).partition(_NOT_RUN)
        if marker:
            left_out[why].append(report.nodeid)
    if left_out:
        terminalreporter.section("not run")
    for why, tests in left_out.items():
        terminalreporter.line(f"{why}; skipped:")
        for test in tests:
            terminalreporter.line(f"  {test}")


def _print_times(terminalreporter: pytest.TerminalReporter) -> None:
    """Print wall time of tests, including setup and teardown; parallel workers add up."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    directories: dict[str, list[float]] = defaultdict(list)
    for test, duration in seconds.items():
        directories[str(Path(test.partition("::")[0]).parent)].append(duration)
    terminalreporter.section(f"{len(seconds)} cases, {sum(seconds.values()):.0f} s")
    for directory, durations in sorted(directories.items(), key=lambda item: -sum(item[1])):
        terminalreporter.line(f"{sum(durations):7.1f} s  {len(durations):5} cases  {directory}")
    terminalreporter.section("the twenty slowest")
    for test, duration in sorted(seconds.items(), key=lambda item: -item[1])[:20]:
        terminalreporter.line(f"{duration:7.1f} s  {test}")
