"""Independent solutions of the bundled tasks pass: verdicts do not depend on how a correct solution is written.

They were written without looking at the reference solutions; see ``tests/suites/solutions/``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agentbench_core
from agentbench_core.inputs.suite import read_suite

ROOT = Path(agentbench_core.__file__).parent.parent
SOLUTIONS = Path(__file__).parent / "solutions"

SOLVER = """
    import json, pathlib, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    class Solver:
        def solve(self, context):
            known = json.loads(pathlib.Path("solutions.json").read_text())
            (patch,) = [each for told, each in known if context.instruction.startswith(told)]
            result = context.tools.call(ToolCall(tool="apply_patch", arguments={"unified_diff": patch}))
            return AgentResult(message=result.error_message or "")

    @attrs.frozen
    class Options:
        pass

    @hookimpl
    def agentbench_register_agents(register):
        register("solver", lambda options: Solver(), Options, summary="applies another solution")
"""


@pytest.mark.release
@pytest.mark.parametrize(
    "suite",
    [
        "custom-dev",
        "custom-heldout",
        pytest.param("custom-setup", marks=pytest.mark.index),
    ],
)
def test_other_solutions_pass(suite: str, agentbench: Any, plugin: Any, records: Any) -> None:
    """Each solution passes without a label.

    Attempts are only scored if the unchanged program fails (the baseline) and the reference solution passes (the
    calibration), so this checks both for every bundled task.
    """
    tasks = read_suite(ROOT / "tasks", suite)
    plugin("solver", SOLVER)
    solutions = [(task.spec.description.strip(), (SOLUTIONS / f"{task.spec.id}.patch").read_text()) for task in tasks]
    Path("solutions.json").write_text(json.dumps(solutions))
    ended = agentbench(
        *("run", "--tasks", str(ROOT / "tasks"), "--suite", suite, "--agent", "solver", "--workers", "2"),
    )
    assert ended.code == 0, ended.err
    results = {record["task_id"]: record for record in records()}
    assert sorted(results) == [task.spec.id for task in tasks]
    assert [name for name, record in results.items() if not record["result"]["passed"]] == []
    assert [(name, record["labels"]) for name, record in results.items() if record["labels"]] == []


def test_every_task_has_an_independent_solution() -> None:
    """Every bundled task has a solution, and there are no others."""
    tasks = {task.parent.name for task in (ROOT / "tasks").glob("*/*/task.yaml")}
    assert {path.stem for path in SOLUTIONS.glob("*.patch")} == tasks
