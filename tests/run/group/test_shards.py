"""``run --shard`` and ``runs merge`` with real runs: together they give the run of one machine, whatever is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import AttemptRecord, RunView, dump, open_run
from agentbench_core.harness import run_info
from agentbench_core.values.shard import Shard, planned_repeats
from agentbench_testing import write_run
from tests.conftest import Ended
from tests.docs.runner import ROOT
from tests.forked import exit_code

Agentbench = Callable[..., Ended]
TASKS = ["one", "two"]
BUNDLED = ("durations-parse-units", "packlist-newest-release", "tables-shorten-overflow", "tillroll-credit-notes")
SHARDS = 3
VARYING = ("run_id", "attempt_id", "supersedes", "timestamps", "duration_sec")
"""Fields of a record that differ between two equal runs."""


@pytest.fixture
def suite(make_suite: Any) -> Path:
    """Two small tasks that the scripted agent solves, and one that it cannot solve."""
    make_suite(["unsolved"], agent={"entrypoint": "idle"})
    directory: Path = make_suite(TASKS, agent={"entrypoint": "scripted"})
    return directory


def plan(*more: str, out: str) -> list[str]:
    """A run of all tasks with two repeats, with each task's own agent."""
    return ["run", "--suite", "mini", "--tasks", "tasks", "--sandbox", "local", "--repeats", "2", "--out", out, *more]


def only_run(out: str | Path) -> Path:
    """The run directory in an output directory."""
    (directory,) = Path(out).iterdir()
    return directory


def run_shards(agentbench: Agentbench, *numbers: int, more: tuple[str, ...] = ()) -> list[str]:
    """Run shards, each as on a machine of its own, and return the run directories."""
    for number in numbers:
        ended = agentbench(*plan("--shard", f"{number}/{SHARDS}", *more, out=f"machine-{number}"))
        assert ended.code == 0, ended.err
    return [str(path) for number in numbers for path in Path(f"machine-{number}").iterdir()]


def seen(run: RunView) -> list[Any]:
    """Records and files as readers see them, without ids, times and order."""
    return sorted(
        ({**plain_record(record), "files": evidence_files(run, record)} for record in run.records()),
        key=lambda plain: (plain["task_id"], plain["repeat"]),
    )


def plain_record(record: AttemptRecord) -> dict[str, Any]:
    """A record without ids and times."""
    return {name: value for name, value in dump(record).items() if name not in VARYING}


def evidence_files(run: RunView, record: AttemptRecord) -> list[str]:
    """The names of an attempt's files."""
    root = run.directory / record.artifact_paths["task_dir"]
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def event_types(run: RunView) -> list[str]:
    """The types of all events of attempts, sorted."""
    return sorted(type(entry.event).__name__ for entry in run.events() if entry.attempt_id)


@pytest.mark.long
def test_three_machines_and_one(agentbench: Agentbench, suite: Path) -> None:
    """The merged run has the records, files and events of the run of one machine; a partial one can be resumed."""
    assert agentbench(*plan(out="whole")).code == 0
    whole = open_run(only_run("whole"))
    parts = run_shards(agentbench, 1, 2, 3)
    names = [Path(part).name for part in parts]
    assert [name.rsplit("__", 1)[1] for name in names] == [f"shard-{n}-of-3" for n in (1, 2, 3)]
    assert agentbench("runs", "merge", *parts, "--into", "merged").code == 0
    merged = open_run(Path("merged"))
    assert seen(merged) == seen(whole)
    assert event_types(merged) == event_types(whole)
    assert run_info(Path("merged")).passed == run_info(whole.directory).passed == 4
    compared = agentbench(
        "report",
        "paired",
        "--run-a",
        str(whole.directory),
        "--run-b",
        "merged",
        "--method",
        "bootstrap",
        "--format",
        "json",
    )
    assert compared.code == 0, compared.err
    assert {task["difference"] for task in json.loads(compared.out)["tasks"]} == {0}
    resumed = agentbench("run", "--resume", "merged")
    assert resumed.code == 0
    assert "all attempts are already recorded (6); nothing to do" in resumed.err

    # without one machine, whose attempts then run here
    assert agentbench("runs", "merge", parts[0], parts[2], "--into", "partial").code == 2
    assert agentbench("runs", "merge", parts[0], parts[2], "--into", "partial", "--partial").code == 0
    assert run_info(Path("partial")).recorded == 2
    ended = agentbench("run", "--resume", "partial")
    assert ended.code == 0, ended.err
    run = open_run(Path("partial"))
    assert seen(run) == seen(whole)
    assert run.status() == "completed"
    assert [str(part.shard) for part in run.manifest.merged] == ["1/3", "3/3"]


@pytest.mark.docker
@pytest.mark.release
def test_bundled_tasks_in_containers(agentbench: Agentbench) -> None:
    """Three shards have the records of one machine: verdicts, labels, environments and files."""
    tasks = [part for name in BUNDLED for part in ("--task", name)]

    def bundled(*more: str, out: str) -> None:
        suite = ("--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--agent", "scripted", "--sandbox", "docker")
        ended = agentbench("run", *suite, *tasks, "--out", out, *more)
        assert ended.code == 0, ended.err

    bundled(out="whole")
    for number in (1, 2, 3):
        bundled("--shard", f"{number}/3", out="machines")
    parts = [str(path) for path in Path("machines").iterdir()]
    assert agentbench("runs", "merge", *parts, "--into", "merged").code == 0
    whole, merged = open_run(only_run("whole")), open_run(Path("merged"))
    assert len(seen(whole)) == len(BUNDLED)
    assert seen(merged) == seen(whole)


def test_variants_of_a_pair_share_a_machine(agentbench: Agentbench, suite: Path) -> None:
    """Both variants of a command have the same attempts in a shard, so that comparisons stay paired."""
    Path("configs/variants").mkdir(parents=True)
    for name in ("one", "two"):
        Path(f"configs/variants/{name}.yaml").write_text("agent: {name: idle}\n")
    parts = run_shards(agentbench, 1, 2, 3, more=("--variant", "one", "--variant", "two"))
    attempts = [{(row.task_id, row.repeat) for row in open_run(Path(part)).rows()} for part in sorted(parts)]
    assert attempts[0::2] == attempts[1::2]
    assert agentbench("runs", "merge", *parts, "--into", "merged").code == 0
    merged = [open_run(Path("merged") / name) for name in ("one", "two")]
    assert [len(seen(run)) for run in merged] == [6, 6]
    both = [part for run in merged for part in ("--resume", str(run.directory))]
    assert "all attempts are already recorded" in agentbench("run", *both).err


@pytest.mark.long
def test_a_merged_run_is_replayed(agentbench: Agentbench, make_suite: Any) -> None:
    """The recorded responses of all shards answer the calls, and the records say so."""
    make_suite(["a", "b"])
    run = ("run", "--suite", "mini", "--tasks", "tasks", "--sandbox", "local", "--allow-unisolated")
    for number in (1, 2):
        model = ("--agent", "baseline", "--llm", "mechanic", "--shard", f"{number}/2", "--out", "machines")
        ended = agentbench(*run, *model)
        assert ended.code == 0, ended.err
    parts = [str(path) for path in Path("machines").iterdir()]
    assert agentbench("runs", "merge", *parts, "--into", "merged").code == 0
    replayed = agentbench("replay", "merged", "--allow-unisolated", "--out", "again")
    assert replayed.code == 0, replayed.err
    before, after = open_run(Path("merged")), open_run(only_run("again"))
    assert {record.replayed for record in after.records()} == {True}
    calls = [{record.task_id: record.usage.llm_calls for record in run.records()} for run in (before, after)]
    assert calls[0] == calls[1]
    assert min(calls[0].values()) > 0
    assert len(calls[0]) == 2


@pytest.mark.long
def test_a_shard_is_resumed_as_a_shard(agentbench: Agentbench, suite: Path) -> None:
    """A killed machine runs the rest of its own attempts."""
    shard = plan("--shard", f"2/{SHARDS}", "--workers", "1", out="machine-2")
    assert exit_code(*shard, crash_at="12") == -9
    part = only_run("machine-2")
    planned = run_info(part).planned
    refused = agentbench("runs", "merge", str(part), "--into", "merged", "--partial")
    assert refused.code == 0, refused.err  # what is there can be merged
    assert agentbench("run", "--resume", str(part), "--shard", "1/3").code == 2
    assert agentbench("run", "--resume", str(part)).code == 0
    info = run_info(part)
    assert (info.recorded, info.planned, info.status) == (planned, planned, "completed")
    again = agentbench("run", "--like", str(part), "--out", "again")
    assert again.code == 0
    assert run_info(only_run("again")).planned == planned


def test_an_empty_shard(agentbench: Agentbench, make_suite: Any) -> None:
    """A machine without attempts succeeds, so that a matrix of jobs does."""
    make_suite(["one"], agent={"entrypoint": "scripted"})
    empty = next(n for n in range(1, 9) if not planned_repeats("one", 1, Shard(index=n, count=8)))
    ended = agentbench("run", "--suite", "mini", "--tasks", "tasks", "--sandbox", "local", "--shard", f"{empty}/8")
    assert ended.code == 0, ended.err
    info = run_info(only_run("artifacts/runs"))
    assert (info.planned, info.recorded, info.status) == (0, 0, "completed")


@pytest.mark.parametrize("text", ["3", "0/2", "3/2", "x/y"])
def test_an_invalid_shard(text: str, agentbench: Agentbench, suite: Path) -> None:
    """The message contains an example, and nothing runs."""
    ended = agentbench(*plan("--shard", text, out="machine"))
    assert ended.code == 2
    assert "for example 2/8" in ended.err
    assert not Path("machine").exists()


def test_a_merge_is_killed_at_every_step(agentbench: Agentbench) -> None:
    """R10: nothing is half merged; the same command completes it, and ``runs prune`` removes what is left."""
    endings: dict[int, dict[str, Any]] = {}
    for index in (1, 2, 3):
        planned = {task: planned_repeats(task, 2, Shard(index=index, count=3)) for task in TASKS}
        endings[index] = {task: [True if n in planned[task] else None for n in (1, 2)] for task in TASKS}
    for index, each in endings.items():
        fields = {"shard": {"index": index, "count": 3}, "group_id": "group"}
        write_run(Path(f"shard-{index}"), each, run=fields, files=lambda record: {"a/b.txt": record.attempt_id})
    command = ("runs", "merge", "shard-1", "shard-2", "shard-3")
    assert exit_code(*command, "--into", "whole") == 0
    expected = contents(Path("whole"))
    for step in range(1, 100):
        into = Path("steps") / f"step-{step}"
        code = exit_code(*command, "--into", str(into), crash_at=f"{step}{'+' * (step % 2)}")
        if code == 0:
            break
        assert code == -9
        assert not into.exists()
        assert exit_code(*command, "--into", str(into)) == 0
        assert contents(into) == expected
    assert step > 6
    left = [path for path in Path("steps").iterdir() if path.name.startswith(".agentbench-merging-")]
    assert len(left) == step - 1
    assert agentbench("runs", "prune", "--out", "steps", "--keep-last", "1000", "--yes").code == 0
    assert [path.name for path in Path("steps").iterdir() if path.name.startswith(".")] == []


def contents(directory: Path) -> dict[str, bytes]:
    """All files of a run, without the times of events."""
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    events = [json.loads(line) for line in found.pop("events.jsonl").splitlines()]
    for event in events:
        del event["at"], event["crc"]
    return found | {"events.jsonl": json.dumps(events).encode()}


def test_more_attempts_than_can_be_divided(agentbench: Agentbench, suite: Path) -> None:
    """One clear error, before anything is run."""
    ended = agentbench(*plan("--shard", "1/2", "--repeats", "333334", out="runs"))
    assert ended.code == 2
    assert "a plan with 1000002 attempts cannot be divided into shards; the maximum is 1000000\n" in ended.err
    assert not Path("runs").exists()
