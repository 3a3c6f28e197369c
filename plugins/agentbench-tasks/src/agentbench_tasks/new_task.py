"""The files of a new task: a tiny repository with a bug, its test, a hidden test, and the solution."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from agentbench_core import InputError
from agentbench_core.harness import NAME_PATTERN, Task, directory_commit, read_task

_TASK = """\
id: "{task_id}"
suite: "{suite}"
description: |
  `clamp(value, low, high)` should return `value` limited to the range from `low` to `high`,
  but values above the range come back unchanged, and those inside it as `high`.
tags: ["example"]
repo:
  url: "repo"
  commit: "{commit}"
environment:
  timeout_sec: 300
validation:
  failing_command: "python -m pytest -q"
  passing_command: "python -m pytest -q"
  files: "checks/"
agent:
  editable_globs: ["*.py"]
oracle:
  patch: "solution.patch"
"""

_FILES = {
    "repo/clamp.py": '''\
"""Limit numbers to a range."""


def clamp(value: float, low: float, high: float) -> float:
    """`value`, but at least `low` and at most `high`."""
    if value < low:
        return low
    if value < high:
        return high
    return value
''',
    "repo/tests/test_clamp.py": """\
from clamp import clamp


def test_below_the_range() -> None:
    assert clamp(-1, 0, 10) == 0


def test_above_the_range() -> None:
    assert clamp(11, 0, 10) == 10
""",
    "repo/pyproject.toml": """\
[project]
name = "clamp"
version = "1.0"
requires-python = ">=3.11"

[tool.pytest.ini_options]
pythonpath = ["."]
""",
    "checks/test_clamp_hidden.py": """\
# agentbench-canary: CANARY
from clamp import clamp


def test_inside_and_at_the_ends() -> None:
    assert [clamp(value, 0, 10) for value in (0, 5, 10, 99)] == [0, 5, 10, 10]


def test_many_values() -> None:
    assert [clamp(n * 37 % 101, 20, 80) for n in range(12)] == [20, 37, 74, 20, 47, 80, 20, 57, 80, 30, 67, 20]


def test_a_range_below_zero() -> None:
    assert [clamp(n * 29 % 73 - 50, -31, -4) for n in range(10)] == [-31, -21, -4, -31, -7, -4, -22, -4, -31, -8]
""",
    "solution.patch": """\
--- a/clamp.py
+++ b/clamp.py
@@ -6,5 +6,5 @@ agentbench-canary: CANARY
     \"\"\"`value`, but at least `low` and at most `high`.\"\"\"
     if value < low:
         return low
-    if value < high:
+    if value > high:
         return high
     return value
""",
}


def write_task(root: Path, suite: str, task_id: str) -> Task:
    """Write the task to ``root/suite/task_id``. Raises InputError for an invalid name or an existing directory."""
    for what, name in (("task id", task_id), ("suite", suite)):
        if not re.fullmatch(NAME_PATTERN, name):
            raise InputError(
                f"{name!r} is not a valid {what}: use at most 64 lowercase letters, digits, '.', '_' and '-'"
            )
    directory = root / suite / task_id
    if directory.exists():
        raise InputError(f"{directory} already exists", remedy="Choose another id, or remove the directory.")
    try:
        for name, text in _FILES.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("CANARY", str(uuid.uuid4())), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write {directory}: {error.strerror}", remedy="Choose another directory: --tasks DIR"
        ) from None
    commit = directory_commit(directory / "repo")
    (directory / "task.yaml").write_text(_TASK.format(task_id=task_id, suite=suite, commit=commit), encoding="utf-8")
    return read_task(directory)
