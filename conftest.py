"""Tests that need more than Python say so with a marker; what cannot be run here is named at the end.

With ``AGENTBENCH_TEST_EVERYTHING=1`` (as in CI) nothing may be left out: a missing component is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable

import pytest

from agentbench_core.values.task import EnvironmentSettings

_IMAGE = EnvironmentSettings().docker_image


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
    """Why no package index answers, or nothing."""
    with tempfile.TemporaryDirectory() as place:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            place,
            "iniconfig",
        ]
        asked = subprocess.run(command, capture_output=True, text=True)
    return "" if asked.returncode == 0 else "no package index answers"


_NEEDS: dict[str, Callable[[], str]] = {
    "docker": _docker,
    "browser": _browser,
    "mounts": _mounts,
    "index": _index,
}
_LEFT_OUT = pytest.StashKey[dict[str, list[str]]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what cannot be run here, and remember it; or refuse to leave anything out."""
    left_out: dict[str, list[str]] = defaultdict(list)
    for need, problem_of in _NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(need)]
        problem = problem_of() if marked else ""
        if problem and os.environ.get("AGENTBENCH_TEST_EVERYTHING"):
            raise pytest.UsageError(f"{len(marked)} tests need {need}, and {problem}")
        for item in marked if problem else ():
            item.add_marker(pytest.mark.skip(reason=problem))
            left_out[f"{need}: {problem}"].append(item.nodeid)
    config.stash[_LEFT_OUT] = left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what was left out."""
    left_out = config.stash.get(_LEFT_OUT, {})
    if left_out:
        terminalreporter.section("not run here")
    for why, tests in left_out.items():
        terminalreporter.line(f"{why}; left out:")
        for test in tests:
            terminalreporter.line(f"  {test}")
