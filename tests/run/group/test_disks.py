"""Disks that are full, nearly full or read-only: real, small file systems mounted for one command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from agentbench_core import open_run
from agentbench_core.run import waiting as space

NOISY = """
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    COMMAND = "seq 20000 > big.txt; echo fixed > app.txt"

    class Noisy:
        def solve(self, context):
            try:
                context.tools.call(ToolCall(tool="run", arguments={"command": COMMAND}))
            except Exception:
                pass
            return AgentResult()

    class Talks:
        def solve(self, context):
            for _ in range(400):
                try:
                    context.tools.call(ToolCall(tool="list_files", arguments={"root": "", "glob": None}))
                except Exception:
                    pass
            context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}))
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("noisy", lambda options: Noisy(), Options, summary="much evidence")
        register("talks", lambda options: Talks(), Options, summary="many events")
"""


@attrs.frozen
class Output:
    """Output of a script."""

    out: str
    err: str


@pytest.fixture
def script(plugin: Any) -> Callable[[str], Output]:
    """Run shell commands in a separate mount namespace; ``$RUN`` starts a run, ``$AB`` is the command."""
    site = plugin("noisy", NOISY)
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    ab = Path(sys.executable).parent / "agentbench"
    own = {"PYTHONPATH": str(site), "AB": str(ab), "RUN": f"{ab} run --suite mini --workers 1"}

    def run(text: str) -> Output:
        command = ["unshare", *as_root, "--mount", "sh", "-uc", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | own)
        assert done.returncode == 0, done.stderr
        return Output(done.stdout, done.stderr)

    return run


@pytest.mark.long
@pytest.mark.mounts
@pytest.mark.parametrize(("agent", "repeats"), [("noisy", 6), ("talks", 6)])
def test_full_disk_stops_the_run_and_it_can_be_resumed(
    make_task: Any, script: Callable[[str], Output], agent: str, repeats: int
) -> None:
    """F04, F05: evidence or events fill it. Records are kept, agents are not blamed, and no line is damaged."""
    make_task()
    Path("full").mkdir()
    output = script(f"""
        mount -t tmpfs -o size=400k none full
        $RUN --agent {agent} --repeats {repeats} --max-steps 1000 --out full --set run.min_free_mb=0
        echo ended=$?
        cp -r full when-full
        mount -o remount,size=50m full
        $AB run --resume full/*
        echo ended=$?
        cp -r full at-last
    """)
    assert [line for line in output.out.splitlines() if "ended=" in line] == ["ended=4", "ended=0"]
    (stopped,) = Path("when-full").iterdir()
    assert "No space left on device" in output.err
    remedy = "Free disk space, or make the directory writable, then run: agentbench run --resume"
    assert f"{remedy} full/{stopped.name}\n" in output.err
    records = list(open_run(stopped).every_record())
    assert 0 < len(records) < repeats
    assert all(record.result.passed for record in records)
    (whole,) = Path("at-last").iterdir()
    assert [record.result.passed for record in open_run(whole).records()] == [True] * repeats
    kept = {record.attempt_id for record in open_run(whole).every_record()}
    assert {record.attempt_id for record in records} <= kept
    assert list(open_run(whole).events())


@pytest.mark.mounts
def test_a_disk_that_is_full_from_the_start(make_task: Any, script: Callable[[str], Output]) -> None:
    """F04: if the run cannot even be planned, nothing is left behind, and the error says so."""
    make_task()
    Path("full").mkdir()
    output = script("""
        mount -t tmpfs -o size=8k none full
        head -c 8k /dev/zero > full/filler
        $RUN --agent idle --out full --set run.min_free_mb=0
        echo ended=$?
        ls full
    """)
    assert output.out == "ended=4\nfiller\n"
    assert "No space left on device" in output.err
    assert "Nothing was recorded. Choose another directory: --out DIR" in output.err


def test_file_size_limit_of_the_harness_stops_the_run(make_task: Any, script: Callable[[str], Output]) -> None:
    """F04: a file size limit (``ulimit -f``) stops the run; the agent is not blamed."""
    make_task()
    output = script("ulimit -f 60; $RUN --agent noisy; echo ended=$?")
    assert output.out.endswith("ended=4\n")
    assert "File too large" in output.err
    (run,) = Path("artifacts/runs").iterdir()
    assert list(open_run(run).every_record()) == []


@pytest.mark.mounts
def test_results_that_cannot_be_written(make_task: Any, agentbench: Any, script: Callable[[str], Output]) -> None:
    """F30: a clear error before anything runs."""
    make_task()
    assert agentbench("run", "--suite", "mini", "--agent", "idle", "--out", "there").code == 0
    output = script("""
        mount --bind there there
        mount -o remount,bind,ro there
        $RUN --agent idle --out there
        echo ended=$?
        $AB run --resume there/*
        echo ended=$?
        $AB runs rebuild there/*
        echo ended=$?
        $AB runs show there/*
        echo ended=$?
    """)
    assert [line for line in output.out.splitlines() if "ended=" in line] == ["ended=2"] * 3 + ["ended=0"]
    assert "no run directory can be created in there: there is not writable" in output.err
    assert (output.out + output.err).count("error: cannot write to there/") == 2


@pytest.mark.release
@pytest.mark.mounts
def test_a_disk_that_is_nearly_full_is_waited_for(make_task: Any, script: Callable[[str], Output]) -> None:
    """F29, H13: the next phase waits; it is not the agent's failure, and the time does not count."""
    make_task()
    Path("tight").mkdir()
    output = script("""
        mount -t tmpfs -o size=60m none tight
        head -c 50M /dev/zero > tight/filler
        touch said
        (until grep -q "waiting for free space" said; do sleep 0.1; done; sleep 4; rm tight/filler) &
        $RUN --agent scripted --out tight --set run.min_free_mb=30 --set limits.timeout_sec=3 2>said
        echo ended=$?
        cat said >&2
        wait
        cp -r tight later
    """)
    assert "ended=0" in output.out
    assert output.err.count("waiting for free space") == 1
    assert "run.min_free_mb is 30" in output.err
    (run,) = Path("later").iterdir()
    (record,) = open_run(run).records()
    assert record.result.passed
    assert record.duration_sec > 3  # longer than its time limit


def test_waiting_for_disk_space_is_bounded(make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F29: after some time, the run stops with the reason and can be resumed."""
    monkeypatch.setattr(space, "PATIENCE_SEC", 0.2)
    make_task()
    stopped = agentbench("run", "--suite", "mini", "--agent", "scripted", "--set", "run.min_free_mb=900000000")
    assert stopped.code == 4
    assert "MB is free in" in stopped.err
    assert "--set run.min_free_mb=N" in stopped.err
    (run,) = Path("artifacts/runs").iterdir()
    assert list(open_run(run).every_record()) == []
    done = agentbench("run", "--resume", str(run), "--set", "run.min_free_mb=1")
    assert "1 of 1 scored attempts passed" in done.out


REMOVES = """
    import pathlib, attrs
    from agentbench_core import AgentResult, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Agent:
        def solve(self, context):
            with open("calls", "a") as file:
                file.write("x")
            {body}
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register):
        register("removes", lambda options: Agent(), Options, summary="takes the run directory away")
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("__import__('shutil').rmtree(next(pathlib.Path('artifacts/runs').iterdir()))", id="removed"),
        pytest.param("next(pathlib.Path('artifacts/runs').iterdir()).rename('elsewhere')", id="moved"),
        pytest.param("next(pathlib.Path('artifacts/runs').glob('*/events.jsonl')).unlink()", id="its events removed"),
    ],
)
def test_removed_run_directory_stops_the_run(make_task: Any, plugin: Any, agentbench: Any, body: str) -> None:
    """No further attempt starts, and the command fails."""
    plugin("removes", REMOVES.format(body=body))
    make_task()
    done = agentbench("run", "--suite", "mini", "--agent", "removes", "--repeats", "5", "--workers", "1")
    assert done.code == 4, done.out
    assert "was removed or moved during the run" in done.err
    assert "Traceback" not in done.err
    assert Path("calls").read_text() == "x"
