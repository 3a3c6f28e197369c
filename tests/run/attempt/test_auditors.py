"""Auditors: all installed ones audit attempts and tasks by default, run.json lists them, and scores do not change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

AUDITOR = """
    from agentbench_core import AgentBenchError, Label, NoOptions, TaskProblem, hookimpl

    class Watchful:
        def audit_attempt(self, attempt):
            (change,) = attempt.changes
            ((_, before, after),) = attempt.contents(attempt.changes)
            files = sorted(path.name for path in attempt.directory.iterdir())
            shown = f"{change.path} {before} {after} {attempt.knows_solution} {sorted(attempt.hidden_files)}"
            return [Label(name="seen", evidence=f"{shown} {'diffs' in files} {attempt.effects['run']}")]

        def audit_task(self, task):
            with task.open_sandbox() as sandbox:
                said = sandbox.exec("cat app.txt", deadline=task.deadline).stdout.text.strip()
            task.note(f"looked at {task.task_id}: {said}")
            return [TaskProblem(rule="dull", reason=f"{len(task.solved)} change", remedy="Make it harder.")]

    @hookimpl
    def agentbench_register_auditors(register):
        register("watchful", lambda options: Watchful(), NoOptions, summary="looks")
"""


def test_an_installed_auditor_labels_every_attempt(make_task: Any, agentbench: Any, plugin: Any, records: Any) -> None:
    """It is used along with this project's own, and run.json lists both."""
    plugin("watch", AUDITOR)
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    (record,) = records()
    (label,) = [label for label in record["labels"] if label["name"] == "seen"]
    assert label["evidence"] == "app.txt b'broken\\n' b'fixed\\n' True [] True runs"
    assert (record["result"]["passed"], record["integrity"]) == (True, "weak_verdict")  # label of the scorer
    (manifest,) = Path("artifacts/runs").glob("*/run.json")
    settings = json.loads(manifest.read_text())["config"]
    assert settings["auditors"] == {"value": ["integrity", "watchful"], "origin": "installed"}


def test_run_like_another_uses_its_auditors(make_task: Any, agentbench: Any, plugin: Any, records: Any) -> None:
    """An auditor installed since then is not used."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    (run,) = Path("artifacts/runs").iterdir()
    plugin("watch", AUDITOR)
    done = agentbench("run", "--like", str(run))
    assert done.code == 0, done.err
    assert len(list(Path("artifacts/runs").iterdir())) == 2
    manifests = [json.loads(path.read_text()) for path in Path("artifacts/runs").glob("*/run.json")]
    assert [each["config"]["auditors"]["value"] for each in manifests] == [["integrity"]] * 2


def test_run_can_select_auditors(make_task: Any, agentbench: Any, plugin: Any, records: Any) -> None:
    plugin("watch", AUDITOR)
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted", "--set", "auditors=[]")
    assert "seen" not in json.dumps(records())
    done = agentbench("run", "--suite", "mini", "--agent", "idle", "--set", "auditors=[watchfull]")
    assert (done.code, "did you mean 'watchful'?" in done.err) == (2, True)


def test_an_auditor_that_breaks_is_named_and_the_attempt_scored(
    make_task: Any, agentbench: Any, plugin: Any, records: Any
) -> None:
    """A label has the error."""
    plugin("watch", AUDITOR.replace("(change,) =", "raise KeyError('no luck')\n            (change,) ="))
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    (record,) = records()
    assert record["result"]["passed"]
    assert record["labels"][-1] == {
        "name": "tamper_suspected",
        "evidence": "auditor watchful failed to audit the attempt: KeyError: 'no luck'",
    }


@pytest.mark.parametrize("auditors", ["[watchful]", "[]"])
def test_rules_of_an_auditor(make_task: Any, agentbench: Any, plugin: Any, auditors: str) -> None:
    """Problems of a task are reported with remedies; without auditors, a note says what was not checked."""
    plugin("watch", AUDITOR)
    make_task()
    flags = ("--suite", "mini", "--times", "2", "--set", f"auditors={auditors}")
    done = agentbench("validate-tasks", *flags)
    if auditors == "[]":
        assert done.code == 0
        assert "no auditor is in use, so it is unknown whether agents can access the solution" in done.out
    else:
        assert done.code == 1
        assert "dull: 1 change" in done.err + done.out
        assert "Make it harder." in done.out
        assert done.err.count("looked at one: broken") == 1
