"""Environments of old commits, made from a package index in a container."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from agentbench_core import Command, Deadline, EnvironmentSpec, SetupError
from agentbench_core.values.task import EnvironmentSettings, Setup
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_tasks.mining.pins import CAPTURE, classify, pins, setup_commands
from agentbench_tasks.mining.recipe import recipes
from agentbench_tasks.mining.values import Code
from agentbench_testing.doubles.sample_program import write_files

pytestmark = [pytest.mark.docker, pytest.mark.index]

FACT = "python_m_pip_freeze_all_local_exclude_editable_exclude_pip"
FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling", "hatch-vcs"]
build-backend = "hatchling.build"

[project]
name = "counting-words"
dynamic = ["version"]
requires-python = ">=3.8"
dependencies = ["humanize"]

[dependency-groups]
test = ["pytest"]

[tool.hatch.version]
source = "vcs"

[tool.hatch.build.targets.wheel]
packages = ["src/counting"]

[tool.pytest.ini_options]
addopts = "-n 0"
""",
    "src/counting/__init__.py": "import humanize\n\ndef words(n):\n    return humanize.intcomma(n)\n",
    "tests/test_words.py": """\
from importlib.metadata import version
from counting import words

def test_words():
    assert words(1000) == "1,000"
    assert version("counting-words") == "1.2.4.dev5"
""",
}
SERVE = """\
import http.server, os, pathlib
pathlib.Path("/tmp/index/humanize").mkdir(parents=True)
os.chdir("/tmp/index")
pathlib.Path("humanize/index.html").write_text("<a href=humanize-4.6.0.tar.gz>humanize-4.6.0.tar.gz</a>")
server = http.server.HTTPServer(("127.0.0.1", 8712), http.server.SimpleHTTPRequestHandler)
if os.fork() == 0:
    server.serve_forever()
"""


class Quiet:
    def started(self, command: str) -> None:
        """Ignore it."""

    def finished(self, command: str, result: object) -> None:
        """Ignore it."""

    def reused(self, command: str, result: object) -> None:
        """Ignore it."""


class Tree:
    """The files of a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def paths(self) -> Collection[str]:
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]

    def read(self, path: str, limit: int = 1 << 20) -> bytes | None:
        file = self.root / path
        return file.read_bytes()[:limit] if file.is_file() else None


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerProvider]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    provider = DockerProvider(DockerOptions(ca_bundle=os.environ.get("SSL_CERT_FILE", "")))
    yield provider
    provider.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    directory = tmp_path / "tree"
    directory.mkdir()
    write_files(directory, FILES)
    return directory


def spec_of(*commands: str) -> EnvironmentSpec:
    setup = Setup(commands=commands, capture=(CAPTURE,), shared_cache=False)
    return EnvironmentSpec(commit="0" * 40, settings=EnvironmentSettings(), setup=setup)


@pytest.mark.release
def test_environment_by_date_equals_the_one_from_its_pins(provider: DockerProvider, tree: Path) -> None:
    """M05: packages are those of the date; the commands for task.yaml create an equal environment for the tests."""
    date = "2023-06-01T00:00:00Z"
    recipe = recipes(Tree(tree), date=date, version="1.2.4.dev5", pythons=["3.11"])[0]
    first = provider.prepare(spec_of(*recipe.resolve, *recipe.project), tree, Quiet(), Deadline(900))
    pinned = pins(first.facts[FACT], "counting-words")
    assert {"humanize==4.6.0", "pytest==7.3.1", "pytest-xdist==3.3.1"} <= set(pinned)

    commands = setup_commands(pinned, recipe)
    second = provider.prepare(spec_of(*commands), tree, Quiet(), Deadline(900))
    assert second.facts[FACT] == first.facts[FACT]
    for environment in (first, second):
        workspace = tree.with_name(f"work-{environment.digest[-8:]}")
        write_files(workspace, FILES)
        ended = environment.run_once(Command("python -m pytest -q"), workspace, Deadline(300))
        assert ended.ok, ended.last_lines()


@pytest.mark.release
def test_a_requirement_that_is_younger_than_the_commit(provider: DockerProvider, tree: Path) -> None:
    old = recipes(Tree(tree), date="2009-01-01T00:00:00Z", version="1", pythons=["3.11"])[0]
    with pytest.raises(SetupError) as caught:
        provider.prepare(spec_of(*old.resolve), tree, Quiet(), Deadline(900))
    found = classify(caught.value.message)
    assert found.code == Code.ENVIRONMENT_FAILED
    assert found.reason.startswith("no suitable release of ")


@pytest.mark.release
def test_an_index_whose_files_have_no_upload_times(provider: DockerProvider, tree: Path) -> None:
    """M05: it fails, although another index has them."""
    (resolve,) = recipes(Tree(tree), date="2023-06-01T00:00:00Z", version="1", pythons=["3.11"])[0].resolve
    serve = f"{shlex.join(['python', '-c', SERVE])} > /dev/null 2>&1"
    with pytest.raises(SetupError) as caught:
        provider.prepare(
            spec_of(serve, f"env PIP_EXTRA_INDEX_URL=http://127.0.0.1:8712/ {resolve}"), tree, Quiet(), Deadline(900)
        )
    found = classify(caught.value.message)
    assert found.code == Code.INDEX_WITHOUT_DATES
    assert "http://127.0.0.1:8712/humanize/" in found.reason
