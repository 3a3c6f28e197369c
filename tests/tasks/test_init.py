"""``agentbench init`` in repositories of every kind: what it finds out, what it writes, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agentbench_tasks.init import found as found_module
from agentbench_testing.fixtures import Ended
from tests.histories import TEST_COMMAND, History, calculator

FILES = {
    "agentbench.toml",
    "gate.yaml",
    "configs/variants/current.yaml",
    "configs/variants/candidate.yaml",
    "tasks/conftest.py",
    ".github/workflows/agentbench.yml",
}
PROJECT = """\
[project]
name = "Shop.App"
version = "1"
requires-python = ">=3.9"
[dependency-groups]
test = ["pytest"]
[tool.pytest.ini_options]
addopts = "-q"
"""
Command = Callable[..., Ended]


def files(root: Path) -> dict[str, bytes]:
    """The content of every file, without git's own and the example task's."""
    paths = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts)
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    return {name: data for name, data in found.items() if "/example/" not in name}


@pytest.fixture
def shop(tmp_path: Path) -> History:
    history = History(tmp_path / "shop")
    tests = {"shop.py": "", "tests/test_shop.py": "def test_shop():\n    assert True\n", "noxfile.py": "import nox\n"}
    history.commit("First", {"pyproject.toml": PROJECT, ".gitignore": "*.pyc", **tests})
    history.git("remote", "add", "origin", "https://ada:secret@git.example.com/shop.git")
    return history


def test_it_finds_out_everything_and_a_second_call_changes_nothing(
    shop: History, agentbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "the-value")
    monkeypatch.chdir(shop.path)
    done = agentbench("init")
    assert done.code == 0, done.err
    for expected in (
        f"repository  {shop.path} (branch main, https://git.example.com/shop.git)",
        "tests       pytest (pyproject.toml), nox; requirements: pyproject.toml [test]",
        "Python      3.11",
        "keys        SOME_API_KEY",
        "agents      baseline, ",
        "suite       shop.app, 0 tasks",
        "agentbench tasks mine --repo . --suite shop.app --limit 30",
    ):
        assert expected in done.out
    assert "ada" not in done.out, "the URL's password is not shown"
    assert "the-value" not in done.out
    before = files(shop.path)
    assert before.keys() >= FILES
    assert before[".gitignore"] == b"*.pyc\nartifacts/\n"
    again = agentbench("init")
    assert (again.code, files(shop.path)) == (0, before)
    assert "nothing: all files exist" in again.out
    assert all(name in again.out.partition("kept")[2] for name in FILES)


@pytest.mark.long
def test_what_it_writes_works_at_once(shop: History, agentbench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suite, variants and settings are valid, and the team's own tests still pass: pytest collects no tasks."""
    monkeypatch.chdir(shop.path)
    assert agentbench("init", "--model", "maker/model: 1").code == 0
    assert "example" in agentbench("tasks", "list", "--suite", "shop.app").out
    shown = agentbench("config", "show", "--variant", "configs/variants/candidate.yaml").out
    assert "maker/model: 1" in shown
    assert any(line.split()[:2] == ["sandbox.name", "docker"] for line in shown.splitlines())
    tests = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], capture_output=True, text=True)
    assert "1 passed" in tests.stdout, tests.stdout


def test_existing_files_are_kept_and_a_dry_run_writes_nothing(
    shop: History, agentbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.path)
    own = {"agentbench.toml": '[run]\nsuite = "ours"\n', "gate.yaml": "margin: 0.2\nmin_pairs: 12\n"}
    for name, text in own.items():
        Path(name).write_text(text)
    before = files(shop.path)
    planned = agentbench("init", "--dry-run")
    assert planned.code == 0
    assert "would write  configs/variants/current.yaml" in planned.out
    assert files(shop.path) == before
    assert agentbench("init").code == 0
    assert {name: Path(name).read_text() for name in own} == own
    assert "tasks/ours/**" in Path(".github/workflows/agentbench.yml").read_text()
    assert Path("tasks/ours/example/task.yaml").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"caf\xe9/\r\nname\\ \r\n", b"caf\xe9/\r\nname\\ \r\nartifacts/\n"),
        (b"*.pyc", b"*.pyc\nartifacts/\n"),
        (b"", b"artifacts/\n"),
    ],
)
def test_gitignore_gets_a_line_and_is_otherwise_unchanged(
    before: bytes, after: bytes, agentbench: Command, tmp_path: Path
) -> None:
    """Whatever its encoding and line ends are."""
    ignored = tmp_path / ".gitignore"
    ignored.write_bytes(before)
    done = agentbench("init", str(tmp_path), "--suite", "mine")
    assert (done.code, ignored.read_bytes()) == (0, after), done.err


def test_a_directory_of_a_monorepo_has_a_workflow_at_the_root(shop: History, agentbench: Command) -> None:
    """Its paths lead to the directory, and each directory has a workflow of its own."""
    service = shop.path / "services" / "billing"
    service.mkdir(parents=True)
    done = agentbench("init", str(service))
    assert done.code == 0, done.err
    assert f"cd {service}" in done.out
    assert "tasks mine --repo ../.. --suite billing --paths 'services/billing/**'" in done.out
    assert {"agentbench.toml", "gate.yaml", ".gitignore", "tasks/conftest.py"} <= files(service).keys()
    content = yaml.safe_load((shop.path / ".github/workflows/agentbench-billing.yml").read_text())
    assert content["defaults"]["run"]["working-directory"] == "services/billing"
    assert "services/billing/configs/**" in content[True]["pull_request"]["paths"]
    assert not (shop.path / "agentbench.toml").exists()


def test_an_empty_or_missing_directory_without_git(agentbench: Command) -> None:
    done = agentbench("init", "new/place", "--suite", "mine")
    assert done.code == 0, done.err
    assert "not in a git repository" in done.out
    assert "agentbench validate-tasks --suite mine" in done.out
    assert "tasks mine --repo" not in done.out
    assert files(Path("new/place")).keys() >= FILES


def test_everything_in_the_way_is_named_before_anything_is_written(agentbench: Command, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    place = tmp_path / "place"
    for directory in (elsewhere, place):
        directory.mkdir()
    (place / "configs").write_text("a file")
    (place / ".github").symlink_to(elsewhere)
    before = files(place)
    done = agentbench("init", str(place))
    assert done.code == 2
    assert f"{place}/configs is not a directory" in done.err
    assert f"{place}/.github is a link to another directory" in done.err
    assert "Nothing was written." in done.err
    assert (files(place), list(elsewhere.iterdir())) == (before, [])
    assert "not a valid suite" in agentbench("init", "--suite", "../up").err


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            '{"url": "https://ada:secret@git.example.com/ab.git", "vcs_info": {"vcs": "git", "commit_id": "1a2b"}}',
            ("https://git.example.com/ab.git", "1a2b"),
        ),
        ('{"url": "file:///nowhere/at/all", "dir_info": {"editable": true}}', ("", "")),
        ('{"url": "https://example.com/ab.whl", "archive_info": {}}', ("", "")),
        ("[]", ("", "")),
    ],
)
def test_the_source_of_agentbench_is_where_it_was_installed_from(
    told: str, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its installation record (PEP 610), if other machines can reach it."""
    record = tmp_path / "agentbench_core-1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: agentbench-core\nVersion: 1\n")
    (record / "direct_url.json").write_text(told)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found_module.own_source() == expected


@pytest.mark.long
def test_a_suite_inside_its_repository_works_in_every_clone(
    tmp_path: Path, agentbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mined tasks refer to the repository that contains them by a relative path."""
    history = calculator(tmp_path / "calculator")
    history.fix("add")
    monkeypatch.chdir(history.path)
    flags = ("--sandbox", "local", "--allow-unisolated", "--times", "1", "--test-command", TEST_COMMAND)
    assert agentbench("tasks", "mine", "--repo", ".", "--suite", "calc", *flags).code == 0
    history.commit("A suite", {})
    subprocess.run(["git", "clone", "-q", str(history.path), str(tmp_path / "clone")], check=True)
    history.path.rename(tmp_path / "gone")
    monkeypatch.chdir(tmp_path / "clone")
    (task,) = Path("tasks/calc").glob("*/task.yaml")
    assert yaml.safe_load(task.read_text())["repo"]["url"] == "../../.."
    done = agentbench("run", "--suite", "calc", "--agent", "scripted", "--sandbox", "local")
    assert "1 of 1 scored attempts passed" in done.out
