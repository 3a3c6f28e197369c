"""Checks: what a scorer touches, keeps and leaves behind, and what it makes of files that a program wrote."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agentbench_core import ExecResult
from agentbench_testing.checks.scorer.stage import Court, Judged, ScorerHooks, is_weak
from agentbench_testing.doubles.observing import contents

_DEEP = b"[" * 100_000


class TraceChecks(ScorerHooks):
    """Trees, evidence, sandboxes, the network, and result files."""

    def test_it_writes_only_where_it_may(self, court: Court, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Into the copies and directories that it was given: not into the prepared tree, nor where the run began."""
        monkeypatch.chdir(tmp_path)
        before = contents(court.prepared)
        assert court.judged(self.fixed).score.passed
        assert contents(court.prepared) == before
        assert contents(tmp_path) == {}

    def test_it_judges_copies(self, court: Court) -> None:
        """What it starts, it starts over a copy that ``fork`` gave: nobody else has written there."""
        for judged in court.three():
            assert [path for path in judged.environment.workspaces if path not in judged.forks] == []

    def test_output_is_kept_once(self, court: Court) -> None:
        """What the passing command printed is evidence, however it ended; of one command, and all of it."""
        for judged in court.three():
            if judged.environment.results:
                assert len(judged.saved) == 1, f"the output was recorded {len(judged.saved)} times: {judged.given}"
                assert _is_of_a_command(judged), f"{judged.saved[0]} is not one of {judged.environment.results}"

    def test_nothing_goes_on(self, court: Court) -> None:
        """When it returns, every sandbox that it started is closed, and no thread of it is left."""
        before = set(threading.enumerate())
        for failing in ((), ("run_once", "exec")):
            judged = court.judged(self.fixed, failing=failing, answering=_failed)
            assert judged.environment.open == 0, "a sandbox was not closed"
        assert _names_of_others(before) == []
        assert [judged.environment.open for judged in court.three()] == [0, 0, 0], "a sandbox was not closed"

    def test_the_network_is_the_tasks(self, court: Court) -> None:
        """Where the task has none, nothing is started with it; where it has, the tests get it."""
        without, having = court.fixed, court.judged(self.fixed, network=True, answering=_failed)
        assert True not in without.environment.networks
        assert True in having.environment.networks or not having.environment.networks

    def test_hostile_results(self, court: Court) -> None:
        """The program can write whatever the tests can: a pipe, a link, nonsense. No pass, no error, no waiting."""
        names = {
            str(path.relative_to(taken))
            for taken in court.fixed.environment.taken
            for path in taken.rglob("*")
            if path.is_file()
        }
        for (how, put), exit_code in itertools.product(_HOSTILE.items(), (1, 0)):

            def written(
                results: Path | None, put: Callable[[Path], None] = put, exit_code: int = exit_code
            ) -> ExecResult:
                for name in names if results is not None else ():
                    path = Path(results or "") / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    put(path)
                return ExecResult(exit_code=exit_code)

            judged = court.judged(self.fixed, answering=written, per_test=True)
            if judged.environment.results:  # who goes by the exit code says so: WEAK_VERDICT
                passed = judged.score.passed and (exit_code != 0 or not is_weak(judged.score))
                assert not passed, f"a result file that is {how}, exit code {exit_code}: {judged.score}"


def _failed(results: Path | None) -> ExecResult:
    return ExecResult(exit_code=1)


def _is_of_a_command(judged: Judged) -> bool:
    """Whether what was kept is what a command printed; a scorer may add to it."""
    (retained,) = judged.saved
    return any(
        retained.exit_code == result.exit_code
        and result.stdout.data in retained.stdout.data
        and result.stderr.data in retained.stderr.data
        for result in judged.environment.results
    )


def _names_of_others(before: set[threading.Thread]) -> list[str]:
    """Threads that began since; not the one that judged, which may be just ending."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(1.0)
    return [thread.name for thread in new if thread.is_alive()]


def _link(path: Path) -> None:
    path.symlink_to(path.name)


_HOSTILE: Mapping[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link to itself": _link,
    "a directory": Path.mkdir,
    "empty": Path.touch,
    "nonsense": lambda path: _write(path, b"\xff\x00<a>{\x1b[31m\n" * 100),
    "very deep": lambda path: _write(path, _DEEP),
    "of another shape": lambda path: _write(path, json.dumps({"end": [{}], "id": 3}).encode()),
}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
