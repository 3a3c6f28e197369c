"""pytest under checks.

Tests run in the process of the code that they test, and nothing closes that boundary. So a session carries its own
evidence: a test that must fail (the honest exit code is then 1), one that must pass, and twins of hidden tests, which
nobody passes who passes the tests themselves. Which is which, the sandbox is not told. A verdict of "passed" needs all
of it; results that say "passed" while the evidence says otherwise are forged.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import attrs

from agentbench_core import Output, Score, ScoringContext, Tree
from agentbench_core.builtin.tests_scorer.additions import add
from agentbench_core.builtin.tests_scorer.command import PytestCommand
from agentbench_core.builtin.tests_scorer.judging import Session, judge
from agentbench_core.builtin.tests_scorer.results import read_result, results
from agentbench_core.builtin.tests_scorer.settings import settings

_RUNNER = Path(__file__).with_name("inside") / "runner.py"
_RESULTS = "outcomes.jsonl"
_OWN_PYTHON = """\
command -v pytest >/dev/null || { echo "pytest: not found" >&2; exit 127; }
beside="$(dirname "$(command -v pytest)")"
for python in "$beside/python" "$beside/python3" python python3; do command -v "$python" >/dev/null && break; done
"""


def score(context: ScoringContext, command: PytestCommand) -> Score:
    """Run the tests once, with the checks beside them, and judge both."""
    workspace = context.fork()
    validation = context.validation
    with Tree(workspace) as tree, Tree(context.environment.workspace) as pristine:
        added = add(tree, validation, context.hidden, command.arguments, on_trial=context.each_test)
        arguments = [*added.arguments(command.arguments), *settings(command.arguments, tree, pristine)]
    inputs, taken = context.scratch("inputs"), context.scratch("results")
    plan = {
        "arguments": arguments,
        "canaries": added.canaries,
        "path": command.path,
        "variables": dict(command.variables),
    }
    (inputs / "plan.json").write_text(json.dumps(plan))
    result = context.environment.run_once(
        shell(command),
        workspace,
        read_only=not validation.writable,
        inputs={"plan.json": inputs / "plan.json", "runner.py": _RUNNER},
        results=taken,
        network=context.network,
        deadline=context.deadline,
    )
    context.save_output(attrs.evolve(result, stdout=_with(result.stdout, added.note())))
    if result.timed_out:
        context.deadline.check()
        return Score(passed=False, exit_code=None, timed_out=True, explanation="the tests ran out of time")
    written = read_result(taken / _RESULTS)
    session = Session(added=added, exit_code=result.exit_code, results=None if written is None else results(written))
    return judge(session, validation, with_twins=context.each_test)


def _with(output: Output, note: str) -> Output:
    return attrs.evolve(output, tail=output.tail + note.encode())


def shell(command: PytestCommand) -> str:
    """What starts the runner in the place of pytest: the same Python, but nothing of the workspace before pytest."""
    early = {name: value for name, value in command.variables.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    variables = [f"{name}={value}" for name, value in early.items()]
    words = shlex.join(["env", *variables, "PYTHONSAFEPATH=1"])
    python = shlex.quote(command.python) if command.python else '"$python"'
    flags = shlex.join([*command.flags, "-s", "-B"])
    return f'{"" if command.python else _OWN_PYTHON}exec {words} {python} {flags} "$AGENTBENCH_INPUTS/runner.py"'
