"""Tasks that ship: the reference solutions pass them, doing nothing passes none, no agent sees either."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentbench_core
from agentbench_core import open_run
from agentbench_core.cli.app import App
from agentbench_core.inputs.suite import read_suite

ROOT = Path(agentbench_core.__file__).parent.parent
SAMPLE = {
    "custom-dev": ("packlist-*",),
    "custom-heldout": ("shelfmark-*",),
    "custom-setup": ("quayplan-*",),
}
"""For what every task shows alike: test_solutions runs them all, as do `make validate` and `make attack`."""

ISOLATING = [each.name for each in App(frozenset()).registry.all("sandbox") if "isolated" in each.capabilities]
"""In these the spy searches the whole file system."""

SPY = """
    import json, pathlib, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Spy:
        def solve(self, context):
            wanted = json.loads(pathlib.Path("wanted.json").read_text())
            told = context.instruction + context.failure_output
            seen = [text for text in wanted["secret"] if text in told]
            for kind in ("secret", "public"):
                patterns = "".join(f" -e '{text}'" for text in wanted[kind])
                command = f"env | grep -oF{patterns}; grep -rohaF{patterns} {wanted['places']} | sort -u"
                found = context.tools.call(ToolCall(tool="run", arguments={"command": command}))
                seen += found.fields["stdout"].split("\\n")
            network = context.tools.call(ToolCall(tool="run", arguments={"command": "ls /sys/class/net"}))
            network = json.dumps(sorted(network.fields["stdout"].split()))
            return AgentResult(message=f"seen: {json.dumps([text for text in seen if text])}; network: {network}")

    @hookimpl
    def agentbench_register_agents(register):
        register("spy", lambda options: Spy(), Options, summary="looks for what it must not see")
"""


def secrets_of(suite: str) -> list[str]:
    """What no agent may see: canaries of hidden files, and a line of each reference solution that is nowhere else."""
    found = []
    for task in read_suite(ROOT / "tasks", suite):
        public = "".join(path.read_text() for path in (task.directory / "repo").rglob("*.py"))
        canaries = [re.findall(r"agentbench-canary: (\S+)", file.data.decode()) for file in task.hidden]
        assert all(canaries), f"every hidden file of {task.spec.id} has a canary"
        patch = (task.directory / task.spec.oracle.patch).read_text()
        added = [line[1:].strip() for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
        own = [line for line in added if len(line) > 12 and line not in public and "'" not in line]
        assert own, f"the solution of {task.spec.id} adds a line of its own"
        found += [*(canary for each in canaries for canary in each), max(own, key=len)]
    return found


THERE = [pytest.param(name, id=name, marks=pytest.mark.docker) for name in ISOLATING]


@pytest.mark.parametrize("sandbox", THERE)  # in `local` it is what `make demo` runs, and tests/packaging
@pytest.mark.parametrize("suite", ["custom-dev"])
def test_a_suite_with_both_controls_and_a_spy(bundled: Any, suite: str, sandbox: str) -> None:
    """Every attempt is scored, with no label but the oracle's; the spy finds public text, and no hidden one.

    It names canaries, which nobody should know: that is a leak.
    """
    bundled(suite, sandbox)


def test_the_suite_that_is_held_out(bundled: Any) -> None:
    """The same."""
    bundled("custom-heldout", "local")


@pytest.mark.index
@pytest.mark.parametrize("sandbox", THERE)
def test_the_suite_with_a_set_up(bundled: Any, sandbox: str) -> None:
    """The same, where set-up has network and no agent has."""
    bundled("custom-setup", sandbox)


@pytest.fixture
def bundled(agentbench: Any, records: Any, plugin: Any) -> Callable[[str, str], None]:
    """Runs a suite with both controls and a spy, and looks at what came of it."""

    def run(suite: str, sandbox: str) -> None:
        plugin("spy", SPY)
        isolated = sandbox in ISOLATING
        places = "--exclude-dir=proc --exclude-dir=sys /" if isolated else '. "$HOME" "${TMPDIR:-.}"'
        wanted = {"secret": secrets_of(suite), "public": ["requires-python"], "places": places}
        Path("wanted.json").write_text(json.dumps(wanted))
        Path("configs/variants").mkdir(parents=True)
        Path("configs/variants/spy.yaml").write_text("agent: spy\n")
        variants = [part for name in ("scripted", "idle", "spy") for part in ("--variant", name)]
        bundle = os.environ.get("SSL_CERT_FILE", "") if isolated else ""
        certificates = ["--set", f"sandbox.ca_bundle={bundle}"] if bundle else []
        chosen = [part for glob in SAMPLE[suite] for part in ("--task", glob)]
        flags = ("--tasks", str(ROOT / "tasks"), "--sandbox", sandbox, "--workers", "3", *chosen, *certificates)
        done = agentbench("run", "--suite", suite, *flags, *variants)
        assert done.code == 0, done.err
        number = len(SAMPLE[suite])
        assert f"variant scripted: {number} of {number} scored attempts passed (100%)" in done.out
        assert f"variant idle: 0 of {number} scored attempts passed (0%)" in done.out
        assert all(record["scored"] for record in records())
        for variant, expected in (("scripted", {"oracle"}), ("idle", set()), ("spy", {"leak_suspected"})):
            assert {label["name"] for record in records(variant) for label in record["labels"]} == expected
        assert {record["integrity"] for record in records("spy")} == {"leak_suspected"}
        (directory,) = Path("artifacts/runs").glob("*__spy")
        network = 'network: ["lo"]' if isolated else "network: "
        for attempt, said in open_run(directory).explanations().items():
            assert said.startswith(f'seen: ["requires-python"]; {network}'), (attempt, said)

    return run


def test_a_suite_is_fair(agentbench: Any) -> None:
    """As ``make validate`` checks all of them, three times each."""
    chosen = [part for glob in SAMPLE["custom-dev"] for part in ("--task", glob)]
    flags = ("--tasks", str(ROOT / "tasks"), *chosen, "--times", "1", "--strict")
    done = agentbench("validate-tasks", "--suite", "custom-dev", *flags)
    assert done.code == 0, done.out


def test_the_tasks_leave_no_trace(agentbench: Any) -> None:
    """A run writes nothing into the suite: the pinned commits still fit."""

    def found() -> list[Path]:  # but for expectations, which other tests may be writing just now
        return sorted(path for path in ROOT.glob("tasks/**/*") if "expectations" not in path.parts)

    before = found()
    agentbench("run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--agent", "idle", "--task", "packlist*")
    assert found() == before
