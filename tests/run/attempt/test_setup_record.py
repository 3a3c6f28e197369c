"""The log of a setup whose first command was run by an earlier setup."""

from __future__ import annotations

import attrs

from agentbench_core import ExecResult, Output
from agentbench_core.run.attempt.setup_record import SetupRecorder, save_setup, saved_setup
from agentbench_core.run.metering.resources import PhaseMonitor
from agentbench_core.values.events import Event, SetupCommandFinished


@attrs.frozen
class Events:
    """An event log in memory."""

    emitted: list[Event] = attrs.field(factory=list)

    def emit(self, event: Event) -> None:
        self.emitted.append(event)

    def cached(self) -> list[tuple[str, bool]]:
        return [(event.command, event.cached) for event in self.emitted if isinstance(event, SetupCommandFinished)]


def test_a_reused_command_is_marked_as_cached_and_logged_like_the_others() -> None:
    events, later = Events(), Events()
    recorder = SetupRecorder(events, PhaseMonitor())
    recorder.reused("pins", ExecResult(exit_code=0, stdout=Output(head=b"installed\n"), duration_sec=3.0))
    recorder.started("project")
    recorder.finished("project", ExecResult(exit_code=0, stdout=Output(head=b"built\n"), duration_sec=1.0))
    assert events.cached() == [("pins", True), ("project", False)]
    assert recorder.stdout.text == "$ pins\ninstalled\n$ project\nbuilt\n"
    save_setup("sha256:test", recorder.commands)
    assert [command.command for command in saved_setup("sha256:test")] == ["pins", "project"]
    recorder.tell(later)
    assert later.cached() == [("pins", True), ("project", True)]
