"""Bundled tasks: the reference solutions pass, the idle agent does not, and agents see neither solution nor tests."""

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
"""Tasks for properties that all share; test_solutions, `make validate` and `make attack` run every task."""

ISOLATING = [each.name for each in App(frozenset()).registry.all("sandbox") if "isolated" in each.capabilities]
"""In these sandboxes the spy searches the whole file system."""

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
    """What agents must not see: canaries of hidden files, and a line of each reference solution that is not public."""
    found = []
    for task in read_suite(ROOT / "tasks", suite):
        public = "".join(path.read_text() for path in (task.directory / "repo").rglob("*.py"))
        canaries = [re.findall(r"agentbench-canary: (\S+)", file.data.decode()) for file in task.hidden]
        assert all(canaries), f"a hidden file of {task.spec.id} has no canary"
        patch = (task.directory / task.spec.oracle.patch).read_text()
        added = [line[1:].strip() for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
        own = [line for line in added if len(line) > 12 and line not in public and "'" not in line]
        assert own, f"the solution of {task.spec.id} adds no distinct line"
        found += [*(canary for each in canaries for canary in each), max(own, key=len)]
    return found


THERE = [pytest.param(name, id=name, marks=pytest.mark.docker) for name in ISOLATING]


@pytest.mark.long
@pytest.mark.parametrize("sandbox", THERE)  # `make demo` and tests/packaging run it in `local`
@pytest.mark.parametrize("suite", ["custom-dev"])
def test_a_suite_with_both_controls_and_a_spy(bundled: Any, suite: str, sandbox: str) -> None:
    """Every attempt is scored; the spy finds public text but nothing hidden.

    The spy's record is labelled as a suspected leak, because its messages name canaries.
    """
    bundled(suite, sandbox)


@pytest.mark.release
def test_heldout_suite(bundled: Any) -> None:
    """As above, for the held-out suite."""
    bundled("custom-heldout", "local")


@pytest.mark.release
@pytest.mark.index
@pytest.mark.parametrize("sandbox", THERE)
def test_suite_with_a_setup(bundled: Any, sandbox: str) -> None:
    """As above, for the suite with setup commands, which have network access while agents do not."""
    bundled("custom-setup", sandbox)


@pytest.fixture
def bundled(agentbench: Any, records: Any, plugin: Any) -> Callable[[str, str], None]:
    """Run a suite with both controls and a spy, and check the results."""

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


@pytest.mark.release
def test_suite_is_valid(agentbench: Any) -> None:
    """A short version of ``make validate``, which checks all tasks three times each."""
    chosen = [part for glob in SAMPLE["custom-dev"] for part in ("--task", glob)]
    flags = ("--tasks", str(ROOT / "tasks"), *chosen, "--times", "1", "--strict")
    done = agentbench("validate-tasks", "--suite", "custom-dev", *flags)
    assert done.code == 0, done.out


def test_run_writes_no_files_to_the_suite(agentbench: Any) -> None:
    """A run writes no files to the suite."""

    def found() -> list[Path]:  # except expectations, which other tests may write meanwhile
        return sorted(path for path in ROOT.glob("tasks/**/*") if "expectations" not in path.parts)

    before = found()
    agentbench("run", "--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--agent", "idle", "--task", "packlist*")
    assert found() == before
