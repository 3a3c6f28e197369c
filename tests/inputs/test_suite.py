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
from agentbench_core.inputs.suite import read_suite, read_task, select


def test_a_task_is_read_with_its_defaults(make_task: Callable[..., Path]) -> None:
    """Omitted fields of task.yaml have the defaults of the schema."""
    task = read_task(make_task())
    assert task.spec.agent.max_steps == 30
    assert "**/conftest.py" in task.spec.validation.protected_globs
    assert [call.tool for call in task.script] == ["apply_patch"]


def test_the_digest_is_about_what_a_result_depends_on(make_task: Callable[..., Path]) -> None:
    """It covers hidden tests and limits, but not tags, the oracle or the repository's URL."""
    directory = make_task(hidden={"test_x.txt": "1"})
    first = read_task(directory).digest
    (directory / "solution.patch").write_text("--- a/x\n")
    (directory / "task.yaml").write_text((directory / "task.yaml").read_text() + "tags: [a]\n")
    assert read_task(directory).digest == first
    (directory / "checks/test_x.txt").write_text("2")
    assert read_task(directory).digest != first


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"agent": {"stps": 3}}, "agent.stps: unknown field"),
        ({"id": "UPPER"}, "id: 'UPPER' does not match"),
        ({"validation": {"files": "../other/"}}, "validation.files: '../other/' is not a relative path"),
        ({"oracle": {"patch": "../solution.patch"}}, "oracle.patch: '../solution.patch' is outside the task"),
        ({"oracle": {"patch": "missing.patch"}}, "oracle.patch: 'missing.patch' does not exist"),
        ({"oracle": {"script": "solution.patch"}}, "has both a patch and a script"),
        ({"validation": {"files": "."}}, "validation.files: '.' is not a relative path"),
        ({"validation": {"files": "task.yaml"}}, "validation.files: 'task.yaml' is not a directory"),
        ({"validation": {"files": "empty/"}}, "validation.files: 'empty/' contains no files"),
        ({"validation": {"files": "linked/"}}, "is a symbolic link"),
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


def test_unknown_names_get_the_nearest(make_task: Callable[..., Path], tmp_path: Path) -> None:
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
def test_values_that_yaml_takes_for_something_else(make_task: Callable[..., Path], line: str, words: str) -> None:
    """H25: values are not coerced to the type of a field."""
    path = make_task() / "task.yaml"
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(InputError, match=re.escape(words)):
        read_task(path)
