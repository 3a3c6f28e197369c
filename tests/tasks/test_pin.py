"""``tasks pin`` writes the commit of an edited task, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import InputError
from agentbench_core.harness import directory_commit, read_task
from agentbench_tasks.pin import pin, with_commit

OLD = "f88ddf1f" + "0" * 32
NEW = "040b113a93d8fc78f0d2f3d3a149e4e00468288f"
DIGITS = "12345678" * 5
TEXT = """\
# a task
id: 't'   # äöü 𝄞
suite: mini
repo:  {REPO}
validation: {{failing_command: "commit: {OLD}", passing_command: x}}
"""


@pytest.mark.parametrize(
    ("before", "after", "commit"),
    [
        (f'\n  url: repo\n  commit: "{OLD}"  # pinned', f'\n  url: repo\n  commit: "{NEW}"  # pinned', NEW),
        (f"\n  commit: '{OLD}'\n  url: repo", f"\n  commit: '{NEW}'\n  url: repo", NEW),
        (f"\n  commit: {OLD} # x\n  url: repo", f"\n  commit: {NEW} # x\n  url: repo", NEW),
        (f"\n  commit: {OLD}\n  url: repo", f'\n  commit: "{DIGITS}"\n  url: repo', DIGITS),
        (f"{{url: repo, commit: {OLD}}}", f"{{url: repo, commit: {NEW}}}", NEW),
        (f'{{"commit": "{OLD}", "url": "repo"}}', f'{{"commit": "{NEW}", "url": "repo"}}', NEW),
    ],
)
def test_only_the_commit_is_replaced(before: str, after: str, commit: str) -> None:
    """In any notation; quotes are added only where a SHA would be read as a number."""
    text = TEXT.format(REPO=before, OLD=OLD)
    assert with_commit(text, commit, "task.yaml") == TEXT.format(REPO=after, OLD=OLD)


def test_a_commit_that_is_not_on_one_line_is_refused() -> None:
    """The file could not be changed without a risk for the rest of it."""
    with pytest.raises(InputError, match=r"cannot replace repo\.commit"):
        with_commit(TEXT.format(REPO=f"\n  url: repo\n  commit: |-\n    {OLD}", OLD=OLD), NEW, "task.yaml")


@pytest.fixture
def edited(make_task: Any) -> Path:
    """A task whose code was edited after it was pinned."""
    directory: Path = make_task()
    (directory / "repo/app.txt").write_text("broken differently\n")
    return directory


def test_an_edited_task_is_pinned(edited: Path, agentbench: Any) -> None:
    """A second call changes nothing; the file keeps its mode."""
    file = edited / "task.yaml"
    file.chmod(0o600)
    before, old = file.read_text(), read_task(edited).spec.repo.commit
    new = directory_commit(edited / "repo")
    assert agentbench("tasks", "pin", str(edited)).out == f"one: pinned {new[:12]} (was {old[:12]})\n"
    assert file.read_text() == before.replace(old, new)
    assert file.stat().st_mode & 0o777 == 0o600
    changed = file.stat().st_mtime_ns
    assert agentbench("tasks", "pin", str(file)).out == f"one: unchanged, pinned {new[:12]}\n"
    assert file.stat().st_mtime_ns == changed


def test_a_file_that_changed_meanwhile_is_kept(edited: Path) -> None:
    """An editor may have saved it."""
    task = read_task(edited)
    with (edited / "task.yaml").open("a") as file:
        file.write("tags: [a]\n")
    with pytest.raises(InputError, match="changed while the commit was being computed"):
        pin(task)
    assert (edited / "task.yaml").read_text() == f"{task.text}tags: [a]\n"


def test_the_tasks_of_a_suite(edited: Path, make_task: Any, agentbench: Any) -> None:
    """Tasks from repositories are left as they are, and an error of one task does not stop the others."""
    make_task("remote", repo={"url": "https://example.org/x.git"})
    make_task("same")
    lines = agentbench("tasks", "pin", "--suite", "mini").out.splitlines()
    assert [line.split(" ")[:2] for line in lines] == [["one:", "pinned"], ["remote:", "not"], ["same:", "unchanged,"]]
    (edited / "repo/app.txt").write_text("and again\n")
    make_task("gone", repo={"url": "nowhere"})
    done = agentbench("tasks", "pin", "--suite", "mini", "--task", "[go]*")
    assert (done.code, done.out.split(" ")[:2]) == (2, ["one:", "pinned"])
    assert "gone: repo.url 'nowhere'" in done.err


@pytest.mark.parametrize("arguments", [[], ["tasks/mini/one", "--suite", "mini"], ["tasks/mini/one", "--task", "x"]])
def test_what_to_pin_must_be_clear(edited: Path, agentbench: Any, arguments: list[str]) -> None:
    """A directory or a suite."""
    done = agentbench("tasks", "pin", *arguments)
    assert (done.code, "--suite NAME" in done.err) == (2, True)


def test_repositories_are_not_pinned(edited: Path, agentbench: Any) -> None:
    """A git repository and a URL have their own commits."""
    before = (edited / "task.yaml").read_text()
    subprocess.run(["git", "init", "-q", str(edited / "repo")], check=True)
    done = agentbench("tasks", "pin", str(edited))
    assert (done.code, done.out) == (2, "")
    assert "repo.url is a repository, but only plain directories can be pinned" in done.err
    assert (edited / "task.yaml").read_text() == before
    assert agentbench("tasks", "pin", "nowhere").code == 2
