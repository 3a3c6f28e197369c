"""The fixtures of the kit, in a directory of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from agentbench_core.cli.main import main
from agentbench_testing.fixtures import run_agentbench as run_agentbench


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENTBENCH_DISABLE_PLUGINS", raising=False)


@attrs.frozen
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def agentbench(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run the command in this process."""

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out, err = capfd.readouterr()
        return Ended(int(stop.value.code or 0), out, err)

    return run
