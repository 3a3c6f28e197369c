"""``runs list`` with filters, totals and tags, at every width."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.evidence.tags import read_tags, write_tags
from agentbench_testing import write_run

OUT = Path("artifacts/runs")
MODEL: dict[str, Any] = {"model": {}, "config": {"model.name": {"value": "maker/large", "origin": "--model"}}}


@pytest.fixture
def runs() -> None:
    """Three runs on three days."""
    write_run(OUT / "a", {"one": True, "two": False}, run={"created_at": "2026-01-01T23:30:00-0500", "suite": "mini"})
    write_run(OUT / "b", {"one": True}, run={"created_at": "2026-01-03T10:00:00+0000", "variant": "large", **MODEL})
    write_run(OUT / "c", {"one": None}, run={"created_at": "2026-01-04T10:00:00+0000"})
    events = (OUT / "c/events.jsonl").read_bytes().splitlines(keepends=True)
    (OUT / "c/events.jsonl").write_bytes(b"".join(events[:-1]))
    write_tags(OUT / "a", {"ticket": "42"})
    write_tags(OUT / "b", {"ticket": "43", "keep": ""})


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], "abc"),
        (["--suite", "mini"], "a"),
        (["--suite", "custom-*"], "bc"),
        (["--variant", "l?rge"], "b"),
        (["--model", "maker/*"], "b"),
        (["--model", "*"], "abc"),
        (["--status", "unfinished"], "c"),
        (["--tag", "ticket"], "ab"),
        (["--tag", "ticket=4[23]", "--tag", "keep"], "b"),
        (["--tag", "ticket=4"], ""),
        (["--since", "2026-01-02"], "abc"),
        (["--since", "2026-01-03", "--until", "2026-01-03"], "b"),
        (["--until", "2026-01-01"], ""),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("runs")
def test_filters(agentbench: Any, flags: list[str], found: str) -> None:
    """Days are in UTC; the JSON lists the selected runs, oldest first."""
    done = agentbench("runs", "list", "--json", *flags)
    assert "".join(Path(run["directory"]).name for run in json.loads(done.out)) == found
    assert done.err == ("" if found else f"no run in artifacts/runs matches {' '.join(flags)} (3 runs searched)\n")


@pytest.mark.usefixtures("runs")
def test_the_table_has_totals(agentbench: Any) -> None:
    """Piped output has all columns; a run that cannot be read is named."""
    (OUT / "d").mkdir()
    (OUT / "d/run.json").write_text("{")
    done = agentbench("runs", "list")
    head, first, _, last, empty, totals = done.out.splitlines()
    assert head.split() == [
        *("NAME", "STARTED", "SUITE", "VARIANT", "MODEL", "PASSED", "PLANNED", "STATUS", "COST", "TIME"),
        *("TAGS", "ID", "DIRECTORY"),
    ]
    assert first.split()[3:] == [
        *("mini", "baseline", "-", "1/2", "2", "completed", "0.02", "2s", "ticket=42", "run-a", "artifacts/runs/a")
    ]
    assert last.split()[-5:] == ["0.00", "0s", "-", "run-c", "artifacts/runs/c"]
    assert (empty, totals) == ("", "3 runs, 3 attempts (2 of 3 scored passed), 0.03 USD, 3s")
    assert done.err.startswith("skipped: artifacts/runs/d/run.json is damaged")


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.usefixtures("runs")
def test_the_table_fits_the_terminal(width: int) -> None:
    """The least important columns are left out, and a line names them; no cell is cut."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    command = [sys.executable, "-c", "from agentbench_core.cli.main import main; main()", "runs", "list"]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    subprocess.run(command, stdout=terminal, env=environment, check=True, timeout=60)
    os.close(terminal)
    text = os.read(main, 1 << 16).decode().replace("\r\n", "\n")
    os.close(main)
    assert max(map(len, text.splitlines())) <= width
    assert ("DIRECTORY" in text.splitlines()[0]) == (width == 200)
    assert ("not shown: DIRECTORY, ID, " in text) == (width < 200)


def test_a_run_is_tagged_and_resumed_with_more_tags(agentbench: Any, make_task: Any) -> None:
    make_task()
    run = ["run", "--suite", "mini", "--agent", "idle"]
    assert agentbench(*run, "--tag", "why=first try", "--tag", "ticket=42").code == 0
    (directory,) = OUT.iterdir()
    assert agentbench("run", "--resume", "latest", "--tag", "ticket=43", "--tag", "more=").code == 0
    assert read_tags(directory) == {"more": "", "ticket": "43", "why": "first try"}
    assert "tags     more= ticket=43 why=first try" in agentbench("runs", "show", "latest").out
    refused = agentbench(*run, "--tag", "why")
    assert (refused.code, "'why' is not a valid tag\nUse the form KEY=VALUE" in refused.err) == (2, True)
    assert len(list(OUT.iterdir())) == 1


def test_a_secret_in_a_tag_is_redacted(agentbench: Any, make_task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_task()
    monkeypatch.setenv("SOME_API_KEY", "abcdefghijkl")
    assert agentbench("run", "--suite", "mini", "--agent", "idle", "--tag", "key=abcdefghijkl").code == 0
    (directory,) = OUT.iterdir()
    assert read_tags(directory) == {"key": "[redacted SOME_API_KEY]"}
