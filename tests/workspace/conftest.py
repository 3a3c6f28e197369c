from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench_core.values.limits import Deadline
from agentbench_core.workspace import opening

RunGit = Callable[..., str]


@pytest.fixture
def deadline() -> Deadline:
    return Deadline(60)


@pytest.fixture(scope="session")
def git() -> RunGit:
    """Run the real git, without this machine's configuration."""

    def run(directory: Path, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CEILING_DIRECTORIES": str(directory.parent),
        }
        identity = ("-c", "user.name=A", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main")
        result = subprocess.run(
            ["git", *identity, *arguments],
            cwd=directory,
            env=environment,
            input=None if stdin is None else stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
        )
        if check:
            assert result.returncode == 0, result.stderr.decode()
        return result.stdout.decode("utf-8", "surrogateescape")

    return run


@pytest.fixture(params=["openat2", "by parts"])
def way_to_open(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open files below a directory: openat2 and our fallback."""
    if request.param == "openat2" and not opening.has_openat2():
        pytest.skip("this kernel has no openat2")
    if request.param == "by parts":
        monkeypatch.setattr(opening, "has_openat2", lambda: False)
    return str(request.param)
