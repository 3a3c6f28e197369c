"""Hidden tests overlay the public tree file by file, and files that an agent adds next to them do not count.

With ``files_at``, they are single files in several directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_core.inputs.suite import Task, protected_paths, read_task
from agentbench_core.run.attempt.preparation import PreparedTasks
from agentbench_core.values.task import DEFAULT_PROTECTED
from agentbench_testing.doubles.sample_program import write_files

PATCH = """\
--- a/app.py
+++ b/app.py
@@ -1,2 +1,2 @@
 def add(left, right):
-    return left - right
+    return left + right
"""
PUBLIC = {
    "app.py": "def add(left, right):\n    return left - right\n",
    "tests/__init__.py": "",
    "tests/helpers.py": "from pathlib import Path\n\nDATA = Path(__file__).with_name('data') / 'sum.txt'\n",
    "tests/data/sum.txt": "5\n",
    "tests/test_add.py": "from app import add\n\n\ndef test_add():\n    assert add(2, 0) == 2\n",
}
HIDDEN = {
    "test_add.py": (
        "from app import add\nfrom tests.helpers import DATA\n\n\n"
        "def test_add():\n    assert add(2, 3) == int(DATA.read_text())\n"
    ),
    "data/more.txt": "6\n",
}
COMMAND = "python -m pytest -q tests"

Overlaid = Callable[..., Path]


@pytest.fixture
def overlaid(make_task: Any) -> Overlaid:
    """Create a task whose hidden tests are in a directory of any name."""

    def make(
        name: str = "tests", *, files: Mapping[str, str] = PUBLIC, hidden: Mapping[str, str] = HIDDEN, **said: str
    ) -> Path:
        validation = {"failing_command": COMMAND, "passing_command": COMMAND, "files": f"{name}/", **said}
        directory: Path = make_task(files=files, patch=PATCH, validation=validation)
        write_files(directory / name, hidden)
        return directory

    return make


WRITER = """
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Writer:
        def solve(self, context):
            lines = "import os; os._exit(0)"
            for place in {places!r}:
                command = f"mkdir -p $(dirname {{place}}); echo '{{lines}}' > {{place}}"
                context.tools.call(ToolCall(tool="run", arguments={{"command": command}}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("writer", lambda options: Writer(), Options, summary="")
"""


def test_hidden_tests_overlay_the_public_ones(overlaid: Overlaid, agentbench: Any, records: Any, plugin: Any) -> None:
    """I05: public helpers and data are kept; a solution passes, and forged helpers fail."""
    overlaid()
    places = ["tests/helpers.py", "tests/conftest.py", "tests/data/more.txt", "tests/new/__init__.py", "app.py.bak"]
    plugin("writer", WRITER.format(places=places))
    Path("writer.yaml").write_text("agent: writer\n")
    assert agentbench("run", "--suite", "mini", "--variant", "scripted", "--variant", "writer.yaml").code == 0
    (solved,) = records("scripted")
    assert solved["result"]["passed"], solved["result"]
    (forged,) = records("writer")
    assert not forged["result"]["passed"]
    evidence = {label["name"]: label["evidence"] for label in forged["labels"]}
    assert evidence["touched_protected"] == ", ".join(sorted(places[:4]))


@pytest.mark.parametrize("public", [{}, {"checks/old.txt": "as it was\n"}], ids=["new", "public"])
def test_agent_files_next_to_hidden_tests_are_removed(
    overlaid: Overlaid, agentbench: Any, records: Any, plugin: Any, public: Mapping[str, str]
) -> None:
    """Whether the repository has that directory or not; the repository's own files are kept."""
    listing = f"cd checks && find . -type f -not -name '*.pyc' | sort | tr '\\n' ' ' > {Path.cwd()}/seen; false"
    overlaid("checks", files={**PUBLIC, **public}, failing_command="false", passing_command=listing)
    places = ["checks/conftest.py", "checks/__init__.py", "checks/helpers.py", "checks/old.txt", "new.py"]
    plugin("writer", WRITER.format(places=places))
    assert agentbench("run", "--suite", "mini", "--agent", "writer").code == 0
    (record,) = records()
    assert record["result"]["failure_reason"] == "TESTS_FAILED"
    assert Path("seen").read_text() == " ".join(
        ["./data/more.txt", *(["./old.txt"] if public else []), "./test_add.py", ""]
    )


def read(directory: Path) -> Task:
    return read_task(directory / "task.yaml")


def test_paths_that_block_hidden_files_are_replaced(overlaid: Overlaid, tmp_path: Path) -> None:
    """A file instead of a directory, a directory or link instead of a file, and bytecode of replaced files."""
    hidden = {"a/b/c.txt": "1", "file.txt": "2", "link.txt": "3", "test_x.py": "4"}
    task = read(overlaid(hidden=hidden))
    work = tmp_path / "work"
    write_files(
        work,
        {
            "tests/a/b": "a file",
            "tests/a/kept.txt": "kept",
            "tests/file.txt/deep/er.txt": "x",
            "tests/__pycache__/test_x.cpython-311.pyc": "x",
            "tests/__pycache__/test_xy.cpython-311.pyc": "kept",
            "file.txt/kept.txt": "kept",
        },
    )
    (work / "tests/link.txt").symlink_to("/etc/passwd")
    (work / "tests/a/link").symlink_to("b")
    PreparedTasks.add_hidden(task, work)
    found = {path.relative_to(work).as_posix(): path.read_text() for path in work.rglob("*") if path.is_file()}
    kept = {
        "tests/a/kept.txt": "kept",
        "tests/__pycache__/test_xy.cpython-311.pyc": "kept",
        "file.txt/kept.txt": "kept",
    }
    assert found == {**{f"tests/{name}": text for name, text in hidden.items()}, **kept}
    assert (work / "tests/a/link").is_symlink()


PACKAGE = {
    "app.py": PUBLIC["app.py"],
    "src/pkg/tests/helpers.py": "SUM = 5\n",
    "src/pkg/tests/test_old.py": "def test_old():\n    assert True\n",
    "src/pkg/tests/test_sum.py": "def test_sum():\n    assert True\n",
    "src/pkg/core.py": "",
    "tests/test_add.py": PUBLIC["tests/test_add.py"],
}
SINGLE = {
    "src/pkg/tests/test_sum.py": (
        "from app import add\nfrom helpers import SUM\n\n\ndef test_sum():\n    assert add(2, 3) == SUM\n"
    ),
    "tests/unit/test_new.py": "from app import add\n\n\ndef test_new():\n    assert add(1, 1) == 2\n",
}
BESIDE = [*DEFAULT_PROTECTED, "/src/pkg/tests"]


@pytest.fixture
def single(overlaid: Overlaid) -> Overlaid:
    """Create a task whose hidden tests are single files in two directories, one of them inside a package."""

    def make(**validation: Any) -> Path:
        command = "python -m pytest -q tests src"
        both = {"failing_command": command, "passing_command": command, "files_at": ".", "protected_globs": BESIDE}
        return overlaid("checks", files=PACKAGE, hidden=SINGLE, **{**both, **validation})

    return make


@pytest.mark.long
def test_single_hidden_files_overlay_the_root(single: Overlaid, agentbench: Any, records: Any, plugin: Any) -> None:
    """Other files stay. What an agent changes in the hidden files, or adds next to them, is discarded."""
    listing = f"find src tests -type f -not -name '*.pyc' | sort | tr '\\n' ' ' > {Path.cwd()}/seen; "
    directory = single()
    text = (directory / "task.yaml").read_text()
    (directory / "task.yaml").write_text(text.replace("passing_command: ", f"passing_command: {listing}"))
    assert agentbench("run", "--suite", "mini", "--agent", "scripted").code == 0
    (solved,) = records("scripted")
    assert solved["result"]["passed"], solved["result"]
    assert Path("seen").read_text().split() == sorted(({*PACKAGE} | {*SINGLE}) - {"app.py"})
    protected = [
        "src/pkg/tests/conftest.py",
        "src/pkg/tests/helpers.py",
        "src/pkg/tests/json.py",
        "src/pkg/tests/test_sum.py",
        "tests/unit/__init__.py",
        "tests/unit/test_new.py",
    ]
    plugin("writer", WRITER.format(places=[*protected, "src/pkg/core.py"]))
    assert agentbench("run", "--suite", "mini", "--agent", "writer").code == 0
    (forged,) = records("writer")
    assert forged["result"]["failure_reason"] == "TESTS_FAILED"
    evidence = {label["name"]: label["evidence"] for label in forged["labels"]}
    assert evidence["touched_protected"] == f"{', '.join(protected[:5])} and 1 more"
    assert Path("seen").read_text().split() == sorted(({*PACKAGE} | {*SINGLE}) - {"app.py"})


def test_hidden_files_are_protected_wherever_they_are(single: Overlaid) -> None:
    """Even if no glob matches them, or one excludes them; other files are protected by the globs."""
    is_protected = protected_paths(read(single(protected_globs=["!/src"])))
    assert [path for path in (*PACKAGE, *SINGLE) if is_protected(path)] == ["src/pkg/tests/test_sum.py", *SINGLE]
    is_protected = protected_paths(read(single()))
    beside = ["src/pkg/tests", "src/pkg/tests/json.py", "tests/unit/x.py", "src/conftest.py"]
    assert [path for path in (*beside, "src/pkg/core.py", "app.py", "json.py") if is_protected(path)] == beside


def test_hidden_files_inside_another_directory(overlaid: Overlaid) -> None:
    """Everything in that directory is protected, as with ``files`` alone."""
    task = read(overlaid("checks", hidden={"test_x.py": ""}, files_at="src/pkg/tests/"))
    is_protected = protected_paths(task)
    assert is_protected("src/pkg/tests/helpers.py")
    assert is_protected("src/pkg/tests")
    assert not is_protected("src/pkg/core.py")
    assert not is_protected("checks/x.py")


def test_paths_that_block_single_hidden_files_are_removed(single: Overlaid, tmp_path: Path) -> None:
    """Links, files and directories at their paths or parent directories, and bytecode, are removed."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    write_files(outside, {"test_sum.py": "outside", "unit/test_new.py": "outside"})
    write_files(
        work,
        {
            "src/pkg/tests/test_sum.py/deep/er.txt": "x",
            "src/pkg/tests/__pycache__/test_sum.cpython-311-pytest-8.pyc": "x",
            "src/pkg/tests/__pycache__/helpers.cpython-311.pyc": "kept",
            "test_sum.py": "kept",
        },
    )
    (work / "tests").symlink_to(outside)
    task = read(single())
    PreparedTasks.add_hidden(task, work)
    found = {path.relative_to(work).as_posix(): path.read_text() for path in work.rglob("*") if path.is_file()}
    kept = {"src/pkg/tests/__pycache__/helpers.cpython-311.pyc": "kept", "test_sum.py": "kept"}
    assert found == {**SINGLE, **kept}
    assert (outside / "unit/test_new.py").read_text() == "outside"
    (work / "src/pkg/tests/test_sum.py").unlink()
    (work / "src/pkg/tests/test_sum.py").symlink_to(outside / "test_sum.py")
    PreparedTasks.add_hidden(task, work)
    assert not (work / "src/pkg/tests/test_sum.py").is_symlink()
    assert (outside / "test_sum.py").read_text() == "outside"


def test_stale_bytecode_at_the_root_is_removed(overlaid: Overlaid, tmp_path: Path) -> None:
    """A hidden file that is not in any directory."""
    task = read(overlaid("checks", hidden={"test_x.py": "new"}, files_at="."))
    work = tmp_path / "work"
    write_files(work, {"test_x.py": "old", "__pycache__/test_x.cpython-311.pyc": "stale"})
    PreparedTasks.add_hidden(task, work)
    assert (work / "test_x.py").read_text() == "new"
    assert not (work / "__pycache__").exists()
