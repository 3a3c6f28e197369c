"""Flaky tasks on the command line: measured, recorded, quarantined, still attempted, and released."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench_core.evidence.reader import open_run

SUITE = ("--suite", "mini")
FLAKES = Path("tasks/mini/flakes.yaml")


def flaky(counter: Path, every: int) -> str:
    """A passing command that rejects the fix every ``every`` calls; in the sandbox ``local`` the counter persists."""
    count = f"n=$(cat {counter} || echo 0); echo $((n + 1)) > {counter}"
    return f"grep -q fixed app.txt && {{ {count}; test $((n % {every})) -ne {every - 1}; }}"


@pytest.fixture
def suite(make_task: Any, tmp_path: Path) -> Path:
    """Two tasks: ``one`` passes with its oracle 3 of 4 times, ``two`` always."""
    directory = make_task("one", validation={"passing_command": flaky(tmp_path / "counter", 4)})
    make_task("two")
    return Path(directory).parent


def measured(task: str = "one") -> Any:
    return yaml.safe_load(FLAKES.read_text())["tasks"][task]["measured"]["local"]


@pytest.mark.long
def test_flaky_task_is_quarantined_and_released(suite: Path, agentbench: Any) -> None:
    """Checks accumulate; a run still attempts a quarantined task, and marks it in every output."""
    done = agentbench("validate-tasks", *SUITE, "--times", "4")
    assert done.code == 1
    assert re.search(r"^one +1 of 4 +0 of 4 +25\.0% \(95% CI 4\.6% to 69\.9%\)$", done.out, re.MULTILINE)
    assert re.search(r"^two +0 of 4 +0 of 4 +0\.0% \(95% CI 0\.0% to 49\.0%\)$", done.out, re.MULTILINE)
    assert not FLAKES.exists()  # only written with --flakes

    done = agentbench("validate-tasks", *SUITE, "--times", "4", "--flakes", "--json")
    seen = {found["task"]: found["flakes"] for found in json.loads(done.out)}
    assert (seen["one"]["checks"], seen["one"]["flaky"], seen["one"]["rate"]) == (4, 1, 0.25)
    assert (seen["two"]["environment_checks"], seen["two"]["environment_failed"]) == (4, 0)
    assert "one: quarantined in local: 1 of 4 checks flaked, 25.0%" in done.err
    assert "two: not quarantined in local: 0 of 4 checks flaked" in done.err
    agentbench("validate-tasks", *SUITE, "--times", "2", "--flakes", "--task", "one")
    assert (measured()["checks"], measured()["flaky"], measured()["quarantined"]) == (6, 1, True)
    assert measured("two")["checks"] == 4

    why = "1 of 6 checks flaked in local, 16.7%"
    done = agentbench("run", *SUITE, "--agent", "scripted", "--repeats", "2")
    assert f"note: one is quarantined and excluded from headline figures: {why}" in done.err
    assert done.err.count("(quarantined)") == 2
    assert re.search(r"scripted  one  (passed|TESTS_FAILED)  \(quarantined\)  ", done.err)
    (directory,) = Path("artifacts/runs").iterdir()
    assert "mini, variant scripted: 2 of 2 scored attempts passed (100%)" in done.out
    assert re.search(r"^excludes 1 quarantined task; with all tasks: [34] of 4 \(", done.out, re.MULTILINE)
    assert f"quarantined: one: {why}" in done.out
    run = open_run(directory)
    flaky = [
        [each.evidence.startswith(why) for each in record.labels if each.name == "flaky"] for record in run.records()
    ]
    assert sorted(flaky) == [[], [], [True], [True]]
    assert [task.quarantined.startswith(why) for task in run.manifest.tasks] == [True, False]
    assert len(list(run.records())) == 4  # quarantined tasks have records, too
    shown = agentbench("runs", "show", str(directory)).out
    assert re.search(r"^one +1 +(passed|TESTS_FAILED), quarantined", shown, re.MULTILINE)
    assert f"one: quarantined and excluded from headline figures: {why}" in shown
    listed = agentbench("tasks", "list").out
    assert re.search(r"^mini +one +no +yes +yes", listed, re.MULTILINE)
    assert re.search(r"^mini +two +no +yes +no", listed, re.MULTILINE)
    assert f"mini/one: quarantined and excluded from headline figures: {why}" in listed
    found = json.loads(agentbench("tasks", "list", "--json").out)
    assert [bool(one["quarantined"]) for one in found] == [True, False]


def test_changed_task_is_no_longer_quarantined(suite: Path, agentbench: Any, make_task: Any) -> None:
    """Outdated and expired entries are ignored, with one warning."""
    agentbench("validate-tasks", *SUITE, "--times", "4", "--flakes")
    assert measured()["quarantined"]
    make_task("one", description="another task", validation={"passing_command": "grep -q fixed app.txt"})
    said = "flakes.yaml is out of date for one: validate again"
    for arguments in (("tasks", "list"), ("run", *SUITE, "--agent", "scripted")):
        done = agentbench(*arguments)
        assert done.err.count(said) == 1
        assert "quarantined, and" not in done.out + done.err
    (directory,) = Path("artifacts/runs").iterdir()
    assert [task.quarantined for task in open_run(directory).manifest.tasks] == ["", ""]
    done = agentbench("validate-tasks", *SUITE, "--flakes", "--times", "1")
    assert (measured()["checks"], measured()["flaky"]) == (1, 0)
    plain = yaml.safe_load(FLAKES.read_text())
    yesterday = datetime.date.today() - datetime.timedelta(days=1)
    plain["tasks"]["one"]["measured"]["local"] |= {"expires": yesterday.isoformat(), "quarantined": True}
    FLAKES.write_text(yaml.safe_dump(plain))
    assert said in agentbench("tasks", "list", *SUITE).err


def test_a_run_stays_as_it_was_planned(suite: Path, agentbench: Any) -> None:
    """Resuming a run ignores later changes to the quarantine."""
    FLAKES.write_text(yaml.safe_dump({"tasks": {"two": {"quarantined": True, "reason": "waits"}}}))
    agentbench("run", *SUITE, "--agent", "scripted")
    (directory,) = Path("artifacts/runs").iterdir()
    attempts = directory / "attempts.jsonl"
    before = open_run(directory).manifest.tasks
    assert [task.quarantined for task in before] == ["", "by hand: waits"]
    lines = attempts.read_bytes().splitlines(keepends=True)
    events = directory / "events.jsonl"
    kept = [line for line in events.read_bytes().splitlines(keepends=True) if b'"task_finished"' not in line]
    attempts.write_bytes(b"")
    events.write_bytes(b"".join(kept[:1]))
    FLAKES.write_text(yaml.safe_dump({"tasks": {"one": {"quarantined": True, "reason": "it failed"}}}))
    done = agentbench("run", "--resume", str(directory))
    assert done.code == 0, done.err
    assert open_run(directory).manifest.tasks == before
    assert "two is quarantined" in done.err
    assert "one is quarantined" not in done.err
    assert len(attempts.read_bytes().splitlines()) == len(lines) == 2


def test_failed_setup_counts_against_the_environment(make_task: Any, agentbench: Any) -> None:
    """A setup failure counts once, against the environment; a task that never passed is not recorded."""
    make_task(setup={"commands": ["exit 3"]})
    done = agentbench("validate-tasks", *SUITE, "--times", "3", "--flakes")
    assert re.search(r"^one +0 of 0 +1 of 1 +unknown$", done.out, re.MULTILINE)
    assert "one: nothing written: no check reached a verdict" in done.out
    make_task(setup={"commands": []}, validation={"passing_command": "false"})
    done = agentbench("validate-tasks", *SUITE, "--flakes", "--times", "1")
    assert "one: nothing written: every check failed, so the task is broken rather than flaky" in done.out
    assert re.search(r"^one +- +0 of 1 +unknown: 1 of 1 checks failed$", done.out, re.MULTILINE)
    assert " flaky " not in done.out.replace("not flaky", "")
    (found,) = json.loads(agentbench("validate-tasks", *SUITE, "--times", "2", "--json").out)
    assert (found["verdict"], found["flakes"]["failed_every_time"], found["flakes"]["flaky"]) == ("invalid", True, 0)
    assert found["flakes"]["rate"] is None
    assert not FLAKES.exists()


def test_invalid_flakes_file_is_reported_before_anything_runs(suite: Path, agentbench: Any) -> None:
    FLAKES.write_text("tasks: {one: {quarantined: true}}\n")
    for arguments in (
        ("run", *SUITE, "--agent", "scripted"),
        ("validate-tasks", *SUITE, "--flakes"),
        ("tasks", "list", *SUITE),
    ):
        done = agentbench(*arguments)
        assert done.code == 2
        assert "flakes.yaml: tasks.one.reason: missing: a quarantined task needs a reason" in done.err
    assert not Path("artifacts").exists()
    done = agentbench("validate-tasks", *SUITE, "--write", "--flakes")
    assert done.code == 2
    assert "--write and --flakes cannot be used together" in done.err
