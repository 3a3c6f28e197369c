"""Reading tasks and suites from disk."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agentbench_core import InputError
from agentbench_core.evidence.layout import run_directory_name
from agentbench_core.inputs.suite import hidden_paths, read_suite, read_task, select


def test_a_task_is_read_with_its_defaults(make_task: Callable[..., Path]) -> None:
    """Omitted fields of task.yaml have the defaults of the schema."""
    task = read_task(make_task())
    assert task.spec.agent.max_steps == 30
    assert "**/conftest.py" in task.spec.validation.protected_globs
    assert [call.tool for call in task.script] == ["apply_patch"]


def test_digest_covers_everything_that_affects_results(make_task: Callable[..., Path]) -> None:
    """It covers hidden tests and limits, but not tags, the oracle or the repository's URL."""
    directory = make_task(hidden={"test_x.txt": "1"})
    first = read_task(directory).digest
    (directory / "solution.patch").write_text("--- a/x\n")
    (directory / "task.yaml").write_text((directory / "task.yaml").read_text() + "tags: [a]\n")
    assert read_task(directory).digest == first
    (directory / "checks/test_x.txt").write_text("2")
    assert read_task(directory).digest != first


def test_the_digest_of_a_task_without_newer_fields_stays_the_same(tmp_path: Path) -> None:
    """It was computed with the first release; otherwise, recorded results would no longer belong to their tasks."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks/test_x.py").write_text("def test_x():\n    pass\n")
    (tmp_path / "task.yaml").write_text(
        "id: one\nsuite: mini\nrepo: {url: repo, commit: 0123456789abcdef0123456789abcdef01234567}\n"
        "validation: {failing_command: pytest, passing_command: pytest, files: checks/}\n"
    )
    assert read_task(tmp_path).digest == "sha256:b63db6f909fe90433ed4db2ef218a278c589437d83e8d6fc9d564c97b5f298de"


@pytest.mark.parametrize(
    ("section", "values", "same"),
    [
        ("provenance", {"commit": "a" * 40, "date": "2025-01-01", "labels": ["x"], "figures": {"tests": 3}}, True),
        ("validation", {"files_at": ""}, True),
        ("setup", {"shared_cache": True}, True),
        ("validation", {"files_at": "."}, False),
        ("setup", {"shared_cache": False}, False),
    ],
)
def test_newer_fields_change_the_digest_if_they_affect_results(
    make_task: Callable[..., Path], section: str, values: dict[str, object], same: bool
) -> None:
    """Where a task comes from does not."""
    plain = read_task(make_task(hidden={"test_x.txt": "1"}))
    assert (read_task(make_task(hidden={"test_x.txt": "1"}, **{section: values})).digest == plain.digest) is same


@pytest.mark.parametrize(
    ("validation", "root"),
    [
        ({}, "checks"),
        ({"files_at": "."}, ""),
        ({"files_at": "src/pkg/tests/"}, "src/pkg/tests"),
        ({"files_at": ".hidden..tests"}, ".hidden..tests"),
    ],
)
def test_the_directory_of_hidden_tests(make_task: Callable[..., Path], validation: dict[str, str], root: str) -> None:
    """By default, to a directory of the same name as the one next to task.yaml."""
    task = read_task(make_task(hidden={"a/test_x.txt": "1"}, validation=validation))
    assert task.spec.validation.hidden_root == root
    assert hidden_paths(task) == (f"{root}/a/test_x.txt".lstrip("/"),)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"agent": {"stps": 3}}, "agent.stps: unknown field"),
        ({"id": "UPPER"}, "id: 'UPPER' does not match"),
        ({"validation": {"files": "../other/"}}, "validation.files: '../other/' must be a relative path"),
        ({"oracle": {"patch": "../solution.patch"}}, "oracle.patch: '../solution.patch' is outside the task"),
        ({"oracle": {"patch": "missing.patch"}}, "oracle.patch: 'missing.patch' does not exist"),
        ({"oracle": {"script": "solution.patch"}}, "has both a patch and a script"),
        ({"validation": {"files": "."}}, "validation.files: '.' must be a relative path"),
        ({"validation": {"files": "task.yaml"}}, "validation.files: 'task.yaml' is not a directory"),
        ({"validation": {"files": "empty/"}}, "validation.files: 'empty/' contains no files"),
        ({"validation": {"files": "linked/"}}, "is a symbolic link"),
        ({"validation": {"files_at": "tests"}}, "validation.files_at: the task has no hidden tests"),
        *(
            ({"validation": {"files_at": path}}, f"validation.files_at: {path!r} does not match")
            for path in ("..", "../x", "a/../b", "a/..", "./a", "a/.", "/", "/tmp", "a//b", "a//", "./", "a\n", "a\0b")
        ),
        ({"provenance": {"commit": "abc"}}, "provenance.commit: 'abc' does not match"),
        ({"provenance": {"date": "May 2025"}}, "provenance.date: 'May 2025' does not match"),
        ({"provenance": {"date": "2025-02-30"}}, "provenance.date: '2025-02-30': day is out of range"),
        ({"provenance": {"author_date": "2025-01-01T25:00:00Z"}}, "provenance.author_date: '2025-01-01T25:00:00Z'"),
        ({"provenance": {"figures": {"tests": "many"}}}, "provenance.figures.tests: expected number"),
        ({"validation": {"passing_command": " "}}, "validation.passing_command: ' ' does not match"),
        ({"validation": {"protected_globs": ["!"]}}, "validation.protected_globs: '!' is not a valid glob"),
        ({"environment": {"timeout_sec": float("nan")}}, "environment.timeout_sec: expected number, found nan"),
        ({"environment": {"mem_limit_mb": 10**20}}, "environment.mem_limit_mb: 100000000000000000000 is above"),
        ({"oracle": {"patch": "latin.patch"}}, "latin.patch is not UTF-8"),
        ({"oracle": {"patch": "", "script": "task.yaml"}}, "calls: expected list of"),
        ({"repo": {"url": ""}}, "repo.url: '' does not match"),
        ({"repo": {"commit": "abc"}}, "repo.commit: 'abc' does not match"),
    ],
)
def test_a_bad_task_is_refused_with_file_and_path(
    make_task: Callable[..., Path], sections: dict[str, object], message: str
) -> None:
    """It is refused before anything runs."""
    directory = make_task(**sections)
    (directory / "empty").mkdir()
    (directory / "linked").mkdir()
    (directory / "linked/test_x.py").symlink_to("../task.yaml")
    (directory / "latin.patch").write_bytes(b"\xff")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_task(directory)
    assert str(directory) in caught.value.message


def test_a_suite_has_each_id_once_and_only_its_own_tasks(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """Duplicate ids are refused, because results would be ambiguous."""
    make_task("a")
    make_task("b", id="a")
    with pytest.raises(InputError, match="'a' is also used in"):
        read_suite(tmp_path / "tasks", "mini")


def test_unknown_names_get_a_suggestion(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """The message suggests the nearest suite or task."""
    make_task("alpha")
    with pytest.raises(InputError, match=r"no suite 'mina' .* \(did you mean 'mini'\?\)"):
        read_suite(tmp_path / "tasks", "mina")
    with pytest.raises(InputError, match=r"no task matches 'alpah' \(did you mean 'alpha'\?\)"):
        select(read_suite(tmp_path / "tasks", "mini"), ["alpah"])


@pytest.mark.parametrize(
    "name",
    ["../../etc", "..", ".", "", "A", "CON", "a/b", "a\\b", "a" * 65, "t\u0430sk", "a\n", "a\0", "-rf", "a b", "@2"],
)
@pytest.mark.parametrize("field", ["id", "suite"])
def test_names_that_become_directories(make_task: Callable[..., Path], field: str, name: str) -> None:
    """H26: traversal, case collisions and look-alikes are refused before a directory is created."""
    path = make_task() / "task.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {field: name}))
    with pytest.raises(InputError, match=f"{field}: .* does not match"):
        read_task(path)


@pytest.mark.parametrize(
    "model", ["../../etc/passwd", "/etc/passwd", "..", "a/../b", "x" * 300, "\x1b[31m", "\u202e", "a\0b"]
)
def test_names_that_become_part_of_a_directory(model: str) -> None:
    """H26: model and variant names are arbitrary; each becomes one safe part of a run directory's name."""
    name = run_directory_name(datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "suite", model, model)
    assert re.fullmatch(r"2026-01-02T00-00-00\+0000__suite(__[A-Za-z0-9_.+-]{1,60}){2}", name)


def test_ids_that_differ_in_case_only(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """H26: they would share a directory on some file systems."""
    make_task("a")
    (tmp_path / "tasks/mini/a").rename(tmp_path / "tasks/mini/b")
    make_task("a")
    text = (tmp_path / "tasks/mini/b/task.yaml").read_text().replace("id: a", "id: A")
    (tmp_path / "tasks/mini/b/task.yaml").write_text(text)
    with pytest.raises(InputError, match="id: 'A' does not match"):
        read_suite(tmp_path / "tasks", "mini")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("description: no", "description: expected text, found False"),
        ("description: 1.10", "description: expected text, found 1.1"),
        ("tags: [on, 12]", "tags[0]: expected text, found True"),
        ("agent: {max_steps: 012}", "agent.max_steps: expected integer, found '012'"),
        ("agent: {max_steps: '5'}", "agent.max_steps: expected integer, found '5'"),
        ("agent: {allow_file_write: 'no'}", "agent.allow_file_write: expected true or false, found 'no'"),
    ],
)
def test_values_of_the_wrong_yaml_type_are_refused(make_task: Callable[..., Path], line: str, words: str) -> None:
    """H25: values are not coerced to the type of a field."""
    path = make_task() / "task.yaml"
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(InputError, match=re.escape(words)):
        read_task(path)
