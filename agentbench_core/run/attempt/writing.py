"""A run that is being written, and the attempts in it: one writer each, and one record per attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from agentbench_core.evidence.store import Store
from agentbench_core.run.attempt.record import Conclusion, record_of
from agentbench_core.run.metering.models import RunStop
from agentbench_core.run.observer import RunObserver
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.recording import AttemptLog, Recording
from agentbench_core.run.variant import Variant
from agentbench_core.values.events import TaskStarted


@attrs.define(kw_only=True)
class RunWriter:
    """A run that is being written."""

    store: Store
    variant: Variant
    plans: Sequence[AttemptPlan]
    planned: int
    recorded: int = 0
    """Number of planned attempts that are already recorded."""
    stop: RunStop = attrs.field(factory=RunStop)


class AttemptWriter:
    """Writes the events and files of one attempt to its run, and at the end its one record."""

    def __init__(self, plan: AttemptPlan, store: Store, observer: RunObserver, worker: str = "") -> None:
        """Record the start of the attempt; it is on disk when this returns. ``worker`` is empty for this process."""
        self._plan = plan
        self._store = store
        self._observer = observer
        task = plan.task.spec
        observer.attempt_started(plan.attempt_id, plan.variant.name, task.id, plan.repeat)
        self.log = AttemptLog(store, plan.attempt_id, observer)
        started = TaskStarted(task_id=task.id, repeat=plan.repeat, supersedes=plan.supersedes, worker=worker)
        self.log.emit(started, durable=True)
        self.files = store.attempt_files(task.id, plan.repeat)
        self.recording = Recording(log=self.log, files=self.files, directory=self.files.directory)

    def finish(self, end: Callable[[], Conclusion], *, lost: bool = False) -> None:
        """Write the record; it is on disk when this returns. Events and files are refused from then on.

        ``lost``: the attempt is repeated, because its worker was lost.
        """
        record, why = record_of(self._plan, end, self.files.directory)
        self.log.ended = True
        self.files.close()
        self._store.record(record, why)
        (self._observer.attempt_lost if lost else self._observer.attempt_finished)(record, why)
