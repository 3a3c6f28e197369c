"""``executor certs`` and ``worker doctor``, as typed by users."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest

import agentbench_core
from agentbench_testing.fixtures import RunAgentbench
from agentbench_workers.commands import executor, worker
from agentbench_workers.node import usable_cpus, usable_memory

README = Path(__file__).parent.parent / "README.md"
HEAD = ("executor", "certs", "certs", "--host", "head.example", "--host", "10.0.0.1")

PLUGIN = """
import attrs
from agentbench_core import UnavailableError, hookimpl, option

@attrs.frozen
class Options:
    version: str = option("1", help="version")

class Provider:
    def __init__(self, options):
        pass
    def preflight(self, specs):
        raise UnavailableError("there is no moon", remedy="Wait.")
    def prepare(self, *arguments, **more):
        raise NotImplementedError
    def close(self):
        pass

class Walker:
    def __init__(self, options):
        self.options = options
    @property
    def identity(self):
        if self.options.version == "2":
            raise UnavailableError("walker 2 is not installed", remedy="Run: install walker")
        return {"program": "walker " + self.options.version, "digest": "sha256:0"}
    def solve(self, context):
        raise NotImplementedError

@hookimpl
def agentbench_register_sandboxes(register):
    register("moon", Provider, Options, summary="far away")

@hookimpl
def agentbench_register_agents(register):
    register("walker", Walker, Options, summary="a program", capabilities={"needs_sandbox"})

@hookimpl
def agentbench_register_variants(register):
    register("walker-2", {"agent": {"name": "walker", "version": "2"}}, summary="the next one")
    register("idle-2", {"agent": "idle"}, summary="not a program")
"""


@pytest.fixture
def moon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin with a sandbox that cannot be used, and with a program."""
    site = tmp_path / "site"
    metadata = site / "moon-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: moon\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[agentbench]\nmoon = moon_of_tests\n")
    (site / "moon_of_tests.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(site))


def test_certs_prints_which_machine_needs_which_files(agentbench: Any, tmp_path: Path) -> None:
    """No key is printed, and the authority's key is for no machine."""
    done = agentbench(*HEAD, "--workers", "2", "--days", "3")
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    assert [[*row[:2], *row[3:]] for row in rows[1:4]] == [
        ["coordinator", "new", "ca.pem", "coordinator.pem", "coordinator.key"],
        ["worker-1", "new", "ca.pem", "worker-1.pem", "worker-1.key"],
        ["worker-2", "new", "ca.pem", "worker-2.pem", "worker-2.key"],
    ]
    assert "Keep certs/ca.key offline" in done.out
    assert "PRIVATE" not in done.out
    secrets = [line for path in (tmp_path / "certs").glob("*.key") for line in path.read_text().splitlines()[1:-1]]
    assert len(secrets) > 8
    assert [line for line in secrets if line in done.out] == []


def test_certs_adds_workers(agentbench: Any) -> None:
    """Existing certificates are kept, and shown as kept."""
    agentbench(*HEAD)
    done = agentbench(*HEAD, "--workers", "2")
    assert [line.split()[:2] for line in done.out.splitlines()[1:4]] == [
        ["coordinator", "kept"],
        ["worker-1", "kept"],
        ["worker-2", "new"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("certs",), "Missing option '--host'"),
        (("--host", "a.example"), "Missing argument 'DIR'"),
        (("certs", "--host", "a.example:80"), "'a.example:80' is neither a host name nor an IP address"),
        (
            ("certs", "--host", "a.example", "--workers", "0"),
            "workers must be between 1 and 1000, not 0\nPass a valid number",
        ),
        (("certs", "--host", "a.example", "--days", "x"), "'x' is not a valid integer"),
    ],
)
def test_certs_with_wrong_arguments(agentbench: Any, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, and nothing is created."""
    done = agentbench("executor", "certs", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "certs").exists()


def test_doctor_shows_this_machine(agentbench: Any) -> None:
    """Versions, CPUs, memory, disk, the sandbox and the last line."""
    done = agentbench("worker", "doctor", "--sandbox", "local")
    assert (done.code, done.err) == (0, "")
    rows = dict(re.findall(r"^ok +(\S+(?: local)?) +(\S.*)$", done.out, re.MULTILINE))
    assert rows["harness"].startswith(agentbench_core.__version__)
    assert f"agentbench-core {agentbench_core.__version__}, " in rows["plugins"]
    assert float(rows["cpus"]) <= len(os.sched_getaffinity(0))
    assert rows["sandbox local"] == "works, but is not isolated"
    assert f"free in {tempfile.gettempdir()}" in rows["disk"]
    assert {"system", "memory", "python"} <= set(rows)
    assert done.out.endswith("\nusable sandboxes: local\n")


def test_doctor_as_json(agentbench: Any) -> None:
    """Numbers in bytes, and all plugins with their versions."""
    done = agentbench("worker", "doctor", "--sandbox", "local", "--json")
    shown = json.loads(done.out)
    assert done.code == 0
    version = agentbench_core.__version__
    assert {"name": "core", "distribution": "agentbench-core", "version": version} in shown["plugins"]
    assert shown["harness"].startswith(version)
    assert shown["scratch"] == tempfile.gettempdir()
    assert shown["scratch_free_bytes"] > 0
    assert 1 << 27 < shown["memory_bytes"] == usable_memory()
    assert shown["cpus"] == usable_cpus()
    assert {check["name"] for check in shown["checks"]} >= {"python", "disk"}
    (local,) = shown["sandboxes"]
    assert (local["name"], local["usable"]) == ("local", True)


def test_doctor_of_a_sandbox_that_cannot_be_used(moon: None, agentbench: Any) -> None:
    """It is a failure only if it was named, since other sandboxes can be used."""
    named = agentbench("worker", "doctor", "--sandbox", "moon", "--sandbox", "local")
    assert named.code == 1
    assert re.search(r"^failed +sandbox moon +there is no moon\n +-> Wait\.$", named.out, re.MULTILINE)
    assert named.out.endswith("\nusable sandboxes: local\n")
    every = agentbench("worker", "doctor")
    assert re.search(r"^warning +sandbox moon +there is no moon\n +-> Wait\.$", every.out, re.MULTILINE)
    assert every.code == 0
    shown = json.loads(agentbench("worker", "doctor", "--sandbox", "moon", "--json").out)
    (row,) = shown["sandboxes"]
    assert (row["usable"], row["checks"][0]["remedy"]) == (False, "Wait.")


def test_doctor_without_a_sandbox(run_agentbench: RunAgentbench) -> None:
    """No plugin registers one."""
    done = run_agentbench("--no-plugin", "local", "--no-plugin", "docker", "worker", "doctor")
    assert done.code == 1
    assert re.search(r"^failed +sandbox +none installed", done.out, re.MULTILINE)
    assert done.out.endswith("\nusable sandboxes: none\n")


def test_doctor_of_an_unknown_sandbox(agentbench: Any) -> None:
    """The nearest name is suggested."""
    done = agentbench("worker", "doctor", "--sandbox", "locl")
    assert (done.code, done.out) == (2, "")
    assert "no sandbox 'locl' (did you mean 'local'?)" in done.err


def test_doctor_uses_the_options_of_the_project(agentbench: Any, tmp_path: Path) -> None:
    """As ``agentbench doctor`` does; a file that cannot be read is an error."""
    (tmp_path / "agentbench.toml").write_text('[sandbox]\nname = "local"\nno_such_option = 1\n')
    done = agentbench("worker", "doctor", "--sandbox", "local")
    assert done.code == 1
    assert "no_such_option" in done.out
    (tmp_path / "agentbench.toml").write_text("[")
    done = agentbench("worker", "doctor", "--sandbox", "local")
    assert done.code == 2
    assert "agentbench.toml" in done.err


def test_doctor_shows_the_programs_of_agents(moon: None, agentbench: Any) -> None:
    """Programs of variants are included. A missing program is a warning."""
    done = agentbench("worker", "doctor", "--sandbox", "local")
    assert done.code == 0
    assert re.search(r"^ok +program walker +walker 1 sha256:0$", done.out, re.MULTILINE)
    missing = r"^warning +program walker-2 +walker 2 is not installed\n +-> Run: install walker$"
    assert re.search(missing, done.out, re.MULTILINE)
    assert "program idle" not in done.out
    shown = json.loads(agentbench("worker", "doctor", "--sandbox", "local", "--json").out)
    programs = {each["agent"]: each for each in shown["programs"]}
    assert programs["walker"]["identity"] == {"program": "walker 1", "digest": "sha256:0"}
    assert programs["walker-2"]["problem"] == "walker 2 is not installed"


def test_limits_of_control_groups(tmp_path: Path) -> None:
    """The smallest limit of the group and its parents counts. There may be no limit, or no file."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (groups / "job/step").mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text("1:memory:/old\n0::/job/step\n")
    everything = usable_cpus(tmp_path, tmp_path), usable_memory(tmp_path, tmp_path)
    assert everything[0] == len(os.sched_getaffinity(0))
    (groups / "job/step/cpu.max").write_text("max 100000\n")
    (groups / "job/step/memory.max").write_text("max\n")
    assert (usable_cpus(proc, groups), usable_memory(proc, groups)) == everything
    (groups / "job/cpu.max").write_text("50000 100000\n")
    (groups / "job/memory.max").write_text(f"{1 << 28}\n")
    (groups / "memory.max").write_text(f"{1 << 27}\n")
    assert (usable_cpus(proc, groups), usable_memory(proc, groups)) == (0.5, 1 << 27)
    (proc / "self/cgroup").write_text("0::/\n")
    assert usable_cpus(proc, groups) == everything[0]


def test_readme_documents_every_command_and_option() -> None:
    """The README uses the same words as ``--help``."""
    text = README.read_text()
    for group in (executor, worker):
        for name, command in group.commands.items():
            assert f"agentbench {group.name} {name}" in text
            for parameter in command.params:
                if isinstance(parameter, click.Option) and not parameter.hidden:
                    assert f"| `{parameter.opts[-1]}` | {parameter.help} |" in text
