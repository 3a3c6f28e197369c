"""``RecordingReporter`` of the test kit, used in a run."""

from __future__ import annotations

import sys
from typing import Any

from agentbench_testing import MakeTask

RECORDING = """
    from agentbench_core import NoOptions, Register, Reporter, hookimpl
    from agentbench_testing import RecordingReporter

    KEPT = RecordingReporter()

    @hookimpl
    def agentbench_register_reporters(register: Register[Reporter]) -> None:
        register("recording", lambda options: KEPT, NoOptions, summary="keeps what it is given")
"""


def test_recording_reporter_in_a_run(plugin: Any, make_task: MakeTask, agentbench: Any) -> None:
    """A reporter that writes no files is valid."""
    plugin("recording", RECORDING)
    make_task()
    command = ("run", "--suite", "mini", "--agent", "scripted", "--sandbox", "local")
    done = agentbench(*command, "--set", "reporters=[recording]")
    assert done.code == 0, done.err
    (kept,) = [module.KEPT for name, module in sys.modules.items() if name.startswith("plugin_agentbench_recording")]
    assert [record.result.passed for record in kept.records] == [True]
