"""``tasks new --repo``: one task from a fix, or from tests and a patch, with every step shown."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench_testing.fixtures import Ended
from tests.histories import TEST_COMMAND, History, calculator

PATCH = "--- a/lib/add.sh\n+++ b/lib/add.sh\n@@ -1 +1 @@\n-echo $(($1 - $2))\n+echo 1\n"
FLAGS = ("--suite", "calc", "--repo", "calculator", "--sandbox", "local", "--allow-unisolated", "--times", "1")


@pytest.fixture
def history(tmp_path: Path) -> History:
    return calculator(tmp_path / "calculator")


@pytest.fixture
def new(agentbench: Callable[..., Ended]) -> Callable[..., Ended]:
    """Run ``tasks new sums`` in this process, with the calculator's test command; later flags replace earlier ones."""

    def run(*flags: str, task_id: str = "sums") -> Ended:
        done = agentbench("tasks", "new", task_id, *FLAGS, "--test-command", TEST_COMMAND, *flags)
        assert "Traceback" not in done.err
        assert "internal error" not in done.err
        return done

    return run


def spec_of(task: Path) -> Any:
    return yaml.safe_load((task / "task.yaml").read_text())


@pytest.mark.long
def test_a_fix_becomes_a_task_step_by_step(history: History, new: Callable[..., Ended], tmp_path: Path) -> None:
    """Every step is printed, and the task is valid, has its labels, and is known to later calls of ``tasks mine``."""
    fix = history.fix("add")
    done = new("--fix", fix[:8])
    assert done.code == 0, done.err
    steps = [line for line in done.err.splitlines() if line.startswith("- ")]
    assert steps[:2] == ["- hidden: tests/check_add.sh; reference patch: lib/add.sh", "- description: commit_message"]
    assert "- public command: sh tests/all.sh" in steps
    assert "- valid in 1 of 1 check" in steps[-1]
    task = Path("tasks/calc/sums")
    assert f"created {task} (weak_verdict)" in done.out
    spec = spec_of(task)
    assert spec["id"] == "sums"
    assert spec["provenance"]["commit"] == fix
    assert spec["provenance"]["labels"] == ["weak_verdict"]
    assert "Sums of two numbers" in spec["description"]
    (entry,) = (json.loads(line) for line in (tmp_path / "tasks/calc/mining.jsonl").read_text().splitlines())
    assert (entry["commit"], entry["task"]) == (fix, "sums")
    again = new("--fix", fix, "--description", "Sums")
    assert again.code == 2
    assert again.err.endswith("error: tasks/calc/sums already exists\nChoose another id, or remove the directory.\n")


def test_the_author_can_describe_the_bug(history: History, new: Callable[..., Ended]) -> None:
    """Without a description in the message, the task is refused, with the flag that helps."""
    history.fix("add")
    fix = history.commit(
        "fix", {"lib/double.sh": "echo $(($1 * 2))\n", "tests/check_double.sh": "[ $(sh lib/double.sh 4) = 8 ]\n"}
    )
    refused = new("--fix", fix)
    assert refused.code == 2
    assert "error: NO_DESCRIPTION: " in refused.err
    assert refused.err.endswith("\nPass --description TEXT.\n")
    assert not Path("tasks/calc/sums").exists()
    assert not Path("tasks/calc/.mining").exists()
    done = new("--fix", fix, "--description", "Doubles of numbers are wrong.")
    assert done.code == 0, done.err
    spec = spec_of(Path("tasks/calc/sums"))
    assert spec["description"].startswith("Doubles of numbers are wrong.\n")
    assert spec["provenance"]["text"] == "author"


@pytest.mark.release
def test_a_missing_description_is_asked_for_on_a_terminal(history: History, tmp_path: Path) -> None:
    """What is typed there becomes the description."""
    fix = history.commit(
        "fix", {"lib/add.sh": "echo $(($1 + $2))\n", "tests/check_add.sh": "[ $(sh lib/add.sh 1 2) = 3 ]\n"}
    )
    command = [str(Path(sys.executable).parent / "agentbench"), "tasks", "new", "sums", *FLAGS, "--fix", fix]
    controller, terminal = pty.openpty()
    os.write(controller, b"Sums are always too small\n")
    with subprocess.Popen(
        [*command, "--test-command", TEST_COMMAND], cwd=tmp_path, stdin=terminal, stdout=subprocess.PIPE, text=True
    ) as process:
        out, _ = process.communicate(timeout=60)
    os.close(terminal)
    os.close(controller)
    assert process.returncode == 0
    assert "NO_DESCRIPTION: " in out
    assert "Describe the bug, without its solution: " in out
    assert spec_of(tmp_path / "tasks/calc/sums")["description"].startswith("Sums are always too small\n")


def test_a_merge_is_a_fix_of_its_first_parent(history: History, new: Callable[..., Ended]) -> None:
    """The task contains everything that the merge brought in; the text is that of the merged commits."""
    base = history.git("rev-parse", "HEAD").strip()
    history.git("checkout", "-q", "-b", "topic")
    history.commit("Sums of two numbers are wrong", {"lib/add.sh": "echo $(($1 + $2))\n"})
    history.commit("Tests", {"tests/check_add.sh": "[ $(sh lib/add.sh 1 2) = 3 ]\n"})
    history.git("checkout", "-q", "main")
    history.git("merge", "-q", "--no-ff", "-m", "Merge branch 'topic'", "topic")
    done = new("--fix", "main")
    assert done.code == 0, done.err
    spec = spec_of(Path("tasks/calc/sums"))
    assert spec["repo"]["commit"] == base
    assert spec["provenance"]["text"] == "merged_commits"
    assert "Sums of two numbers" in spec["description"]


def test_head_is_the_current_branch_of_the_repository(history: History, new: Callable[..., Ended]) -> None:
    """This also holds for expressions, and if the branch is not called main."""
    history.git("checkout", "-q", "-b", "develop")
    fix = history.fix("add")
    history.fix("double")
    done = new("--fix", "HEAD~1")
    assert done.code == 0, done.err
    assert spec_of(Path("tasks/calc/sums"))["provenance"]["commit"] == fix


def test_a_failed_attempt_keeps_the_result_of_an_earlier_task(history: History, new: Callable[..., Ended]) -> None:
    """Otherwise ``tasks mine`` would create the task a second time."""
    fix = history.fix("add")
    assert new("--fix", fix).code == 0
    refused = new("--fix", fix, "--test-command", "true", task_id="other")
    assert "TESTS_PASS_BEFORE" in refused.err
    (entry,) = (json.loads(line) for line in Path("tasks/calc/mining.jsonl").read_text().splitlines())
    assert entry["task"] == "sums"


def test_tests_and_a_patch_become_a_task(history: History, new: Callable[..., Ended], tmp_path: Path) -> None:
    """They need not be committed. Both apply to a commit that the author chooses."""
    base = history.git("rev-parse", "HEAD").strip()
    history.fix("add")
    history.git("revert", "--no-edit", "HEAD")
    (history.path / "tests/check_add.sh").write_text("[ $(sh lib/add.sh 2 2) = 4 ]\n")
    (history.path / "tests/check_add.sh").chmod(0o755)
    (history.path / "lib/add.sh").write_text("echo $(($1 + $2))\n")
    (tmp_path / "fix.patch").write_text(history.git("diff", "--", "lib"))
    about = ("--tests", "tests/check_add.sh", "--patch", "fix.patch", "--description", "Two and two must be four.")
    done = new(*about)
    assert done.code == 0, done.err
    spec = spec_of(Path("tasks/calc/sums"))
    assert spec["repo"]["commit"] == history.git("rev-parse", "HEAD").strip()
    assert spec["provenance"]["date"] == "2024-03-02T12:00:00Z"
    assert "commit" not in spec["provenance"]
    (hidden,) = (path for path in Path("tasks/calc/sums/checks").rglob("*") if path.is_file())
    assert hidden.read_text() == "[ $(sh lib/add.sh 2 2) = 4 ]\n"
    assert hidden.stat().st_mode & 0o111
    older = new(*about, "--base", base, task_id="older")
    assert older.code == 0, older.err
    assert spec_of(Path("tasks/calc/older"))["repo"]["commit"] == base
    assert not Path("tasks/calc/mining.jsonl").exists(), "no commit was tried"


@pytest.fixture
def refused(agentbench: Callable[..., Ended]) -> Callable[..., str]:
    """The error of a call of ``tasks new`` in this process, which creates nothing."""

    def run(*flags: str, task_id: str = "sums") -> str:
        done = agentbench("tasks", "new", task_id, *FLAGS, "--test-command", TEST_COMMAND, *flags)
        assert done.code == 2, done.err
        assert len(done.err.splitlines()) < 12
        assert not Path("tasks").exists()
        return done.err

    return run


def test_errors_name_the_flag_and_the_remedy(history: History, refused: Callable[..., str]) -> None:
    """Nothing is created."""
    base = history.git("rev-parse", "HEAD").strip()
    url = history.path
    assert "commit HEAD is the first commit in the repository, so there is no code before" in refused("--fix", "HEAD")
    for name in ("1234567", "--all", "HEAD~1", ":/nothing"):
        assert (
            refused("--fix", name) == f"error: no commit {name!r} in {url}\nPass a commit that is on a branch or tag.\n"
        )
    assert refused("--fix", "HEAD", "--repo", ".").startswith("error: NOT_A_REPOSITORY: ")
    Path("lib.patch").write_text(PATCH)
    with_patch = ("--patch", "lib.patch", "--tests")
    assert f"--tests: all files are identical to those in {base[:12]}" in refused(*with_patch, "tests")
    Path("bad.patch").write_text(PATCH.replace("$1", "nothing"))
    bad = refused("--tests", "tests", "--patch", "bad.patch")
    assert f"--patch bad.patch does not apply to {base[:12]}: error: patch failed: lib/add.sh:1\n" in bad
    Path("escapes.patch").write_text(PATCH.replace("lib/add.sh", "../add.sh"))
    assert "does not apply" in refused("--tests", "tests", "--patch", "escapes.patch")
    assert "--patch no.patch: No such file" in refused("--tests", "tests", "--patch", "no.patch")
    assert "no commit 'nothing'" in refused(*with_patch, "tests", "--base", "nothing")
    remote = refused(*with_patch, "tests", "--repo", "https://localhost:1/shop.git")
    assert remote == "error: --tests requires a local repository\nClone it and pass its directory as --repo.\n"


def test_tests_are_regular_files_of_the_repository(history: History, refused: Callable[..., str]) -> None:
    """All problems are shown at once."""
    (history.path / "link").symlink_to("tests")
    (history.path / "lib/linked.sh").symlink_to("/etc/hosts")
    (history.path / "empty").mkdir()
    Path("lib.patch").write_text(PATCH)
    outside = ("/etc/hosts", "../lib.patch", "nothing", ".git/config")
    names = (*outside, "link", "link/all.sh", "lib")
    error = refused("--patch", "lib.patch", *(flag for name in names for flag in ("--tests", name)))
    lines = error.removeprefix("error: ").splitlines()
    assert lines == [
        *(f"--tests {name}: not a file or directory in calculator" for name in outside),
        "--tests link: link is a symbolic link",
        "--tests link/all.sh: link is a symbolic link",
        "--tests lib: lib/linked.sh is a symbolic link",
        "Pass files and directories in the repository.",
    ]
    assert "there are no files in empty" in refused("--patch", "lib.patch", "--tests", "empty")


def test_all_problems_of_the_flags_are_shown_at_once(refused: Callable[..., str]) -> None:
    """The repository is not even read."""
    flags = ("--fix", "a", "--tests", "b", "--base", "c", "--junit", "x", "--test-command", "", "--suite", "../x")
    error = refused(*flags, task_id="../sums")
    for message in (
        "'../sums' is not a valid task id",
        "'../x' is not a valid suite",
        "--repo requires either --fix COMMIT, or --tests PATH and --patch FILE",
        "--base requires --tests and --patch",
        "--junit requires --test-command",
    ):
        assert message in error
    assert "--repo requires either --fix COMMIT" in refused()
    assert "--tests and --patch must be used together" in refused("--tests", "b")
    assert "--times" in refused("--fix", "a", "--times", "0")
    assert "require --repo" in refused("--fix", "a", "--repo", "")
