from pathlib import Path

import pytest

from lintstack.cli import main

CONFIG = """
[settings]
exclude = ["build"]

[profiles.base]
jobs = 4

[profiles.ci]
extends = "base"
color = false

[profiles.dev]
extends = "base"
format = "short"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "lintstack.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def test_show(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--config", config, "--set", "jobs=2"], {}) == 0
    assert capsys.readouterr().out.splitlines() == [
        "color = true",
        'exclude = ["build"]',
        'format = "text"',
        "jobs = 2",
        "rules.line-length = 88",
        'rules.quotes = "double"',
        'rules.select = ["E", "F"]',
    ]


def test_show_profile(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "ci", "--config", config], {"LINTSTACK_RULES__QUOTES": "single"}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["[ci]", "color = false"]
    assert 'rules.quotes = "single"' in lines


def test_diff(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "ci", "dev", "--config", config], {}) == 0
    assert capsys.readouterr().out.splitlines() == ["color: false -> true", 'format: "text" -> "short"']


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "devv"], "there is no profile 'devv'; did you mean 'dev'?"),
        (["show", "--set", "jobs"], "--set jobs: expected KEY=VALUE"),
    ],
)
def test_errors(config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main([*arguments, "--config", config], {}) == 2
    assert capsys.readouterr().err == f"lintstack: {message}\n"
