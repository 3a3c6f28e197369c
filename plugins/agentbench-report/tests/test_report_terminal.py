"""Reports in a terminal: tables fit and have the same numbers as Markdown and JSON. Piped output is Markdown."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from agentbench_core import AttemptRecord, FailureReason
from agentbench_report.command import report
from agentbench_testing import write_run

TASKS = [f"{topic}-with-a-long-name-{n:02}" for n in range(4) for topic in ("retry", "cache", "csv")]
ESCAPES = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;[^\x1b]*\x1b\\")


def using(factor: float) -> object:
    def use(one: AttemptRecord) -> AttemptRecord:
        cost = factor * (0.01 + 0.003 * TASKS.index(one.task_id))
        usage = attrs.evolve(one.usage, cost_usd=cost, prompt_tokens=int(1e6 * cost**1.1), steps=int(500 * cost))
        return attrs.evolve(one, usage=usage, duration_sec=900 * cost)

    return use


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    lost = {TASKS[0]: False, TASKS[1]: FailureReason.TIMEOUT, TASKS[2]: FailureReason.LLM_ERROR}
    write_run(tmp_path / "a", dict.fromkeys(TASKS, True), record=using(1), run={"variant": "a"})
    write_run(tmp_path / "b", dict.fromkeys(TASKS, True) | lost, record=using(1.3), run={"variant": "b"})
    (tmp_path / "gate.yaml").write_text("margin: 0.05\nmin_pairs: 5\nmax_cost_ratio: 1.2\n")
    return str(tmp_path / "a"), str(tmp_path / "b")


def commands(runs: tuple[str, str]) -> dict[str, list[str]]:
    a, b = runs
    config = str(Path(a).with_name("gate.yaml"))
    return {
        "paired": ["paired", "--run-a", a, "--run-b", b],
        "compare": ["compare", "--runs", a, b],
        "gate": ["gate", "--baseline", a, "--candidate", b, "--config", config],
        "plan": ["gate", "--baseline", a, "--config", config, "--plan"],
        "power": ["power", "--run-a", a, "--run-b", b],
        "summary": ["summary", "--run", b],
    }


def numbers(text: str) -> Counter[str]:
    """Return all numbers on a page except link targets, including numbers within words."""
    text = re.sub(r"^\[\d+\]: .*$", "", text, flags=re.MULTILINE)
    return Counter(re.findall(r"[-+]?\d+(?:\.\d+)?", re.sub(r"\]\[\d+\]", "]", text)))


@pytest.mark.parametrize("name", ["paired", "compare", "gate", "plan", "power", "summary"])
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_tables_fit_and_have_the_numbers_of_the_markdown(runs: tuple[str, str], name: str, width: int) -> None:
    def said(style: str) -> str:
        environment = {"COLUMNS": str(width), "TERM": "dumb"}
        return CliRunner().invoke(report, [*commands(runs)[name], "--format", style], env=environment).output

    page = said("table")
    assert max(map(len, page.splitlines())) <= width
    assert "|" not in page
    assert "\x1b" not in page
    expected, found = numbers(said("md")), numbers(page.replace("\n", " "))
    assert set(expected) <= set(found)  # headings of columns are repeated if a table is a list


def test_metrics_have_the_same_numbers_in_all_forms(runs: tuple[str, str]) -> None:
    command = commands(runs)["paired"]
    value = json.loads(CliRunner().invoke(report, [*command, "--format", "json"]).output)
    (cost,) = (each for each in value["metrics"] if each["metric"] == "cost_usd")
    shown = [f"{cost['mean_a']:.4f}", f"{cost['mean_b']:.4f}", f"{cost['difference']:+.4f}", f"{cost['ratio']:.3f}"]
    shown += [f"{cost['interval'][end]:+.4f}" for end in ("low", "high")]
    shown += [f"{cost['ratio_interval'][end]:.3f}" for end in ("low", "high")]
    for style in ("md", "table"):
        page = CliRunner().invoke(report, [*command, "--format", style], env={"COLUMNS": "200"}).output
        (row,) = (line for line in page.splitlines() if re.match(r"(\| )?USD .*more", line))
        assert set(shown) <= set(re.findall(r"[-+]?\d+\.\d+", row))


_PROGRAM = "from agentbench_core.cli.main import main; main()"


def at_terminal(command: list[str], columns: int) -> str:
    """Run a command on a pty of this width and return everything that it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    program = [sys.executable, "-c", _PROGRAM, "report", *command]
    with subprocess.Popen(
        program, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm-256color"}
    ) as process:
        os.close(theirs)
        printed = b""
        try:
            while data := os.read(ours, 1 << 16):
                printed += data
        except OSError:  # the end of a pty
            pass
        os.close(ours)
    assert process.returncode in (0, 1), printed
    return printed.decode()


@pytest.mark.parametrize("columns", [80, 200])
def test_a_real_terminal_gets_tables_and_colors(runs: tuple[str, str], columns: int) -> None:
    printed = at_terminal(commands(runs)["gate"], columns)
    assert re.search(r"\x1b\[[\d;]*31mFAIL", printed)
    lines = ESCAPES.sub("", printed).replace("\r", "").splitlines()
    assert columns / 2 < max(map(len, lines)) <= columns
    assert "Gate: FAIL" in lines
    piped = CliRunner().invoke(report, commands(runs)["gate"]).output
    assert piped.startswith("# Gate: FAIL\n")
    assert "\n| check " in piped


def test_markdown_at_a_terminal_if_it_is_asked_for(runs: tuple[str, str]) -> None:
    printed = at_terminal([*commands(runs)["summary"], "--format", "md"], 80)
    assert "\x1b" not in printed
    assert "# b on custom-dev" in printed
