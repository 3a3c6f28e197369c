"""Real projects' suites under the hardened scorer: the verdict is that of a plain run, and nobody is suspected.

Projects come from the package index as their authors released them, with their own conftest.py and settings. Two of
them, pluggy and iniconfig, are parts of pytest itself: there the code under test runs before any test does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core import Deadline, Score, Scratch
from agentbench_core.cli.app import App
from agentbench_core.inputs.suite import Task, read_task
from agentbench_core.run.change import freeze
from agentbench_core.run.preparation import Preparations, Prepared
from agentbench_core.run.scoring import Judge
from agentbench_core.run.unrecorded import Notes, Printed
from agentbench_core.workspace.repos import directory_commit

pytestmark = [pytest.mark.index, pytest.mark.docker]

PYTEST = "pytest==8.4.2"
_LOG = Notes(print)
_VARIABLES = dict(os.environ)
"""As they were before tests got caches of their own: pip's downloads are to be found again."""


@attrs.frozen(kw_only=True)
class Project:
    """A release, what its tests need, and a line of it whose change its tests find."""

    name: str
    version: str
    sha256: str
    needs: tuple[str, ...]
    """For the build, and for its tests."""
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


PROJECTS: tuple[Project, ...] = (INICONFIG,)
"""That of every test run. The others take some minutes: ``make real-suites`` has them, too."""
if os.environ.get("AGENTBENCH_REAL_SUITES") == "all":
    PROJECTS = (*PROJECTS, PLUGGY, ITSDANGEROUS, CLICK, ATTRS)


def unpacked(project: Project, place: Path) -> Path:
    """The release as a directory; pip holds it against its hash, and keeps it."""
    place.mkdir()
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


def make_task(project: Project, place: Path) -> Task:
    """A task over a release: what it needs is installed, and itself so that changes count; its tests are hidden."""
    repo = unpacked(project, place / "download")
    shutil.move(repo / project.tests, place / project.tests)
    version = f"SETUPTOOLS_SCM_PRETEND_VERSION={project.version}"  # there is no history that would tell it
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
    }
    (place / "task.yaml").write_text(yaml.safe_dump(spec))
    return read_task(place)


def made(kind: str, name: str, **options: Any) -> Any:
    """A component, as a run would make it."""
    component = App(frozenset()).registry.find(kind, name)
    assert component.options is not None
    return component.make(component.options(**options))


@attrs.frozen(kw_only=True)
class Suite:
    """A project's task, prepared."""

    project: Project
    task: Task
    shared: Preparations

    @property
    def source(self) -> str:
        """The file that changes, as it was released."""
        return (Path(self.task.spec.repo.url) / self.project.file).read_text()

    def prepared(self) -> Prepared:
        """The task after its set-up, which happens once."""
        return self.shared.environment(self.task, self.shared.source(self.task), _LOG)

    def score(self, text: str, *, hardened: bool, each_test: bool = False, **validation: Any) -> Score:
        """The judgement of a change of the project's file; ``validation`` is what the task says of its tests."""
        prepared = self.prepared()
        workspace = self.shared.fork(self.task, prepared.environment, "workspace", hidden=False)
        (workspace / self.project.file).write_text(text)
        change = freeze(self.shared.snapshots, prepared.base, workspace, self.task.spec)
        assert [each.path for each in change.kept] == [self.project.file]
        assert change.labels == ()
        self.shared.discard(workspace)
        spec = attrs.evolve(self.task.spec, validation=attrs.evolve(self.task.spec.validation, **validation))
        judge = Judge(
            scorer=made("scorer", "tests", hardened=hardened),
            task=attrs.evolve(self.task, spec=spec),
            prepared=prepared,
            shared=self.shared,
            files=Printed(),
            log=_LOG,
            each_test=each_test,
        )
        return judge.score(change, Deadline(300))


@pytest.fixture(scope="module")
def suites(preparations: Preparations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Suite]]]:
    """All of them, made ready two at a time while others are judged: most of that is waiting for the index."""

    def make(project: Project) -> Suite:
        suite = Suite(project=project, task=make_task(project, tmp_path_factory.mktemp("task")), shared=preparations)
        assert suite.source.count(project.line) == 1
        suite.prepared()
        return suite

    with ThreadPoolExecutor(2) as pool:
        yield {project.name: pool.submit(make, project) for project in PROJECTS}


@pytest.fixture(scope="module")
def preparations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preparations]:
    """Of the sandbox ``docker``, where the workspace really cannot be written while tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("real") / "cache"))
        provider = made("sandbox", "docker", ca_bundle=os.environ.get("SSL_CERT_FILE", ""))
        scratch = Scratch("run")
        yield Preparations(provider, scratch, Deadline(3600))
        provider.close()
        scratch.close()


@pytest.mark.parametrize("project", PROJECTS, ids=lambda each: each.name)
def test_a_real_suite(project: Project, suites: Mapping[str, Future[Suite]]) -> None:
    """I03, I07: a change that harms nobody passes, one that breaks something does not, and neither is suspected."""
    suite = suites[project.name].result()
    harmless, breaking = f"{suite.source}\n_HARMLESS = None\n", suite.source.replace(project.line, project.broken)

    plain = suite.score(harmless, hardened=False, each_test=True)
    tried = suite.score(harmless, hardened=True, each_test=True)
    assert (plain.passed, tried.passed) == (True, True), f"{plain.explanation}; {tried.explanation}"
    assert plain.tests == tried.tests
    assert tried.tests is not None
    assert tried.twins is not None
    expected = tuple(sorted(name for name, outcome in tried.tests.items() if outcome == "passed"))
    twins = tuple(name for name, outcome in tried.twins.items() if outcome == "failed")[:5]
    assert len(expected) > 40
    assert len(twins) >= 2

    proven = suite.score(harmless, hardened=True, fail_to_pass=expected, twins=twins)
    assert (proven.passed, proven.exit_code, proven.labels) == (True, 0, ()), proven.explanation
    for hardened in (False, True):
        broken = suite.score(breaking, hardened=hardened, fail_to_pass=expected, twins=twins)
        assert (broken.passed, broken.tampered, broken.exit_code) == (False, False, 1), broken.explanation
        assert {label.name for label in broken.labels} == (set() if hardened else {"weak_verdict"})
