"""What an attempt saves of its workspace: what differs from the prepared tree, and enough to get all of it back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from agentbench_core.workspace.repos import directory_commit

FIX = "echo fixed > app.txt"
CHANGES = r"""
echo more >> edited.txt
head -c 3000 /dev/zero > "$(printf 'added \377\n.bin')"
chmod +x becomes.sh
chmod -x remains.sh
chmod +x edited_too.sh; echo x >> edited_too.sh
rm removed.txt
rm -r directory; echo file > directory
rm file; mkdir -p file/deep; echo x > file/deep/in.txt
rm was_link; echo file > was_link
rm link_to_directory; mkdir link_to_directory; echo x > link_to_directory/in.txt
rm to_link; ln -s /etc/passwd to_link
ln -s nowhere new_link
rm same_text; printf 'target' > same_text
mkdir -p ignored .pytest_cache; echo x > ignored/x; echo x > .pytest_cache/x; echo 'ignored' > .gitignore
"""
"""Every kind of change. ``same_text`` becomes a file whose content is the target of the link that it replaces."""


def write_everything(directory: Path) -> None:
    """What ``CHANGES`` changes."""
    files = "edited.txt becomes.sh remains.sh edited_too.sh removed.txt directory/a directory/b/c file to_link other/x"
    for name in files.split():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"{name}\n")
    (directory / "remains.sh").chmod(0o755)
    for name, target in (("was_link", "edited.txt"), ("link_to_directory", "other"), ("same_text", "target")):
        (directory / name).symlink_to(target)


def state_of(directory: Path) -> dict[str, tuple[bytes, bool]]:
    """Content and mode of every regular file, without ``.git`` and tool caches."""
    return {
        os.fsdecode(os.path.relpath(path, directory)): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink() and not {".git", ".pytest_cache"} & {*path.parts}
    }


@attrs.frozen
class Attempt:
    """The attempt and its files."""

    run: Path

    @property
    def files(self) -> Path:
        return self.run / "tasks/one"

    @property
    def state(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.files / "workspace.json").read_text())
        return result


Runs = Callable[..., Attempt]


@pytest.fixture
def runs(make_task: Any, agentbench: Any) -> Runs:
    """Run one shell command in an attempt, in a repository that ``write`` extends."""

    def run(command: str, *flags: str, write: Callable[[Path], None] = lambda _: None, **sections: Any) -> Attempt:
        task = make_task(**sections)
        write(task / "repo")
        calls = [{"tool": "run", "arguments": {"command": command}}]
        (task / "script.yaml").write_text(yaml.safe_dump(calls))
        spec = yaml.safe_load((task / "task.yaml").read_text())
        spec |= {
            "oracle": {"script": "script.yaml"},
            "repo": {"url": "repo", "commit": directory_commit(task / "repo")},
        }
        (task / "task.yaml").write_text(yaml.safe_dump(spec))
        done = agentbench("run", "--suite", "mini", "--agent", "scripted", *flags)
        assert done.code == 0, done.err
        (directory,) = Path("artifacts/runs").iterdir()
        assert json.loads((directory / "attempts.jsonl").read_text())["scored"], done.out
        return Attempt(directory)

    return run


@pytest.mark.long
def test_a_large_repository_costs_only_the_size_of_the_change(runs: Runs) -> None:
    """Of 60 MB, a changed line saves one file; what is saved is at most 1 % larger than what changed, plus 1 kB."""

    def write(directory: Path) -> None:
        for number in range(60):
            (directory / f"{number}.bin").write_bytes(number.to_bytes() * 1_000_000)
        (directory / "module.py").write_text("line\n" * 2_000)

    done = runs(f"{FIX}; sed -i '1000s/.*/changed/' module.py", write=write)
    saved = [path for path in (done.files / "repo").rglob("*") if path.is_file()]
    assert sorted(path.name for path in saved) == ["app.txt", "module.py"]
    size = sum(path.stat().st_size for path in [*saved, done.files / "workspace.json"])
    changed = len("fixed\n") + len("line\n") * 1_999 + len("changed\n")
    assert size <= 1.01 * changed + 1_000


def test_the_whole_workspace_can_be_written_again(runs: Runs, agentbench: Any, tmp_path: Path) -> None:
    """Every regular file has the agent's content and mode, and no other file exists; links are only listed."""
    done = runs(f"{FIX}\n{CHANGES}", write=write_everything)
    assert done.state["commit"] == directory_commit(Path("tasks/mini/one/repo"))
    assert done.state["removed"] == [
        *("directory/a", "directory/b/c", "file", "link_to_directory", "removed.txt"),
    ]
    assert (done.state["executable"], done.state["not_executable"]) == (["becomes.sh"], ["remains.sh"])
    assert {link["path"]: link["target"] for link in done.state["links"]} == {
        "new_link": "nowhere",
        "to_link": "/etc/passwd",
    }
    assert (done.state["omitted"], done.state["odd"]) == ([], [])
    assert not {"becomes.sh", "other", ".pytest_cache", "to_link"} & {p.name for p in (done.files / "repo").iterdir()}
    assert not any(path.is_symlink() for path in done.files.rglob("*"))

    expected = tmp_path / "expected"
    shutil.copytree("tasks/mini/one/repo", expected, symlinks=True)
    subprocess.run(["sh", "-ec", f"{FIX}\n{CHANGES}"], cwd=expected, check=True)
    written = agentbench("runs", "workspace", str(done.run), "one", "--to", "made/again")
    assert written.code == 0, written.err
    assert "some files are not included (see workspace.json): new_link, to_link" in written.err
    assert "setup" not in written.err
    assert state_of(Path("made/again")) == state_of(expected)
    assert not [path for path in Path("made/again").rglob("*") if path.is_symlink() and path.name != "same_text"]
    shown = subprocess.run(["git", "status", "--short"], cwd="made/again", capture_output=True, text=True, check=True)
    assert " D removed.txt\n" in shown.stdout


def test_what_setup_wrote_is_not_part_of_the_difference(runs: Runs, agentbench: Any) -> None:
    """It is not saved, unless the agent changed it, and a note reports it."""
    setup = {"commands": ["echo a > left; echo a > edited; echo a > removed"]}
    done = runs(f"{FIX}; echo b > edited; rm removed", setup=setup)
    assert sorted(path.name for path in (done.files / "repo").iterdir()) == ["app.txt", "edited"]
    assert done.state["removed"] == ["removed"]
    written = agentbench("runs", "workspace", str(done.run), "one", "--to", "again")
    assert (written.code, written.err) == (0, "note: files that setup wrote into the workspace are not included\n")
    assert {name: data for name, (data, _) in state_of(Path("again")).items()} == {
        "app.txt": b"fixed\n",
        "edited": b"b\n",
    }


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda files, state: state["removed"].append("../outside"), "outside"),
        (lambda files, state: state["removed"].append("/outside"), "outside"),
        (lambda files, state: state["links"].append({"path": ".git/config", "target": "x"}), ".git"),
        (lambda files, state: (files / "repo/stolen").symlink_to("/etc/passwd"), ""),
        (lambda files, state: ((files / "repo").rename(files / "old"), (files / "repo").symlink_to("/etc")), "repo"),
        (lambda files, state: (files / "repo/app.txt/x").mkdir(parents=True), ""),
        (lambda files, state: state["odd"].append("\ud800"), ""),
        (lambda files, state: state.update(commit="0" * 40), "the attempt started from 0000"),
        (lambda files, state: state.update(removed=7), "removed: expected list of text"),
    ],
)
def test_run_directories_of_others_write_nothing_outside(
    runs: Runs, agentbench: Any, tmp_path: Path, damage: Callable[[Path, dict[str, Any]], object], message: str
) -> None:
    """Links are not followed, paths stay inside, and after an error nothing is left behind."""
    done = runs(FIX)
    (tmp_path / "outside").write_text("mine")
    state = done.state
    (done.files / "repo/app.txt").unlink()
    damage(done.files, state)
    (done.files / "workspace.json").write_text(json.dumps(state))
    written = agentbench("runs", "workspace", str(done.run), "one", "--to", "again")
    if message:
        assert written.code == 2
        assert message in written.err
        assert not Path("again").exists()
    else:
        assert written.code == 0, written.err
        assert not Path("again/stolen").exists()
    assert (tmp_path / "outside").read_text() == "mine"


def test_mistyped_arguments_are_explained(runs: Runs, agentbench: Any) -> None:
    """An unknown attempt, an existing directory, and an attempt whose workspace was not saved."""
    done = runs(FIX, "--set", "artifacts.keep_workspace=false")
    assert {path.name for path in done.files.iterdir()} == {"task.yaml", "logs", "agent", "diffs", "meta"}
    for arguments, message in (
        (("one@2", "--to", "x"), "has no attempt 'one@2' (did you mean 'one'?)"),
        (("one", "--to", "x"), "(artifacts.keep_workspace)"),
    ):
        said = agentbench("runs", "workspace", str(done.run), *arguments)
        assert said.code == 2
        assert message in said.err
    assert not Path("x").exists()
