"""``tasks mine`` on a repository whose author wants to do harm: what is printed, and where its code runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench_testing.fixtures import RunAgentbench
from tests.histories import History, calculator

HOSTILE = "Sums of \x1b]0;owned\x07 two \x9b31mnumbers\u202e are wrong"


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A fix whose message contains escape sequences, and a name that bidi controls reverse."""
    made = calculator(tmp_path / "sums")
    files = {"lib/add.sh": "echo $(($1 + $2))\n", "tests/check_\u202eadd.sh": "[ $(sh lib/add.sh 1 2) = 3 ]\n"}
    made.commit(HOSTILE, files)
    return made


@pytest.mark.parametrize("flags", [("--dry-run",), ("--explain", "HEAD"), ("--dry-run", "--paths", "docs/**")])
def test_text_of_a_repository_does_not_control_the_terminal(
    history: History, flags: tuple[str, ...], run_agentbench: RunAgentbench, tmp_path: Path
) -> None:
    """M07: it is shown escaped, in tables and in the story of a commit."""
    done = run_agentbench("tasks", "mine", "--repo", str(history.path), "--suite", "mined", *flags, cwd=tmp_path)
    assert done.code == 0, done.err
    assert not set("\x1b\x07\x9b\u202e") & set(done.out + done.err)
    assert ("\\u001b]0;owned" in done.out) == ("--paths" not in flags), done.out


@pytest.mark.parametrize("command", [("mine",), ("new", "one", "--fix", "HEAD")], ids=["mine", "new"])
def test_code_of_a_repository_runs_in_no_sandbox_that_is_not_isolated(
    history: History, command: tuple[str, ...], run_agentbench: RunAgentbench, tmp_path: Path
) -> None:
    """M09: unless this is allowed; nothing is written."""
    flags = ("--repo", str(history.path), "--suite", "mined", "--sandbox", "local")
    done = run_agentbench("tasks", *command, *flags, "--test-command", "touch ran; false", cwd=tmp_path)
    assert (done.code, "--allow-unisolated" in done.err) == (2, True), done.err
    assert not (tmp_path / "tasks").exists()
    assert not list(tmp_path.rglob("ran"))
