"""Commands of scorers and their result files, to which the code under test can write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_core import Command, Deadline, ScoringContext, Validation
from agentbench_core.plugin.scorer import read_result
from agentbench_testing import Workbench, open_workbench
from agentbench_testing.checks.scorer.watched import WatchedEnvironment

REPORT = b"<testsuites/>"


def test_result_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    """A regular file is read up to a limit."""
    (tmp_path / "junit.xml").write_bytes(REPORT)
    assert read_result(tmp_path / "junit.xml", at_most=100) == REPORT
    assert read_result(tmp_path / "junit.xml", at_most=3) == REPORT[:3]
    assert read_result(tmp_path / "absent.xml", at_most=100) is None


def test_results_that_are_not_regular_files_are_ignored(tmp_path: Path) -> None:
    """H01, H06: links, pipes and directories are ignored: a pipe would block, and a link leads elsewhere."""
    (tmp_path / "elsewhere.xml").write_bytes(REPORT)
    (tmp_path / "link.xml").symlink_to(tmp_path / "elsewhere.xml")
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "directory.xml").mkdir()
    for name in ("link.xml", "pipe.xml", "directory.xml"):
        assert read_result(tmp_path / name, at_most=100) is None


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    with open_workbench() as made:
        yield made


def context(workbench: Workbench, tmp_path: Path, *, network: bool = False, deadline: float = 60.0) -> ScoringContext:
    """Create a scoring context over a tree with one file."""
    environment = WatchedEnvironment(workbench.environment({"app.txt": "fixed\n"}))

    def scratch(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return ScoringContext(
        environment=environment,
        validation=Validation(failing_command="false", passing_command="true"),
        fork=lambda: workbench.fork(environment.inner),
        scratch=scratch,
        network=network,
        deadline=Deadline(deadline),
        save_output=lambda result: None,
    )


def test_a_command_with_result_files(workbench: Workbench, tmp_path: Path) -> None:
    """Regular files are read up to a limit; everything else is as for any command."""
    made = context(workbench, tmp_path)
    command = Command(
        'cat app.txt "$AGENTBENCH_INPUTS/given"; cd "$AGENTBENCH_RESULTS" || exit 1; printf report > good; '
        "mkfifo pipe; ln -s good link; mkdir directory; exit 3",
        inputs={"given": Path(__file__)},
    )
    result = made.run(command, made.fork(), files=["good", "pipe", "link", "directory", "absent"], at_most=4)
    assert (result.exit_code, result.timed_out, result.files) == (3, False, {"good": b"repo"})
    assert result.stdout.data == b"fixed\n" + Path(__file__).read_bytes()


def test_results_directory_provided_by_the_scorer(workbench: Workbench, tmp_path: Path) -> None:
    """The command can read what the scorer put there."""
    made = context(workbench, tmp_path)
    results = made.scratch("mine")
    (results / "key").write_text("secret")
    command = Command('mv "$AGENTBENCH_RESULTS/key" "$AGENTBENCH_RESULTS/moved"', results=results)
    assert made.run(command, made.fork(), files=["key", "moved"]).files == {"moved": b"secret"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_without_result_files_there_is_no_directory(workbench: Workbench, tmp_path: Path) -> None:
    made = context(workbench, tmp_path)
    result = made.run(Command('test -z "$AGENTBENCH_RESULTS"'), made.fork())
    assert (result.ok, result.files, list(tmp_path.iterdir())) == (True, {}, [])


def test_result_names_with_directories_are_refused(workbench: Workbench, tmp_path: Path) -> None:
    """A directory in the path could be a link."""
    made = context(workbench, tmp_path)
    with pytest.raises(ValueError, match="names of result files must not contain directories: good, sub/file"):
        made.run(Command("true"), made.fork(), files=["good", "sub/file"])


@pytest.mark.parametrize("network", [False, True])
def test_network_access_is_set_by_the_task(workbench: Workbench, tmp_path: Path, network: bool) -> None:
    made = context(workbench, tmp_path, network=network)
    made.run(Command("true", network=not network), made.fork())
    assert isinstance(made.environment, WatchedEnvironment)
    assert made.environment.networks == [network]


def test_scoring_deadline_applies_to_commands(workbench: Workbench, tmp_path: Path) -> None:
    made = context(workbench, tmp_path, deadline=1.0)
    assert made.run(Command("sleep 60"), made.fork()).timed_out
