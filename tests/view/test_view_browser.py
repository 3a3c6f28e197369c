"""Runs in a real browser: the list, a run while it is written, and hostile content."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import filelock
import pytest
from playwright.sync_api import Page, expect

from agentbench_core.evidence import journal
from agentbench_testing import write_run
from agentbench_testing.fixtures import MakeTask

pytestmark = pytest.mark.browser
expect.set_options(timeout=30_000)

AGENTBENCH = str(Path(sys.executable).parent / "agentbench")
Serve = Callable[..., Any]
Visit = Callable[..., tuple[Page, Any]]


def row(page: Page, task: str) -> Any:
    return page.locator("#attempts tbody tr").filter(has=page.get_by_role("rowheader", name=task, exact=True))


def opened(page: Page) -> Any:
    """The page of the attempt that is open."""
    return page.locator("main#attempt")


def no_request_left(seen: Any, origin: str) -> None:
    assert [url for url in seen.requests if not url.startswith((f"{origin}/", "data:"))] == []


# --- the list ----------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_list_run_attempt_and_evidence(make_evidence: Callable[..., Any], serve: Serve, visit: Visit) -> None:
    """From the list to the raw file of an attempt, without a token in any address after the first."""
    run = make_evidence("runs/a")
    write_run(run.directory.parent / "b", {"one": True, "two": None}, run={"suite": "other", "variant": "bold"})
    served = serve(run.directory.parent)
    page, seen = visit(served.address)
    expect(page).to_have_url(f"{served.origin}/")
    expect(page.get_by_role("status")).to_have_text("2 runs")
    page.get_by_label("Suite").select_option("other")
    expect(page.get_by_role("status")).to_have_text("1 of 2 runs")
    expect(page.locator("tfoot")).to_contain_text("1 of 1")
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("link", name="baseline-").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("custom-dev · baseline")
    expect(page.locator(".live")).to_contain_text("6 passed")
    page.get_by_role("link", name="durations-parse-units").click()
    expect(opened(page).get_by_role("heading", level=1)).to_have_text("durations-parse-units")
    expect(opened(page).get_by_text("longest_first = sorted").first).to_be_attached()
    with page.expect_navigation():
        page.get_by_role("link", name="run.json").click()
    assert json.loads(page.locator("body").inner_text())["suite"] == "custom-dev"
    page.go_back()
    expect(opened(page).get_by_role("heading", level=1)).to_have_text("durations-parse-units")
    assert seen.trouble == []
    assert [url for url in seen.requests if "token" in url] == [served.address]
    no_request_left(seen, served.origin)


@pytest.mark.release
def test_two_runs_side_by_side(make_evidence: Callable[..., Any], serve: Serve, visit: Visit) -> None:
    """Selected in the list: the page of ``report html --run-b``, and attempts of both."""
    endings = {"daybook-clock-change": False, "durations-parse-units": True}
    run = make_evidence("runs/a", endings)
    make_evidence("runs/b", {task: not passed for task, passed in endings.items()})
    page, seen = visit(serve(run.directory.parent).address)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("link", name="Compare A and B").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("custom-dev · baseline and baseline")
    expect(page.locator("#attempts tbody tr")).to_have_count(4)
    page.locator("#attempts a").last.click()
    expect(opened(page).get_by_role("heading", level=1)).to_have_text("B durations-parse-units")
    assert seen.trouble == []


# --- while it is written -------------------------------------------------------------------------------------------


@pytest.fixture
def running(make_task: MakeTask, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``agentbench run`` on three tasks; the tests of each wait for a file ``go-TASK``."""
    for task in ("one", "two", "three"):
        waits = f"until test -e {tmp_path}/go-{task}; do sleep 0.1; done; grep -q fixed app.txt"
        make_task(task, validation={"passing_command": waits}, environment={"timeout_sec": 300})
    command = [AGENTBENCH, "run", "--suite", "mini", "--agent", "scripted", "--sandbox", "local"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command += ["--set", "scorer=plain", "--workers", "2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("artifacts/runs/*/events.jsonl")):
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield process
    process.kill()
    process.wait()


@pytest.mark.release
def test_run_while_it_is_written(running: subprocess.Popen[bytes], tmp_path: Path, serve: Serve, visit: Visit) -> None:
    """Finished attempts appear without a reload, and filters stay; at the end, the run is shown as completed."""
    served = serve(tmp_path / "artifacts" / "runs")
    page, seen = visit(served.address)
    expect(page.locator("table.runs .status")).to_have_text("running")
    page.locator("table.runs tbody a").click()
    state = page.locator(".state")
    expect(state).to_contain_text("running")
    expect(state).to_contain_text("2 running")
    doing = page.locator(".doing")
    expect(doing).to_contain_text("tests")
    expect(doing).to_contain_text("last tool call: apply_patch")
    names = set(doing.get_by_role("rowheader").all_inner_texts())
    assert len(names) == 2
    first = min(names)
    expect(row(page, first).locator(".result")).to_have_text("● running")
    page.evaluate("window.same = true")
    page.get_by_label("Search").fill(first)
    (tmp_path / f"go-{first}").touch()
    expect(row(page, first).locator(".result")).to_have_text("✓ passed")
    expect(state).to_contain_text("1 passed")
    expect(page.locator("#attempts tbody tr:visible")).to_have_count(1)
    row(page, first).get_by_role("link").click()
    expect(opened(page).get_by_role("heading", level=1)).to_have_text(first)
    page.go_back()
    page.get_by_label("Search").fill("")
    for task in ("one", "two", "three"):
        (tmp_path / f"go-{task}").touch()
    expect(page.locator(".state .status")).to_have_text("completed")
    expect(page.locator(".rate")).to_contain_text("100.0%")
    expect(page.locator("#attempts tbody tr")).to_have_count(3)
    assert running.wait(60) == 0
    assert page.evaluate("window.same") is True
    assert seen.trouble == []


@pytest.mark.release
def test_process_that_wrote_the_run_died(tmp_path: Path, serve: Serve, visit: Visit) -> None:
    """Without the lock, a run without an end is unfinished, and its last attempts are not running."""
    run = write_run(tmp_path / "runs" / "a", {"one": True, "two": True}).directory
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
    (run / "attempts.jsonl").write_bytes((run / "attempts.jsonl").read_bytes().splitlines(keepends=True)[0])
    page, _ = visit(serve(run).address)
    expect(page.locator(".state .status")).to_have_text("unfinished")
    expect(page.locator(".state")).not_to_contain_text("running")
    expect(row(page, "two").locator(".result")).to_have_text("○ not recorded")


@pytest.mark.release
def test_run_is_rebuilt_and_deleted_while_it_is_shown(tmp_path: Path, serve: Serve, visit: Visit) -> None:
    """V09: a replaced file is read again, and after the deletion the page says so."""
    run = write_run(tmp_path / "runs" / "a", {"one": True, "two": False}).directory
    events = run / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join([*lines[:3], b"\xff garbage\n", b'{"type":"task_finished"}\n', *lines[3:]]))
    page, _ = visit(serve(tmp_path / "runs").address)
    page.locator("table.runs tbody a").click()
    expect(page.locator(".state")).to_contain_text("1 damaged line of")
    subprocess.run([AGENTBENCH, "runs", "rebuild", str(run)], check=True, capture_output=True)
    expect(page.locator(".state")).not_to_contain_text("damaged")
    expect(page.locator(".state")).to_contain_text("1 passed")
    shutil.rmtree(run)
    expect(page.get_by_role("alert")).to_contain_text("cannot be read")
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("status")).to_have_text("0 runs")


# --- hostile content -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_hostile_run_runs_nothing(
    make_evidence: Callable[..., Any], hostility: tuple[str, Callable[[str], str]], serve: Serve, visit: Visit
) -> None:
    """V07: hostile text in names, tags, logs, events and the state of running attempts is shown, and does nothing."""
    text, say = hostility
    run = make_evidence(
        "runs/a", {"one": True, "two": False}, say, run={"suite": say("suite"), "variant": say("variant")}
    ).directory
    (run / "tags.json").write_text(json.dumps({"tag": "<img src=x onerror=window.ran=1>"}))
    run = run.rename(run.with_name("<img src=x onerror=window.ran=1>&amp;'\""))
    served = serve(run.parent)
    page, seen = visit(served.address)
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.locator("table.runs tbody a").click()
    expect(page.locator(".live")).to_contain_text("1 passed")
    for number in (1, 2):
        page.evaluate(f"location.hash = '#attempt={number}'")
        expect(opened(page).get_by_role("heading", level=1)).to_have_text("one" if number == 1 else "two")
        page.get_by_role("button", name="Expand all").click()
    page.evaluate("location.hash = ''")
    with (run / "events.jsonl").open("ab") as file:  # a running attempt with hostile names
        file.write(journal.event_line(1000, None, "run_resumed", b'{"kept":2,"attempts":1}'))
        fields = {"task_id": say("one"), "repeat": 1}
        file.write(journal.event_line(1001, "x", "task_started", json.dumps(fields).encode()))
        fields = {"step": 1, "tool": say("tool"), "agent": ""}
        file.write(journal.event_line(1002, "x", "tool_call_started", json.dumps(fields).encode()))
    with filelock.FileLock(run / ".lock"):
        expect(page.locator(".doing")).to_contain_text("last tool call: tool</script>")
        page.goto(f"{served.origin}/")
        expect(page.locator("table.runs .status")).to_have_text("running")
    page.goto(f"{served.origin}/run/nothing{text[:60].replace('/', '')}/")
    assert page.evaluate("window.ran") is None
    assert [line for line in seen.trouble if "404" not in line] == []
    no_request_left(seen, served.origin)


@pytest.mark.release
def test_page_of_another_site_cannot_read(make_evidence: Callable[..., Any], serve: Serve, visit: Visit) -> None:
    """V03: in a browser that has the cookie, a page of another origin can neither read, frame nor run the pages."""
    run = make_evidence("runs/a", {"one": True})
    served = serve(run.directory.parent)
    attacker = serve(run.directory.parent)  # another origin, with another port
    page, _ = visit(served.address)
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.route(f"{attacker.origin}/evil", lambda route: route.fulfill(content_type="text/html", body="<body>evil"))
    page.goto(f"{attacker.origin}/evil")
    target = f"{served.origin}/run/a/files/run.json"
    read = "url => fetch(url, {credentials: 'include', mode: MODE}).then(r => r.text()).catch(() => '')"
    for mode in ("'cors'", "'no-cors'"):
        assert page.evaluate(read.replace("MODE", mode), target) == ""
    loaded = """url => new Promise(done => {
        const made = document.createElement("script");
        made.onload = () => done("loaded"); made.onerror = () => done("refused"); made.src = url;
        document.body.append(made);
    })"""
    assert page.evaluate(loaded, target) == "refused"
    framed = """url => new Promise(done => {
        const made = document.createElement("iframe");
        made.onload = () => done(made.contentDocument ? "readable" : "refused"); made.src = url;
        document.body.append(made);
    })"""
    assert page.evaluate(framed, f"{served.origin}/") == "refused"
    page.goto(f"{served.origin}/")
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
