"""Integrity labels in records: separate from the score, with evidence, and summarized by the worst one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from agentbench_core import AttemptRecord, Integrity, Label, dump, load, open_run
from agentbench_core.values.record import worst
from agentbench_integrity.audit.auditor import IntegrityAuditor
from agentbench_testing.doubles.run_directory import write_run

CANARY = "6f1d2c3b-4a59-4e68-9d7c-0b1a2c3d4e5f"
FIX = "echo fixed > app.txt"
DOER = """
    import json, pathlib, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Doer:
        def solve(self, context):
            steps = json.loads(pathlib.Path("steps.json").read_text())
            for line in steps[context.instruction.split()[0]]:
                context.tools.call(ToolCall(tool="run", arguments={"command": line}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("doer", lambda options: Doer(), Options, summary="does what it is told")
"""
ATTEMPTS = {
    "honest": ([FIX, "git log", "git diff"], {}),
    "history": (["git log --all", FIX, "git reflog"], {"leak_suspected": "step 1: git log --all, step 3: git reflog"}),
    "release": (["pip download minitool", FIX], {"leak_suspected": "step 1: pip download minitool"}),
    "path": (
        ["cat checks/test_app.py", FIX],
        {"leak_suspected": "step 1: refers to checks/test_app.py, which is not public"},
    ),
    "canary": ([f"echo {CANARY}", FIX], {"leak_suspected": "the canary of checks/test_app.py"}),
    "exit": (
        ["printf 'import os\\nos._exit(0)\\n' > app.py", FIX],
        {"tamper_suspected": "app.py:2: terminates the process"},
    ),
    "both": (
        ["printf 'import atexit\\n' > app.py; mkdir tests; touch tests/x", "git reflog", FIX],
        {
            "touched_protected": "tests/x",
            "tamper_suspected": "app.py:1: runs code when the process exits",
            "leak_suspected": "step 2: git reflog",
        },
    ),
    "nothing": (["git fsck"], {"leak_suspected": "step 1: git fsck"}),
}


@pytest.fixture
def tasks(make_task: Any) -> None:
    """One task per behaviour, which is its description."""
    Path("steps.json").write_text(json.dumps({name: steps for name, (steps, _) in ATTEMPTS.items()}))
    for name in ATTEMPTS:
        make_task(
            name,
            description=name,
            files={"app.txt": "broken\n", "pyproject.toml": '[project]\nname = "MiniTool"\n'},
            hidden={"test_app.py": f"# agentbench-canary: {CANARY}\n"},
        )


def labels(record: dict[str, Any]) -> dict[str, str]:
    return {label["name"]: label["evidence"] for label in record["labels"]}


@pytest.mark.long
def test_suspicions_are_labels_and_change_no_score(tasks: None, plugin: Any, agentbench: Any, records: Any) -> None:
    """C08, C09, C26: each label has evidence; honest attempts have none of them."""
    plugin("doer", DOER)
    assert agentbench("run", "--suite", "mini", "--agent", "doer", "--workers", "2").code == 0
    for record in records():
        name = record["task_id"]
        expected = ATTEMPTS[name][1]
        assert record["result"]["passed"] == (name != "nothing"), name
        found = labels(record)
        found.pop("weak_verdict", None)  # added by the scorer
        assert found.keys() == expected.keys(), name
        assert all(words in found[label] for label, words in expected.items()), found
        assert record["integrity"] == worst(labels(record)), name
    (directory,) = (path.parent for path in Path("artifacts/runs").glob("*/run.json"))
    run = open_run(directory)
    assert {row.task_id: row.integrity for row in run.rows()} == {r.task_id: r.integrity for r in run.records()}
    assert {r.integrity for r in run.records()} >= {Integrity.LEAK_SUSPECTED, Integrity.TAMPER_SUSPECTED}


def test_public_content_is_not_a_leak(make_task: Any, plugin: Any, agentbench: Any, records: Any) -> None:
    """Hidden tests may overlay public ones; reading those, or naming them in code, is not suspicious."""
    tests = "".join(f"assert clamp(value_{n}, low_{n}, high_{n}) == wanted[{n}], 'case {n}'\n" for n in range(8))
    public = f"# agentbench-canary: {CANARY}\n{tests}"
    named = "printf \"RUN = 'checks/test_app.py'\\n\" > run.py"
    Path("steps.json").write_text(json.dumps({"honest": ["cat checks/test_app.py checks/*", named, FIX]}))
    make_task(
        description="honest",
        files={"app.txt": "broken\n", "checks/test_app.py": public},
        hidden={"test_app.py": f"{public}# one more\n"},
    )
    plugin("doer", DOER)
    assert agentbench("run", "--suite", "mini", "--agent", "doer").code == 0
    (record,) = records()
    assert record["result"]["passed"]
    assert labels(record).keys() == {"weak_verdict"}


def test_reference_solution_is_not_a_leak(tasks: None, agentbench: Any, records: Any, tmp_path: Path) -> None:
    """The scripted agent is given the solution, which contains a canary here."""
    for patch in tmp_path.glob("tasks/mini/*/solution.patch"):
        patch.write_text(patch.read_text().replace("+1 @@", f"+1 @@ agentbench-canary: {CANARY}"))
    assert agentbench("run", "--suite", "mini", "--agent", "scripted", "--task", "honest", "--task", "path").code == 0
    assert len(records()) == 2
    for record in records():
        assert record["result"]["passed"]
        assert labels(record).keys() <= {"oracle", "weak_verdict"}


@given(st.lists(st.sampled_from([*(word.value for word in Integrity), "oom", "oracle", "", "CLEAN"])))
def test_worst_integrity_value_wins(names: list[str]) -> None:
    """This holds in any order and with other labels present."""
    order = [word.value for word in Integrity]
    known = [order.index(name) for name in names if name in order]
    assert worst(names) == order[max(known, default=0)]
    assert worst([*names, "tamper_confirmed"]) is Integrity.TAMPER_CONFIRMED


def test_record_without_integrity_is_clean(tmp_path: Path) -> None:
    """It is read as clean, also in rows; an unknown value is an error."""
    run = write_run(tmp_path / "run", {"a": True, "b": True}, record=_suspected)
    attempts = run.directory / "attempts.jsonl"
    assert [(row.task_id, row.integrity) for row in run.rows()] == [("a", "leak_suspected"), ("b", "clean")]
    lines = [json.loads(line) for line in attempts.read_text().splitlines()]
    for line in lines:
        assert load(line, AttemptRecord, where="here") == load(
            dump(load(line, AttemptRecord, where="")), AttemptRecord, where=""
        )
        del line["integrity"]
    (run.directory / "events.jsonl").unlink()
    attempts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [row.integrity for row in open_run(run.directory).rows()] == ["clean", "clean"]
    assert [record.integrity for record in open_run(run.directory).records()] == [Integrity.CLEAN] * 2
    attempts.write_text(json.dumps(lines[0] | {"integrity": "spotless"}) + "\n")
    with pytest.raises(Exception, match="integrity"):
        list(open_run(run.directory).records())


def _suspected(record: AttemptRecord) -> AttemptRecord:
    if record.task_id != "a":
        return record
    label = Label(name="leak_suspected", evidence="step 1: git reflog")
    return attrs.evolve(record, labels=(label,), integrity=Integrity.LEAK_SUSPECTED)


def test_attempt_that_cannot_be_audited_is_scored(
    make_task: Any, agentbench: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an agent could avoid being scored by breaking the auditor."""

    def break_down(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(IntegrityAuditor, "audit_attempt", break_down)
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "scripted")
    (record,) = records()
    assert (record["scored"], record["result"]["passed"]) == (True, True)
    assert record["integrity"] == "tamper_suspected"
    assert "failed to audit the attempt: RecursionError: too deep" in record["labels"][-1]["evidence"]
