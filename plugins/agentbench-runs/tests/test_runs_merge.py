"""``runs merge``: shards become one run, or nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import AttemptRecord, FailureReason, InputError, RunView, open_run
from agentbench_core.harness import Shard, plan_merges, read_tags, run_info, write_tags
from agentbench_testing import write_run

Agentbench = Callable[..., Any]
TASKS = [f"task-{number}" for number in range(8)]
REPEATS = 2


def shard_of(index: int, count: int = 3, *, variant: str = "baseline", name: str = "", **more: Any) -> RunView:
    """Write the run of a shard, in which tasks with an even number passed."""
    shard = {"index": index, "count": count}
    planned = {task: [n for n in range(1, REPEATS + 1) if Shard(**shard).takes(task, n)] for task in TASKS}
    lost = more.pop("lost", 0)
    endings: dict[str, list[Any]] = {}
    for number, task in enumerate(TASKS):
        endings[task] = [number % 2 == 0 if repeat in planned[task] else None for repeat in range(1, REPEATS + 1)]
        for repeat in planned[task][:lost]:
            endings[task][repeat - 1] = None
            lost -= 1
    fields = {
        "shard": shard,
        "variant": variant,
        "created_at": f"2026-01-02T03:{index:02}:00+0000",
        **more.pop("run", {}),
    }
    more.setdefault("files", lambda record: {"diffs/final.patch": f"{record.task_id} {record.repeat}\n"})
    return write_run(Path("shards") / (name or f"{variant}-{index}"), endings, run=fields, **more)


def shards(**more: Any) -> list[str]:
    """Write the runs of three shards, and return their directories."""
    return [str(shard_of(index, **more).directory) for index in (1, 2, 3)]


def on_machine(index: int, **facts: str) -> str:
    """Write the run of a shard in an environment with these facts, and return its directory."""
    text = json.dumps({"facts": facts})
    return str(shard_of(index, files=lambda _: {"meta/environment.json": text}).directory)


def content(directory: Path) -> dict[str, bytes]:
    """All files of a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def results(run: RunView) -> list[tuple[str, int, bool]]:
    """The records as seen by readers."""
    return sorted((record.task_id, record.repeat, record.result.passed) for record in run.records())


def test_one_run_from_three(agentbench: Agentbench) -> None:
    """Each attempt is present once, with its events and files. Readers see one complete run."""
    parts = shards()
    before = content(Path("shards"))
    ended = agentbench("runs", "merge", *parts, "--into", "merged")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "merged: 3 shards, 16 of 16 attempts: merged\n"
    run = open_run(Path("merged"))
    everything = write_run(Path("whole"), {task: [n % 2 == 0] * REPEATS for n, task in enumerate(TASKS)})
    assert results(run) == results(everything)
    assert {record.run_id for record in run.records()} == {run.manifest.run_id}
    assert [str(part.shard) for part in run.manifest.merged] == ["1/3", "2/3", "3/3"]
    assert (run.manifest.shard, run.manifest.created_at) == (None, "2026-01-02T03:01:00+0000")
    info = run_info(Path("merged"))
    assert (info.status, info.planned, info.recorded, info.passed, info.cost_usd) == ("completed", 16, 16, 8, 0.16)
    for record in run.records():
        assert (
            run.file(record.task_id, record.repeat, "diffs/final.patch")
            == f"{record.task_id} {record.repeat}\n".encode()
        )
    numbers = [entry.seq for entry in run.events()]
    assert numbers == list(range(1, len(numbers) + 1))
    kinds = [type(entry.event).__name__ for entry in run.events()]
    assert [
        kinds.count(kind) for kind in ("RunStarted", "ShardMerged", "LLMResponse", "TaskFinished", "RunFinished")
    ] == [*(1, 3, 16, 16, 1)]
    assert "8 of 16 scored attempts passed" in Path("merged/report_summary.md").read_text()
    assert content(Path("shards")) == before


def test_the_times_of_events_are_kept(agentbench: Agentbench) -> None:
    """An event has the time at which it happened, not the time of the merge."""
    parts = shards()
    then = {
        (e.attempt_id, type(e.event)): e.at for part in parts for e in open_run(Path(part)).events() if e.attempt_id
    }
    agentbench("runs", "merge", *parts, "--into", "merged")
    now = {(e.attempt_id, type(e.event)): e.at for e in open_run(Path("merged")).events() if e.attempt_id}
    assert now == then


def test_machines_may_differ(agentbench: Agentbench) -> None:
    """Each machine commits its own image after setup and may have a different engine, so digests are compared."""
    machines = (
        {"image_id": "sha256:1", "engine_kernel": "6.1", "engine_cpus": "2"},
        {"image_id": "sha256:2", "engine_kernel": "6.8", "engine_cpus": "64", "base_image_digest": "a@sha256:3"},
        {"image_id": "sha256:3", "engine_kernel": "6.8", "engine": "28.0", "storage_driver": "btrfs"},
    )
    parts = [on_machine(index, python="3.11.7", **facts) for index, facts in enumerate(machines, start=1)]
    ended = agentbench("runs", "merge", *parts, "--into", "merged")
    assert (ended.code, ended.err) == (0, "")


def test_merging_twice_does_nothing(agentbench: Agentbench) -> None:
    """The same runs in any order, even if one is given twice, give the same run, which is not written again."""
    one, two, three = shards()
    agentbench("runs", "merge", one, two, three, "--into", "merged")
    before = content(Path("merged"))
    ended = agentbench("runs", "merge", three, one, two, one, "--into", "merged")
    assert (ended.code, ended.out) == (0, "already merged: 3 shards, 16 of 16 attempts: merged\n")
    assert content(Path("merged")) == before
    assert agentbench("runs", "merge", one, two, three, "--into", "other").code == 0
    assert open_run(Path("other")).manifest == open_run(Path("merged")).manifest


def test_several_variants(agentbench: Agentbench) -> None:
    """Each variant becomes a run. The runs still form one group, since each machine ran both with one command."""
    parts = []
    for index in (1, 2, 3):
        for variant in ("new", "baseline"):
            parts.append(str(shard_of(index, variant=variant, run={"group_id": f"group-{index}"}).directory))
    ended = agentbench("runs", "merge", *parts, "--into", "merged")
    assert ended.code == 0, ended.err
    runs = [open_run(Path("merged") / name) for name in ("baseline", "new")]
    assert [run.manifest.variant for run in runs] == ["baseline", "new"]
    assert runs[0].manifest.group_id == runs[1].manifest.group_id
    assert runs[0].manifest.run_id != runs[1].manifest.run_id
    assert agentbench("runs", "merge", *parts, "--into", "merged").out.count("already merged") == 2
    ended = agentbench("runs", "merge", *parts[:-1], "--into", "other")
    assert "shards of variant 'baseline' are missing: 3/3" in ended.err
    assert not Path("other").exists()


def test_retried_attempts(agentbench: Agentbench) -> None:
    """Superseded records and their archived files are included, but do not count."""
    task = next(task for task in TASKS if Shard(index=1, count=3).takes(task, 1))
    first = shard_of(1, tried_before={task: FailureReason.SANDBOX_ERROR})
    (superseded,) = [row.attempt_id for row, counts in first.all_rows() if not counts]
    archived = first.directory / "superseded" / superseded
    archived.mkdir(parents=True)
    (archived / "note.txt").write_text("before\n")
    parts = [str(first.directory), *(str(shard_of(index).directory) for index in (2, 3))]
    assert agentbench("runs", "merge", *parts, "--into", "merged").code == 0
    run = open_run(Path("merged"))
    assert len(results(run)) == 16
    assert (Path("merged/superseded") / superseded / "note.txt").read_text() == "before\n"


def test_tags(agentbench: Agentbench) -> None:
    """Tags with the same value in all runs are kept. Different values, such as names of nodes, are dropped."""
    parts = shards()
    for number, part in enumerate(parts):
        write_tags(Path(part), {"release": "2", "node": f"n{number}"})
    agentbench("runs", "merge", *parts, "--into", "merged")
    assert read_tags(Path("merged")) == {"release": "2"}


class TestRefused:
    """Each problem has one clear message, and nothing is written."""

    @pytest.fixture(autouse=True)
    def _nothing_is_written(self) -> Any:
        yield
        assert not Path("merged").exists()
        assert not [path for path in Path().iterdir() if path.name.startswith(".agentbench")]

    def test_a_missing_shard(self, agentbench: Agentbench) -> None:
        one, _, three = shards()
        ended = agentbench("runs", "merge", one, three, "--into", "merged")
        assert ended.code == 2
        assert ended.err == (
            "error: shards of variant 'baseline' are missing: 2/3\n"
            "Pass the runs of all shards, or merge the available attempts: --partial\n"
        )

    def test_missing_attempts(self, agentbench: Agentbench) -> None:
        parts = [str(shard_of(index, lost=2 * (index == 2)).directory) for index in (1, 2, 3)]
        ended = agentbench("runs", "merge", *parts, "--into", "merged")
        assert ended.code == 2
        assert "baseline-2 (shard 2/3, completed) lacks 2 of its" in ended.err
        assert (
            f"agentbench run --resume {Path(parts[1]).resolve()}; or merge the available attempts: --partial"
            in ended.err
        )

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"variant_digest": "sha256:other"}, "digest: sha256:variant -> sha256:other"),
            ({"suite": "other"}, "suite: custom-dev -> other"),
            ({"harness": {"version": "0.2.0", "git_sha": ""}}, "agentbench: 0.1.0 -> 0.2.0"),
            ({"plugins": [{"name": "x", "distribution": "x", "version": "2"}]}, "plugin x: absent -> x 2"),
            ({"config": {"limits.max_steps": {"value": 9, "origin": "flag"}}}, "setting limits.max_steps: absent -> 9"),
            ({"programs": {"codex": {"version": "2"}}}, "program codex: absent -> 2"),
        ],
    )
    def test_another_plan(self, fields: dict[str, Any], words: str, agentbench: Agentbench) -> None:
        parts = [shard_of(1), shard_of(2), shard_of(3, run=fields)]
        ended = agentbench("runs", "merge", *(str(part.directory) for part in parts), "--into", "merged")
        assert ended.code == 2
        assert "baseline-3 does not have the same plan as" in ended.err
        assert words in ended.err
        assert "missing" not in ended.err

    def test_another_task(self, agentbench: Agentbench) -> None:
        parts = [shard_of(1), shard_of(2), shard_of(3, digests={"task-1": "sha256:" + "e" * 64})]
        ended = agentbench("runs", "merge", *(str(part.directory) for part in parts), "--into", "merged")
        assert ended.code == 2
        assert "task task-1: sha256:" in ended.err

    def test_tasks_whose_digests_have_the_same_beginning(self) -> None:
        """Messages show the beginning of digests, but whole digests are compared."""
        same = "sha256:" + "a" * 60
        first, other = (shard_of(i, digests={"task-1": same + tail * 4}) for i, tail in ((1, "b"), (2, "c")))
        with pytest.raises(InputError, match=r"task task-1: sha256:a{60}bbbb -> sha256:a{60}cccc"):
            plan_merges([first.directory, other.directory], partial=True)

    def test_another_number_of_shards(self, agentbench: Agentbench) -> None:
        parts = [shard_of(1), shard_of(2), shard_of(3, count=4)]
        ended = agentbench("runs", "merge", *(str(part.directory) for part in parts), "--into", "merged")
        assert "shards: 3 -> 4" in ended.err

    def test_the_same_shard_twice(self, agentbench: Agentbench) -> None:
        parts = [*shards(), str(shard_of(2, name="again").directory)]
        ended = agentbench("runs", "merge", *parts, "--into", "merged")
        assert ended.code == 2
        assert "again are both shard 2/3\nPass only one of them." in ended.err

    def test_a_run_without_shard(self, agentbench: Agentbench) -> None:
        whole = write_run(Path("whole"), dict.fromkeys(TASKS, True))
        ended = agentbench("runs", "merge", *shards(), str(whole.directory), "--into", "merged")
        assert ended.code == 2
        assert "whole is not the run of a shard\nOnly runs started with --shard I/N can be merged." in ended.err

    def test_a_merged_run(self, agentbench: Agentbench) -> None:
        one, two, three = shards()
        agentbench("runs", "merge", one, two, "--into", "most", "--partial")
        ended = agentbench("runs", "merge", "most", three, "--into", "merged")
        assert ended.code == 2
        assert "most is already a merged run\nPass the runs of the shards instead." in ended.err

    def test_other_environments(self, agentbench: Agentbench) -> None:
        """The same task, in another image."""

        def elsewhere(record: AttemptRecord) -> AttemptRecord:
            return attrs.evolve(record, sandbox=attrs.evolve(record.sandbox, environment_digest="sha256:other"))

        parts = [shard_of(1), shard_of(2), shard_of(3, record=elsewhere)]
        ended = agentbench("runs", "merge", *(str(part.directory) for part in parts), "--into", "merged")
        assert ended.code == 2
        assert "baseline-3 differ from those in" in ended.err
        assert "digest: local sha256:env-task-" in ended.err
        assert "Use the same image and packages on all machines." in ended.err

    def test_other_packages(self, agentbench: Agentbench) -> None:
        """The digests are the same, but setup installed something else."""
        parts = [on_machine(index, pip_freeze=f"attrs=={min(index, 2)}") for index in (1, 2, 3)]
        ended = agentbench("runs", "merge", *parts, "--into", "merged")
        assert ended.code == 2
        assert "pip_freeze: attrs==1 -> attrs==2" in ended.err

    def test_an_attempt_of_another_shard(self, agentbench: Agentbench) -> None:
        """R09: its records would be present twice."""
        foreign = write_run(
            Path("shards/greedy"), {task: [True, True] for task in TASKS}, run={"shard": {"index": 3, "count": 3}}
        )
        ended = agentbench("runs", "merge", *shards()[:2], str(foreign.directory), "--into", "merged")
        assert ended.code == 2
        assert "it does not belong to shard 3/3 of this run" in ended.err

    def test_an_id_that_leads_elsewhere(self, agentbench: Agentbench) -> None:
        """R09: ids of attempts become the names of directories."""
        hostile = shard_of(3, name="hostile", record=lambda record: attrs.evolve(record, attempt_id="../../outside"))
        ended = agentbench("runs", "merge", *shards()[:2], str(hostile.directory), "--into", "merged")
        assert ended.code == 2
        assert "its id is invalid" in ended.err

    def test_links_to_files_of_others(self, agentbench: Agentbench) -> None:
        """R09: evidence is never read through a link."""
        parts = shards()
        shutil.move(f"{parts[1]}/tasks", "elsewhere")
        (Path(parts[1]) / "tasks").symlink_to(Path("elsewhere").resolve())
        ended = agentbench("runs", "merge", *parts, "--into", "merged")
        assert ended.code == 2
        assert "baseline-2/tasks is a link\nRemove the link" in ended.err

    def test_every_problem_at_once(self, agentbench: Agentbench) -> None:
        whole = write_run(Path("whole"), dict.fromkeys(TASKS, True))
        parts = [shard_of(1), whole, shard_of(1, name="again"), shard_of(2, lost=1)]
        ended = agentbench("runs", "merge", *(str(part.directory) for part in parts), "--into", "merged")
        assert "3 problems must be fixed first" in ended.err
        for words in ("is not the run of a shard", "lacks 1 of its", "are both shard 1/3"):
            assert words in ended.err

    def test_a_damaged_shard(self, agentbench: Agentbench) -> None:
        parts = shards()
        path = Path(parts[1]) / "attempts.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"passed":true', b'"passed":false'))
        ended = agentbench("runs", "merge", *parts, "--into", "merged")
        assert ended.code == 2
        assert "it differs from the record in events.jsonl" in ended.err


def test_an_existing_directory_is_kept(agentbench: Agentbench) -> None:
    """Another run, or anything else, is never replaced."""
    parts = shards()
    whole = write_run(Path("whole"), dict.fromkeys(TASKS, True))
    before = content(whole.directory)
    ended = agentbench("runs", "merge", *parts, "--into", "whole")
    assert (ended.code, ended.err) == (2, "error: whole is another run\nChoose a new directory: --into DIR\n")
    assert content(whole.directory) == before
    Path("empty").mkdir()
    ended = agentbench("runs", "merge", *parts, "--into", "empty")
    assert (ended.code, ended.err) == (2, "error: empty already exists\nChoose a new directory: --into DIR\n")
    assert list(Path("empty").iterdir()) == []


def test_a_shard_that_went_on_is_another_merge(agentbench: Agentbench) -> None:
    """After an attempt was added to a shard, the result of the earlier merge is a different run."""
    parts = [str(shard_of(index, lost=index == 2).directory) for index in (1, 2, 3)]
    assert agentbench("runs", "merge", *parts, "--into", "merged", "--partial").code == 0
    shutil.rmtree(parts[1])
    shard_of(2)
    ended = agentbench("runs", "merge", *parts, "--into", "merged")
    assert (ended.code, ended.err) == (2, "error: merged is another run\nChoose a new directory: --into DIR\n")


def test_links_in_evidence_are_not_followed(agentbench: Agentbench) -> None:
    """R09: they remain links, which no reader follows out of a run."""
    parts = shards()
    Path("secret").write_text("secret")
    (attempt,) = list((Path(parts[0]) / "tasks").iterdir())[:1]
    (attempt / "link").symlink_to(Path("secret").resolve())
    Path("elsewhere").mkdir()
    Path("elsewhere/secret.txt").write_text("secret")
    shutil.rmtree(attempt / "diffs")
    (attempt / "diffs").symlink_to(Path("elsewhere").resolve())
    assert agentbench("runs", "merge", *parts, "--into", "merged").code == 0
    assert not any(
        b"secret" in path.read_bytes() for path in Path("merged").rglob("*") if not path.is_symlink() and path.is_file()
    )
    copy = Path("merged/tasks") / attempt.name
    assert copy.joinpath("link").is_symlink()
    assert copy.joinpath("diffs").is_symlink()


def test_a_partial_merge(agentbench: Agentbench) -> None:
    """Existing attempts are merged, and the run is marked as stopped, with the number of missing attempts."""
    one, _, three = shards()
    ended = agentbench("runs", "merge", one, three, "--into", "merged", "--partial")
    assert ended.code == 0
    info = run_info(Path("merged"))
    assert (info.status, info.planned) == ("stopped", 16)
    assert f"merged: 2 shards, {info.recorded} of 16 attempts: merged\n" in ended.out
    assert "run the missing attempts: agentbench run --resume merged" in ended.out
    assert f"not attempted: {16 - info.recorded} of 16" in Path("merged/report_summary.md").read_text()


def test_a_report_that_fails(agentbench: Agentbench) -> None:
    """The run is merged anyway."""
    parts = shards(run={"config": {"reporters": {"value": ["unknown"], "origin": "flag"}}})
    ended = agentbench("runs", "merge", *parts, "--into", "merged")
    assert ended.code == 0
    assert "note: no reports were written" in ended.err
    assert "unknown" in ended.err
    assert open_run(Path("merged")).status() == "completed"


def test_one_shard(agentbench: Agentbench) -> None:
    """A plan with one shard can also be merged."""
    ended = agentbench("runs", "merge", str(shard_of(1, count=1).directory), "--into", "merged")
    assert ended.out == "merged: 1 shard, 16 of 16 attempts: merged\n"


def test_more_shards_than_attempts(agentbench: Agentbench) -> None:
    """Some shards are empty and are merged like the others."""
    parts = [str(shard_of(index, count=40).directory) for index in range(1, 41)]
    assert min(run_info(Path(part)).planned for part in parts) == 0
    ended = agentbench("runs", "merge", *parts, "--into", "merged")
    assert ended.out == "merged: 40 shards, 16 of 16 attempts: merged\n"


def test_the_shard_of_run_json_is_checked() -> None:
    """An untrusted run.json cannot make its readers count forever."""
    run = shard_of(1)
    for shard in ({"index": 5, "count": 3}, {"index": 1, "count": 10**9}):
        value = json.loads((run.directory / "run.json").read_text()) | {"shard": shard}
        (run.directory / "run.json").write_text(json.dumps(value))
        (run.directory / "events.jsonl").unlink(missing_ok=True)
        with pytest.raises(InputError, match="is not a valid shard"):
            open_run(run.directory)
        with pytest.raises(InputError, match="is not a valid shard"):
            run_info(run.directory)
