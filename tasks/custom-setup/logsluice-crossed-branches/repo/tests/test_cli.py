import io
import json
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

from logsluice.cli import main


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "pipeline.yaml"
    path.write_text("branches: {errors: [keep: {level: error}]}", encoding="utf-8")
    return str(path)


def test_lines_of_json(config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ['{"level": "info"}', "", '{"level": "error", "n": 1}']
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert main([config, "--branch", "errors"]) == 0
    assert json.loads(capsys.readouterr().out) == {"level": "error", "n": 1}


def test_no_such_branch(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([config, "--branch", "archive"]) == 2
    assert capsys.readouterr().err == "logsluice: there is no branch 'archive'\n"


def test_installed() -> None:
    assert version("logsluice") == "0.9.0"
    (command,) = entry_points(group="console_scripts", name="logsluice")
    assert command.load() is main
