"""Bundled tasks in containers, on workers of every kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Ended
from tests.docs.runner import ROOT
from tests.run.remote.comparing import event_types, only_run, seen

SUITE = ("--suite", "custom-dev", "--tasks", str(ROOT / "tasks"), "--agent", "scripted", "--sandbox", "docker")
TASKS = ("durations-parse-units", "packlist-newest-release", "tables-shorten-overflow", "tillroll-credit-notes")
EXECUTORS = {
    "threads": (),
    "workers": ("--set", "executor.processes=4"),
    "dask": ("--set", "executor.processes=4"),
}


@pytest.mark.docker
@pytest.mark.release
def test_bundled_tasks_in_containers_of_workers(agentbench_process: Callable[..., Ended]) -> None:
    """Four worker processes, and a Dask cluster of four, give the records of threads."""
    tasks = [part for name in TASKS for part in ("--task", name)]
    for executor, more in EXECUTORS.items():
        flags = (*tasks, "--executor", executor, *more, "--workers", "4", "--out", executor)
        done = agentbench_process("run", *SUITE, *flags, seconds=400)
        assert done.code == 0, done.err
        assert "lost" not in done.err, done.err
    runs = {executor: only_run(executor) for executor in EXECUTORS}
    assert len(seen(runs["threads"])) == len(TASKS)
    for executor in ("workers", "dask"):
        assert seen(runs[executor]) == seen(runs["threads"]), executor
        assert event_types(runs[executor]) == event_types(runs["threads"])
