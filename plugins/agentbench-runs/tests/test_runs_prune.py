"""``runs prune`` and ``runs du``: they select the right runs, and nothing else is deleted."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.harness import is_locked, lock_run, write_tags
from agentbench_runs.leftovers import leftovers

OUT = Path("artifacts/runs")
MakeRun = Callable[..., Path]


def _ago(days: float) -> str:
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)).isoformat(timespec="seconds")


@pytest.fixture
def runs(make_run: MakeRun) -> None:
    """Five runs of two variants, the oldest first."""
    make_run("a", started=_ago(50), size=30_000)
    make_run("b", started=_ago(40), variant="other")
    make_run("c", started=_ago(31), size=60_000)
    make_run("d", started=_ago(29))
    make_run("e", started=_ago(1), variant="other")
    write_tags(OUT / "d", {"scratch": "yes"})


def _left() -> str:
    return "".join(sorted(path.name for path in OUT.iterdir()))


def test_runs_with_very_deep_directories_are_deleted(agentbench: Any, make_run: MakeRun) -> None:
    """R01: Untrusted runs may be deeper than the recursion limit."""
    run = make_run("a")
    here = os.open(run, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    done = agentbench("runs", "prune", "--keep-last", "0", "--yes")
    assert done.code == 0, done.err
    assert not list(Path("artifacts/runs").iterdir())


@pytest.mark.parametrize(
    ("flags", "deleted"),
    [
        (["--older-than", "30d"], "abc"),
        (["--older-than", "30d", "--keep-last", "1"], "abc"),
        (["--older-than", "30d", "--keep-last", "2"], "a"),
        (["--keep-last", "0"], "abcde"),
        (["--keep-last", "1"], "abc"),
        (["--larger-than", "20kB"], "ac"),
        (["--max-total-size", "100kB"], "a"),
        (["--max-total-size", "100kB", "--variant", "other"], "be"),
        (["--max-total-size", "1GB"], ""),
        (["--tag", "scratch=*"], "d"),
        (["--status", "completed", "--since", "2020-01-01", "--variant", "other"], "be"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("runs")
def test_runs_that_meet_all_conditions(agentbench: Any, flags: list[str], deleted: str) -> None:
    """They are listed first, and only deleted with ``--yes``."""
    listed = agentbench("runs", "prune", *flags, "--json")
    found = json.loads(listed.out)
    assert (listed.code, found["deleted"], _left()) == (0, False, "abcde")
    assert "".join(Path(run["directory"]).name for run in found["runs"]) == deleted
    assert found["bytes"] == sum(run["bytes"] for run in found["runs"])
    done = agentbench("runs", "prune", *flags, "--yes")
    assert done.code == 0, done.err
    assert _left() == "".join(sorted(set("abcde") - set(deleted)))


@pytest.mark.usefixtures("runs")
def test_what_would_be_deleted_is_shown_with_its_size(agentbench: Any) -> None:
    done = agentbench("runs", "prune", "--larger-than", "20kB")
    head, first, *_, total = done.out.splitlines()
    assert head.split() == ["NAME", "STARTED", "SUITE", "STATUS", "SIZE", "TAGS", "DIRECTORY"]
    assert first.startswith("baseline-")
    assert total.startswith("would delete 2 runs, ")
    assert total.endswith(" KiB. To delete, add --yes.")
    refused = agentbench("runs", "prune")
    assert (refused.code, "pass at least one condition" in refused.err) == (2, True)


@pytest.mark.usefixtures("runs")
def test_runs_in_progress_links_and_other_directories_are_kept(agentbench: Any, tmp_path: Path) -> None:
    """R01: Runs in progress and everything that is not a run are kept. Links are not followed."""
    elsewhere = tmp_path / "elsewhere"
    shutil.move(OUT / "a", elsewhere)
    (OUT / "a").symlink_to(elsewhere)
    (OUT / "b/tasks/one/repo/out").symlink_to(tmp_path)
    (OUT / "notes").mkdir()
    (OUT / "notes/run.txt").touch()
    events = (OUT / "c/events.jsonl").read_bytes().splitlines(keepends=True)
    (OUT / "c/events.jsonl").write_bytes(b"".join(events[:-1]))
    (OUT / "d/.lock").unlink()
    (OUT / "d/.lock").symlink_to(elsewhere / "run.json")
    before = (elsewhere / "run.json").read_bytes()
    with lock_run(OUT / "c"):
        done = agentbench("runs", "prune", "--keep-last", "0", "--yes")
    assert "skipped: baseline-runc is in progress" in done.err
    assert (done.code, "d/.lock is a link" in done.err) == (1, True)
    assert _left() == "acdnotes"
    assert (elsewhere / "run.json").read_bytes() == before
    assert (tmp_path / "elsewhere/events.jsonl").exists()


def test_a_run_that_starts_again_in_the_meantime_is_kept(agentbench: Any, make_run: MakeRun) -> None:
    """Its events still say that it has ended, but its directory is locked."""
    run = make_run("a")
    with lock_run(run):
        done = agentbench("runs", "prune", "--keep-last", "0", "--yes")
    assert (done.code, "is in use by another agentbench process" in done.err) == (1, True)
    assert "deleted 1 run" in done.out
    assert (run / "run.json").exists()


KILLED = """
import os, signal
from agentbench_runs import leftovers
from agentbench_core.cli.main import main
def stop(path):
    print("half", flush=True)
    os.remove(next(path.glob("*/run.json")))
    os.kill(os.getpid(), signal.SIGKILL)
leftovers.remove_tree = stop
main(["runs", "prune", "--keep-last", "0", "--yes"])
"""


def test_a_second_prune_finishes_what_a_killed_one_began(agentbench: Any, make_run: MakeRun) -> None:
    """R07: Until then, its leftovers are neither listed nor read as a run."""
    make_run("a")
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=60)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "half\n"), killed.stderr
    assert [path.name.startswith(".agentbench-deleting-") for path in OUT.iterdir()] == [True]
    assert "no runs in artifacts/runs" in agentbench("runs", "list").out
    assert "interrupted commands left" in agentbench("runs", "du").err
    assert (
        "left behind by an interrupted command: artifacts/runs/.agentbench-deleting-" in agentbench("runs", "prune").out
    )
    assert len(list(OUT.iterdir())) == 1
    assert agentbench("runs", "prune", "--yes").code == 0
    assert list(OUT.iterdir()) == []


def test_what_another_process_unpacks_is_not_a_leftover(make_run: MakeRun) -> None:
    make_run("a")
    hidden = OUT / ".agentbench-unpacking-x"
    hidden.mkdir()
    (OUT / ".agentbench-deleting-link").symlink_to(OUT / "a")
    with lock_run(hidden):
        assert is_locked(hidden)
        assert list(leftovers(OUT)) == []
    assert list(leftovers(OUT)) == [hidden]


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--older-than", "30", "'30' is not a valid age; examples: 12h, 30d, 8w."),
        ("--larger-than", "5 potatoes", "is not a valid size; examples: 500MB"),
        ("--max-total-size", "-1", "is not a valid size; examples: 500MB"),
        ("--keep-last", "-1", "is not in the range"),
    ],
)
def test_invalid_conditions_are_refused(
    agentbench: Any, make_run: MakeRun, flag: str, value: str, message: str
) -> None:
    make_run("a")
    done = agentbench("runs", "prune", flag, value, "--yes")
    assert (done.code, message in done.err) == (2, True), done.err
    assert _left() == "a"


@pytest.mark.usefixtures("runs")
def test_du_shows_the_largest_run_first_and_every_byte(agentbench: Any) -> None:
    """A file with two names counts once, and the target of a symbolic link does not count."""
    os.link(OUT / "c/tasks/one/logs/failing_stdout.txt", OUT / "c/tasks/one/logs/copy.txt")
    (OUT / "c/link").symlink_to("/usr")
    rows = json.loads(agentbench("runs", "du", "--json").out)
    assert [Path(row["directory"]).name for row in rows][:2] == ["c", "a"]
    assert [row["by_kind"]["logs"] for row in rows] == [60_000, 30_000, 0, 0, 0]
    first = rows[0]
    assert first["bytes"] == sum(first["by_kind"].values())
    expected = {path for path in (OUT / "c").rglob("*") if path.is_file() and path.name not in ("copy.txt", "link")}
    assert first["bytes"] - len("/usr") == sum(path.stat().st_size for path in expected)
    assert first["by_kind"] | {"events": 0, "records": 0, "logs": 0} == {
        **dict.fromkeys(first["by_kind"], 0),
        "agent": 3,
        "diffs": 3,
        "workspace": 2,
        "other": 2,
        "reports": 4,
    }
    assert agentbench("runs", "du").out.splitlines()[-1].startswith("5 runs, ")
    assert len(json.loads(agentbench("runs", "du", "--variant", "other", "--json").out)) == 2
