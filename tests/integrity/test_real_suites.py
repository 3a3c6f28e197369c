"""Blinded suites of real projects: verdicts equal those of a plain run, without suspicions.

One line of a release is broken, its own tests are the hidden tests, and the release is the reference solution.

Projects come unchanged from the package index, with their own conftest.py and settings. Two of them, pluggy and
iniconfig, are parts of pytest itself, so the code under test runs before any test.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core.workspace.repos import directory_commit
from agentbench_testing.doubles.sample_program import write_files
from tests.conftest import Ended
from tests.integrity.test_hardened_scorer import PATCHER

ALL = os.environ.get("AGENTBENCH_REAL_SUITES") == "all"
"""Whether this is ``make real-suites``."""
pytestmark = [pytest.mark.release, pytest.mark.index, *([pytest.mark.docker] if ALL else [])]

PYTEST = "pytest==8.4.2"
_VARIABLES = dict(os.environ)
"""The environment before tests get their own caches, so that pip reuses its downloads."""


@attrs.frozen(kw_only=True)
class Project:
    """A release, the requirements of its tests, and a line whose change makes its tests fail."""

    name: str
    version: str
    sha256: str
    needs: tuple[str, ...]
    """Requirements of the build and the tests."""
    file: str
    line: str
    broken: str
    tests: str = "tests"
    command: str = "python -m pytest"

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


CLICK = Project(
    name="click",
    version="8.3.1",
    sha256="12ff4785d337a1bb490bb7e9c2b1ee5da3112e94a8622f26a6c77f5d2fc6842a",
    needs=("flit_core==3.12.0",),
    file="src/click/formatting.py",
    line="widths[idx] = max(widths.get(idx, 0), term_len(col))",
    broken="widths[idx] = min(widths.get(idx, 0), term_len(col))",
)
PLUGGY = Project(
    name="pluggy",
    version="1.6.0",
    sha256="7dcc130b76258d33b90f61b658791dede3486c3e6bfb003ee5c9bfb396dd22f3",
    needs=("setuptools==80.9.0", "setuptools-scm==9.2.2"),
    file="src/pluggy/_manager.py",
    line="return list(self._plugin_distinfo)",
    broken="return []",
    tests="testing",
    command="pytest",
)
INICONFIG = Project(
    name="iniconfig",
    version="2.3.0",
    sha256="c76315c77db068650d49c5b56314774a7804df16fee4402c1f19d6d15d8c4730",
    needs=("setuptools==80.9.0", "setuptools-scm==9.2.2"),
    file="src/iniconfig/__init__.py",
    line="yield name, self[name]",
    broken="yield self[name], name",
    tests="testing",
    command="pytest -q",
)
ITSDANGEROUS = Project(
    name="itsdangerous",
    version="2.2.0",
    sha256="e0050c0b7da1eea53ffaf149c0cfbb5c6e2e2b69c4bef22c81fa6eb73e5f6173",
    needs=("flit_core==3.12.0", "freezegun==1.5.5"),
    file="src/itsdangerous/encoding.py",
    line='return _int_to_bytes(num).lstrip(b"\\x00")',
    broken="return _int_to_bytes(num)",
)
ATTRS = Project(
    name="attrs",
    version="25.4.0",
    sha256="16d5969b87f0859ef33a48b35d55ac1be6e42ae49d5e853b597db70c35c57e11",
    needs=(
        *("hatchling==1.27.0", "hatch-vcs==0.5.0", "hatch-fancy-pypi-readme==25.1.0", "editables==0.5"),
        *("hypothesis==6.138.15", "cloudpickle==3.1.1", "pympler==1.1"),
    ),
    file="src/attr/filters.py",
    line="or attribute.name in names\n            or attribute in attrs\n        )\n\n    return include_",
    broken="or attribute in attrs\n        )\n\n    return include_",
    command="python -m pytest -k 'not test_wrapped_annotation'",  # fails with some releases of Python 3.11
)


PASSES = {"scripted": True, "patcher": False}
"""Agents, and whether they solve the task."""
PROJECTS: tuple[Project, ...] = (INICONFIG,)
SANDBOX = "local"
"""The project and the sandbox of every test run; ``make real-suites`` takes minutes, for more projects in docker."""
if ALL:
    PROJECTS, SANDBOX = (*PROJECTS, PLUGGY, ITSDANGEROUS, CLICK, ATTRS), "docker"


def unpacked(project: Project, place: Path) -> Path:
    """Download the release with pip, which checks its hash, and unpack it."""
    place.mkdir(parents=True)
    (place / "pinned.txt").write_text(f"{project.requirement} --hash=sha256:{project.sha256}\n")
    command = ["pip", "download", "-q", "--no-deps", "--no-binary", project.name, "-d", str(place)]
    words = [sys.executable, "-m", *command, "-r", str(place / "pinned.txt")]
    done = subprocess.run(words, capture_output=True, text=True, env=_VARIABLES)
    assert done.returncode == 0, done.stderr
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    (directory,) = (path for path in place.iterdir() if path.is_dir())
    return directory


def make_task(project: Project, place: Path) -> Path:
    """Create a task from a release with a broken line and hidden tests; return the directory of suites."""
    repo = unpacked(project, place / "download")
    task = place / "tasks/real" / project.name
    shutil.move(repo / project.tests, task / project.tests)
    file = repo / project.file
    released = file.read_text()
    assert released.count(project.line) == 1
    broken = released.replace(project.line, project.broken)
    file.write_text(broken)
    (task / "solution.patch").write_text(difference(project.file, broken, released))
    version = f"SETUPTOOLS_SCM_PRETEND_VERSION={project.version}"  # there is no git history to derive it from
    spec = {
        "id": project.name,
        "suite": "real",
        "repo": {"url": str(repo), "commit": directory_commit(repo)},
        "environment": {"network_policy": "setup_only", "timeout_sec": 300, "setup_timeout_sec": 600},
        "setup": {
            "commands": [
                f"python -m pip install -q {PYTEST} {' '.join(project.needs)}",
                f"{version} python -m pip install -q --no-build-isolation --no-deps -e .",
            ],
            "capture": [],
        },
        "validation": {
            "failing_command": project.command,
            "passing_command": project.command,
            "files": f"{project.tests}/",
        },
        "oracle": {"patch": "solution.patch"},
    }
    (task / "task.yaml").write_text(yaml.safe_dump(spec))
    return place / "tasks"


def difference(path: str, before: str, after: str) -> str:
    """A unified diff of one file."""
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}"))


@pytest.mark.parametrize("project", PROJECTS, ids=lambda each: each.name)
def test_a_real_suite(
    project: Project,
    agentbench: Callable[..., Ended],
    plugin: Callable[..., Path],
    records: Callable[..., list[dict[str, Any]]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """I03, I07: the release passes and the broken one fails, with both scorers, and neither is suspected."""
    tasks = make_task(project, tmp_path / "place")
    common = ["--tasks", str(tasks), "--suite", "real", "--sandbox", SANDBOX]
    if ALL and (bundle := os.environ.get("SSL_CERT_FILE")):
        common += ["--set", f"sandbox.ca_bundle={bundle}"]
    looked = agentbench("validate-tasks", *common, "--write", "--json", "--times", "1")
    assert looked.code == 0, looked.out + looked.err
    (found,) = json.loads(looked.out)
    with capfd.disabled():
        print(f"\n{project.requirement}: {found['calibration'][0]}")
    listed = yaml.safe_load((tasks / "real" / project.name / "task.yaml").read_text())["validation"]
    assert len(listed["fail_to_pass"]) + len(listed["pass_to_pass"]) > 40

    plugin("patcher", PATCHER)
    Path("agent.patch").write_text("--- /dev/null\n+++ b/HARMLESS\n@@ -0,0 +1 @@\n+nothing\n")
    write_files(Path("configs/variants"), {"patcher.yaml": "agent: patcher\n"})
    agents = [word for agent in PASSES for word in ("--variant", agent)]
    for scorer in ("tests", "plain"):
        shutil.rmtree("artifacts", ignore_errors=True)
        ended = agentbench("run", *common, *agents, "--set", f"scorer={scorer}")
        assert ended.code == 0, ended.err
        for agent, passed in PASSES.items():
            (record,) = records(agent)
            assert record["result"]["passed"] is passed, ended.out
            labels = {label["name"] for label in record["labels"]} - {"oracle"}
            assert labels <= {"weak_verdict"}
