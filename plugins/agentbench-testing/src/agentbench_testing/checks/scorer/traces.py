"""Checks: which files and processes a scorer uses and leaves behind, and how it handles hostile result files."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agentbench_core import ExecResult
from agentbench_testing.checks.scorer.stage import Scored, ScorerHooks, ScorerStage, is_weak
from agentbench_testing.doubles.observing import contents

_DEEP = b"[" * 100_000


class TraceChecks(ScorerHooks):
    """Trees, evidence, sandboxes, the network, and result files."""

    def test_it_writes_only_where_it_may(
        self, stage: ScorerStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The scorer writes only into its copies and directories, not into the prepared tree or working directory."""
        monkeypatch.chdir(tmp_path)
        before = contents(stage.prepared)
        assert stage.scored(self.fixed).score.passed
        assert contents(stage.prepared) == before
        assert contents(tmp_path) == {}

    def test_it_scores_copies(self, stage: ScorerStage) -> None:
        """Commands run only in copies from ``fork``, which no other attempt has changed."""
        for scored in stage.verdicts():
            assert [path for path in scored.environment.workspaces if path not in scored.forks] == []

    def test_output_is_kept_once(self, stage: ScorerStage) -> None:
        """The complete output of the passing command is recorded once, however the command ended."""
        for scored in stage.verdicts():
            if scored.environment.results:
                assert len(scored.saved) == 1, f"the output was recorded {len(scored.saved)} times: {scored.returned}"
                assert _is_command_output(scored), f"{scored.saved[0]} is not one of {scored.environment.results}"

    def test_nothing_keeps_running(self, stage: ScorerStage) -> None:
        """When ``score`` returns, all its sandboxes are closed and none of its threads is left."""
        before = set(threading.enumerate())
        for failing in ((), ("run_once", "exec")):
            scored = stage.scored(self.fixed, failing=failing, answering=_failed)
            assert scored.environment.open == 0, "a sandbox was not closed"
        assert _names_of_others(before) == []
        assert [scored.environment.open for scored in stage.verdicts()] == [0, 0, 0], "a sandbox was not closed"

    def test_network_access_is_set_by_the_task(self, stage: ScorerStage) -> None:
        """Commands get network access if and only if the task has it."""
        without, having = stage.fixed, stage.scored(self.fixed, network=True, answering=_failed)
        assert True not in without.environment.networks
        assert True in having.environment.networks or not having.environment.networks

    def test_hostile_results(self, stage: ScorerStage) -> None:
        """Result files can be anything (a pipe, a link, garbage). They must not cause a pass, an error or a hang."""
        names = {
            str(path.relative_to(taken))
            for taken in stage.fixed.environment.taken
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

            scored = stage.scored(self.fixed, answering=written, per_test=True)
            if scored.environment.results:  # a scorer that relies on the exit code labels its verdicts
                passed = scored.score.passed and (exit_code != 0 or not is_weak(scored.score))
                assert not passed, f"a result file that is {how}, exit code {exit_code}: {scored.score}"


def _failed(results: Path | None) -> ExecResult:
    return ExecResult(exit_code=1)


def _is_command_output(scored: Scored) -> bool:
    """Whether the recorded output contains a command's output; a scorer may add to it."""
    (retained,) = scored.saved
    return any(
        retained.exit_code == result.exit_code
        and result.stdout.data in retained.stdout.data
        and result.stderr.data in retained.stderr.data
        for result in scored.environment.results
    )


def _names_of_others(before: set[threading.Thread]) -> list[str]:
    """Names of threads that are not in ``before``, and do not end within a second."""
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
