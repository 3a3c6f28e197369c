"""A working day with AgentBench: in a real terminal and a real browser, from `agentbench init` to `runs prune`.

Screenshots of pages and terminals are saved in the directory ``AGENTBENCH_SCREENSHOTS``, if it is set, to be looked at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.docs.runner import ROOT
from tests.walk.terminal import Terminal

pytestmark = [pytest.mark.release, pytest.mark.browser, pytest.mark.tmux]

WIDTHS = (390, 800, 1400)
TASKS = ("durations-parse-units", "tillroll-credit-notes")
"""Two bundled tasks: the mechanic solves the first one, and not the second one."""

Problems = Callable[[Page], list[str]]


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A team's repository with one commit."""
    directory = tmp_path / "team"
    (directory / "shop").mkdir(parents=True)
    (directory / "shop/__init__.py").write_text("")
    (directory / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\n')
    git = ["git", "-C", str(directory), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "The shop"]):
        subprocess.run([*git, *command], check=True)
    return directory


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a newcomer's shell."""
    home = tmp_path / "home"
    home.mkdir()
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": programs, "TERM": "xterm-256color", "LANG": "C.UTF-8"}


@pytest.fixture
def open_terminal(team: Path, environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Open terminals in the team's repository."""
    terminals: list[Terminal] = []

    def open_(**size: int) -> Terminal:
        terminals.append(Terminal(team, environment, **size))
        return terminals[-1]

    yield open_
    for terminal in terminals:
        terminal.close()


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where screenshots are saved."""
    directory = Path(os.environ.get("AGENTBENCH_SCREENSHOTS") or tmp_path / "screenshots")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def look(page: Page, shots: Path, name: str) -> None:
    """Take screenshots at three widths and in both themes. No width may need a horizontal scroll bar."""
    for width in WIDTHS:
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=shots / f"{name}-{width}-{theme}.png")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} at {width} pixels"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_from_init_to_prune(
    team: Path,
    open_terminal: Callable[..., Terminal],
    chromium: Browser,
    shots: Path,
    accessibility_problems: Problems,
) -> None:
    """Init, run with a live page, interrupt, resume, compare, a regression side by side, export and prune."""
    shell = open_terminal()

    # init
    shown = shell.run("agentbench init")
    assert "agentbench tasks mine --repo . --suite shop" in shown
    for name in ("agentbench.toml", "gate.yaml", ".github/workflows/agentbench.yml", "configs/variants/current.yaml"):
        assert (team / name).is_file(), name
    for task in TASKS:  # in place of mined tasks
        shutil.copytree(ROOT / "tasks/custom-dev" / task, team / "tasks/custom-dev" / task)

    # a run of the baseline
    tasks = "--suite custom-dev --sandbox local --repeats 2"
    shown = shell.run(f"agentbench run {tasks} --agent scripted --tag change=none", 240)
    assert "4 of 4 scored attempts passed" in shown
    (shots / "summary-100.txt").write_text(shell.screen(colours=True))

    # a run with the live page open
    server = open_terminal()
    server.type("agentbench view")
    address = server.wait_for(r"http://127\.0\.0\.1:\d+/\?token=\S+")[0]
    page = chromium.new_page()
    page.set_default_timeout(60_000)
    page.goto(address)
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    assert accessibility_problems(page) == []
    shell.press("C-l")
    shell.type(f"agentbench run {tasks} --agent baseline --llm mechanic --workers 1 --tag change=mechanic")
    running = page.locator("table.runs tbody tr").filter(has_text="running")
    expect(running).to_have_count(1, timeout=60_000)
    running.get_by_role("link").click()
    expect(page.locator(".doing")).to_contain_text("last tool call", timeout=120_000)
    shell.wait_for(r"baseline \S+ +agent: .* steps ")
    (shots / "progress-100.txt").write_text(shell.screen(colours=True))
    assert accessibility_problems(page) == []
    look(page, shots, "live")
    expect(page.locator(".state")).to_contain_text("1 passed", timeout=180_000)
    assert "1 passed" in shell.screen()

    # interrupt and resume
    shell.press("C-c")
    shell.wait_for(r"resume with: agentbench run --resume", 60)
    expect(page.locator(".state")).to_contain_text("interrupted", timeout=60_000)
    shell.resize(100, 60)
    shown = shell.run("agentbench run --resume latest", 400)
    (shots / "resumed-100.txt").write_text(shell.screen(colours=True))
    assert "2 of 4 scored attempts passed" in shown
    expect(page.locator(".state")).to_contain_text("completed", timeout=60_000)
    expect(page.locator(".state")).to_contain_text("2 passed")

    # compare in the terminal
    for columns in (80, 100, 200):
        shell.resize(columns, 50)
        shell.run("agentbench report paired --run-a latest~1 --run-b latest --method bootstrap", 120)
        (shots / f"paired-{columns}.txt").write_text(shell.screen(colours=True))
        assert all(len(line) <= columns for line in shell.screen().splitlines())
    shell.resize(100, 50)

    # compare in the browser, and open a regression side by side in one click
    page.goto(address.partition("?")[0])
    boxes = page.get_by_role("checkbox")
    boxes.last.check()  # A is the run that is selected first; the list begins with the latest one
    boxes.first.check()
    look(page, shots, "list")
    page.get_by_role("link", name="Compare A and B").click()
    first = page.locator("#matrix tbody tr").first
    expect(first).to_contain_text(TASKS[1])
    page.wait_for_load_state("load")  # plots come last
    assert accessibility_problems(page) == []
    look(page, shots, "comparison")
    first.get_by_role("rowheader").get_by_role("link").click()
    pair = page.locator("main#attempt")
    expect(pair.get_by_role("heading", name="Turns").first).to_be_visible()
    expect(pair).to_contain_text("regressed")
    expect(pair.locator(".beside.names .side.A")).to_contain_text("scripted")
    expect(pair.locator(".beside.names .side.B")).to_contain_text("baseline")
    assert accessibility_problems(page) == []
    look(page, shots, "pair")

    # export
    shell.run("agentbench report html --run latest~1 --run-b latest --margin 0.1 --out report.html", 120)
    file = chromium.new_page()
    file.goto((team / "report.html").as_uri())
    expect(file.locator("#matrix tbody tr")).to_have_count(2)
    shell.run("agentbench runs pack latest --output handed-over.tar.gz")
    shell.run("agentbench runs unpack handed-over.tar.gz --out colleague")
    (unpacked,) = (team / "colleague").iterdir()
    assert (unpacked / "run.json").read_bytes() == (team / "artifacts/runs" / unpacked.name / "run.json").read_bytes()

    # prune: nothing is deleted without --yes
    shown = shell.run("agentbench runs prune --tag change=none")
    assert "scripted" in shown
    assert len(list((team / "artifacts/runs").iterdir())) == 2
    shell.run("agentbench runs prune --tag change=none --yes")
    (left,) = (team / "artifacts/runs").iterdir()
    assert "baseline" in left.name
    page.goto(address.partition("?")[0])
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    server.press("C-c")
    server.wait_for(r"^typed>\s*$")
