"""``run --like``: repeat the plan of a run from its run.json, and report what differs."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import open_run
from agentbench_core.run.group.manifest import harness_info

WRITES = """
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl, option

    AGENTBENCH_API = 1

    @attrs.frozen(kw_only=True)
    class Options:
        word: str = option("broken", help="what it writes")
        seed: int = option(0, help="of nothing")

    @attrs.frozen
    class Writes:
        options: Options
        def solve(self, context):
            context.tools.call(ToolCall(tool="run", arguments={"command": f"echo {self.options.word} > app.txt"}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("writes", Writes, Options, summary="")
"""

IDLE = ("run", "--suite", "mini", "--agent", "idle")
OUT = Path("artifacts/runs")


def newest(out: Path = OUT) -> Path:
    """The most recent run directory."""
    return max(out.iterdir(), key=lambda path: open_run(path).manifest.run_id)


def edit(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Edit the run.json of a run, and remove its events, which would reveal the edit."""
    (run / "events.jsonl").unlink()
    plain = json.loads((run / "run.json").read_text())
    change(plain)
    (run / "run.json").write_text(json.dumps(plain))


def test_the_same_plan(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """run.json is enough, without records and events. The result is an independent run."""
    plugin("writes", WRITES)
    for name in "ab":
        make_task(name)
    planned = ("--set", "agent.word=fixed", "--set", "agent.seed=7", "--max-steps", "4", "--repeats", "2")
    agentbench("run", "--suite", "mini", "--agent", "writes", "--workers", "1", "--out", "elsewhere", *planned)
    run = newest(Path("elsewhere"))
    before = open_run(run).manifest
    for path in run.iterdir():
        if path.name in ("attempts.jsonl", "events.jsonl"):
            path.unlink()
    done = agentbench("run", "--like", str(run))
    assert done.code == 0, done.err
    assert "4 of 4 scored attempts passed" in done.out
    assert "with no recorded difference" in done.err
    assert "agent.seed=7, agent.word=fixed" in done.err
    now = open_run(newest()).manifest  # where results go here, and not where they went then
    for same in ("suite", "variant", "variant_digest", "agent", "repeats", "tasks", "plugins", "platform", "harness"):
        assert getattr(now, same) == getattr(before, same)
    values = [{key: leaf.value for key, leaf in each.config.items()} for each in (before, now)]
    assert values[1] == values[0] | {"run.out": "artifacts/runs"}
    assert now.like is not None
    assert (now.like.run_id, now.like.directory) == (before.run_id, str(run.resolve()))
    assert now.run_id != before.run_id
    assert now.group_id != before.group_id
    assert before.like is None
    assert now.like.differences == ("environment for a, b: not compared, because the earlier run recorded none",)
    assert f"the same plan as {run.resolve()}" in agentbench("runs", "show", str(newest())).out


def test_all_differences_are_reported(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """Harness, plugins, settings, tasks and platform: before the run, which is not prevented, and in its run.json."""
    site = plugin("writes", WRITES)
    make_task("a")
    make_task("b")
    agentbench("run", "--suite", "mini", "--agent", "writes")
    run = newest()

    def another_time(plain: dict[str, Any]) -> None:
        plain["harness"]["version"] = "0.0.1"
        plain["platform"]["python"] = "3.9.1"
        plain["plugins"].append({"name": "gone", "distribution": "agentbench-gone", "version": "3"})

    edit(run, another_time)
    make_task("b", description="another one since")
    (metadata,) = site.glob("*.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))
    done = agentbench("run", "--like", str(run), "--workers", "1", "--set", "agent.word=fixed")
    assert done.code == 0, done.err
    like = open_run(newest()).manifest.like
    assert like is not None
    expected = (
        "agentbench: 0.0.1 ",
        "plugin gone: agentbench-gone 3 -> absent (not used here)",
        "plugin writes: agentbench-writes 1.0 -> agentbench-writes 2.0",
        "setting agent.word: broken -> fixed",
        "setting run.workers: 2 -> 1",
        "task b: sha256:",
        f"platform python: 3.9.1 -> {platform.python_version()}",
    )
    assert len(like.differences) == len(expected)
    for text, difference in zip(expected, like.differences, strict=True):
        assert difference.startswith(text)
        assert f"\n  {difference}\n" in done.err
    assert done.err.index("with these differences:") < done.err.index("[1/2]")


def test_environments_are_compared_after_preparation(
    make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their digests and the sandbox's facts, which run.json lacks, even after a resume."""
    repo = make_task() / "repo"
    agentbench(*IDLE)
    run = newest()
    evidence = run / "tasks/one/meta/environment.json"
    plain = json.loads(evidence.read_text())
    plain["facts"] |= {"python": "3.9.1", "pip_freeze": "one==1\ntwo==1", "cache": "whatever"}
    plain["facts"]["os"] += "\n"
    evidence.write_text(json.dumps(plain))
    monkeypatch.setattr("agentbench_local.preparation.RECIPE", 2)
    away = repo.rename("away")
    first = agentbench("run", "--like", str(run))
    assert "environment for" not in first.err
    again = newest()
    away.rename(repo)
    done = agentbench("run", "--resume", str(again))
    assert done.code == 0, done.err
    manifest = open_run(again).manifest
    assert manifest.like is not None
    assert len(manifest.resumed) == 1
    digest, packages, python = manifest.like.differences
    assert digest.startswith("environment for one: digest: local sha256:")
    assert packages == "environment for one: pip_freeze: one==1, two==1 -> nothing"
    assert python.startswith(f"environment for one: python: 3.9.1 -> {platform.python_version()}")
    warned = [line for line in (again / "events.jsonl").read_text().splitlines() if '"type":"warning"' in line]
    assert len(warned) == 3
    for difference in manifest.like.differences:
        assert f"comparison with {run.resolve()}: {difference}" in done.err


def test_a_run_whose_evidence_is_gone(make_task: Any, agentbench: Any) -> None:
    """Environments are not compared and a note says so, but the run is made."""
    make_task()
    agentbench(*IDLE)
    run = newest()
    (run / "attempts.jsonl").write_text("no record\n")
    done = agentbench("run", "--like", str(run))
    assert done.code == 0
    assert "environments: not compared: " in done.err


def test_runs_that_cannot_be_repeated(make_task: Any, agentbench: Any, plugin: Any, tmp_path: Path) -> None:
    """Missing plugins and tasks and renamed tasks are errors with a remedy, and nothing is recorded."""
    plugin("writes", WRITES)
    make_task("a")
    make_task("b")
    agentbench("run", "--suite", "mini", "--agent", "writes")
    run = str(newest())
    missing = agentbench("--no-plugin", "writes", "run", "--like", run)
    assert missing.code == 2
    assert "no agent 'writes'" in missing.err
    assert "That run used plugin 'writes' of agentbench-writes 1.0, which is not enabled here." in missing.err
    spec = tmp_path / "tasks/mini/b/task.yaml"
    spec.write_text(spec.read_text().replace("id: b", "id: c"))
    renamed = agentbench("run", "--like", run)
    assert renamed.code == 2
    assert "no longer exist: b; found instead: c" in renamed.err
    spec.write_text(spec.read_text().replace("id: c", "id: b"))
    (tmp_path / "tasks").rename(tmp_path / "moved")
    gone = agentbench("run", "--like", run)
    assert gone.code == 2
    assert "cannot find the tasks" in gone.err
    assert "--tasks DIR" in gone.err
    assert len(list(OUT.iterdir())) == 1
    assert agentbench("run", "--like", run, "--tasks", "moved").code == 0


def test_group_is_repeated_as_a_group(make_task: Any, agentbench: Any) -> None:
    """Variants of one command become a group again; runs of different commands are refused."""
    make_task()
    agentbench("run", "--suite", "mini", "--variant", "scripted", "--variant", "idle")
    group = [flag for run in sorted(OUT.iterdir()) for flag in ("--like", str(run))]
    assert agentbench("run", *group, "--out", "again").code == 0
    manifests = {open_run(run).manifest.variant: open_run(run).manifest for run in Path("again").iterdir()}
    assert set(manifests) == {"scripted", "idle"}
    assert len({manifest.group_id for manifest in manifests.values()}) == 1
    for variant, manifest in manifests.items():
        assert manifest.like is not None
        assert open_run(Path(manifest.like.directory)).manifest.variant == variant
    other = next(Path("again").iterdir())
    assert "do not have the same plan" in agentbench("run", *group[:2], "--like", str(other)).err
    assert "contains the same run twice" in agentbench("run", *group[:2], *group[:2]).err


def test_other_plans_are_refused(make_task: Any, agentbench: Any) -> None:
    """Flags that would change the plan."""
    make_task()
    agentbench(*IDLE)
    run = str(newest())
    for flags in (
        ("--agent", "scripted"),
        ("--sandbox", "local"),
        ("--suite", "mini"),
        ("--repeats", "2"),
        ("--variant", "idle"),
        ("--max-steps", "1"),
        ("--temperature", "0"),
        ("--task", "one"),
        ("--resume", run),
        ("--allow-changes",),
    ):
        refused = agentbench("run", "--like", run, *flags)
        assert refused.code == 2
        assert re.search("--like|valid only with --resume", refused.err)
        assert flags[0] in refused.err
    assert len(list(OUT.iterdir())) == 1


def _twice(plain: dict[str, Any]) -> None:
    plain["tasks"] *= 2


def _scalar(plain: dict[str, Any]) -> None:
    plain["config"] = {"agent": {"value": "idle", "origin": ""}, "agent.name": {"value": "idle", "origin": ""}}


def _evidence(plain: dict[str, Any]) -> None:
    plain["tasks"][0]["path"] = str(next(OUT.iterdir()) / "tasks/one")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_twice, "lists a task twice"),
        (_scalar, "run.json"),
        (_evidence, "is inside the run directory"),
        (lambda plain: plain.update(suite="../../mini"), "belongs to suite 'mini', which is not the suite of that run"),
        (lambda plain: plain.update(tasks=[]), "cannot find the tasks"),
        (lambda plain: plain.update(schema=1), "schema version 1"),
        (lambda plain: plain.update(like={"run_id": 1}), "run.json: like"),
        (lambda plain: plain["config"].update({"agent..x": {"value": 1, "origin": ""}}), "unknown field"),
        (lambda plain: plain["config"].update({"run.repeats": {"value": 0, "origin": ""}}), "run.repeats: 0 is below"),
        (lambda plain: plain["config"].update({"tools": {"value": [[]], "origin": ""}}), "tools[0]: expected text"),
        (lambda plain: plain["config"].update({"agent.name": {"value": {}, "origin": ""}}), "agent"),
        (
            lambda plain: plain["config"].update({"limits.max_steps": {"value": "[redacted X]", "origin": ""}}),
            "limits.max_steps: expected",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_run_json_is_refused(make_task: Any, agentbench: Any, change: Any, said: str) -> None:
    """A hostile run.json gives one error without traceback, and nothing is recorded."""
    make_task(oracle={"patch": ""})
    agentbench(*IDLE, "--set", "reporters=[]")
    run = newest()
    edit(run, change)
    refused = agentbench("run", "--like", str(run))
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert "internal error" not in refused.err
    assert list(OUT.iterdir()) == [run]


def test_names_and_paths_in_a_third_party_run_json_are_not_trusted(
    make_task: Any, agentbench: Any, tmp_path: Path
) -> None:
    """A third-party run.json does not determine the output directory, and control characters are escaped.

    A setting whose origin is falsely "default" is listed like any other.
    """
    make_task()
    agentbench(*IDLE)
    run = newest()

    def strange(plain: dict[str, Any]) -> None:
        plain["variant"] = "../../\x1b[31m\ud800"
        plain["run_id"] = "\x1b]0;title\x07"
        plain["plugins"] = [{"name": "\x1b[2J", "distribution": "x" * 10_000, "version": "\u202e"}]
        plain["config"]["run.out"] = {"value": str(tmp_path / "theirs"), "origin": "default"}
        plain["config"]["sandbox.pass_environment"] = {"value": ["HOME"], "origin": "default"}

    edit(run, strange)
    done = agentbench("run", "--like", str(run))
    assert done.code == 0, done.err
    assert len(list(OUT.iterdir())) == 2
    assert not (tmp_path / "theirs").exists()
    assert all(each not in done.err + done.out for each in ("\x1b", "\x07", "\u202e", "x" * 300))
    assert "sandbox.pass_environment=['HOME']" in done.err


def test_manifest_names_the_harness_and_presets(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """A checkout has a commit and whether it was modified; presets have a version, even if unused."""
    make_task()
    Path("configs").mkdir()
    for presets in ("none", "7"):
        agentbench("run", "--suite", "mini", "--agent", "idle", "--out", presets)
        (manifest,) = (json.loads(path.read_text()) for path in Path(presets).glob("*/run.json"))
        assert manifest["presets"] == presets
        assert manifest["harness"]["source"] == "checkout"
        Path("configs/models.yaml").write_text("version: '7'\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@localhost", "-C", str(tmp_path / "home")]
    (tmp_path / "home/agentbench_core").mkdir(parents=True)
    (tmp_path / "home/agentbench_core/a.py").write_text("a = 1\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    clean = harness_info(tmp_path / "home")
    assert (len(clean.git_sha), clean.dirty) == (40, False)
    (tmp_path / "home/notes.txt").write_text("no part of it")
    assert harness_info(tmp_path / "home") == clean
    (tmp_path / "home/agentbench_core/a.py").write_text("a = 2\n")
    dirty = harness_info(tmp_path / "home")
    assert (dirty.git_sha, dirty.dirty) == (clean.git_sha, True)
    assert dirty.shown == f"{clean.shown} with uncommitted changes"
