"""Work on all candidates of a repository: in parallel, resumable, up to a number of tasks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import attrs

from agentbench_core import Interrupted, digest, dump
from agentbench_core.harness import History, RunObserver, Task, Variant, open_session
from agentbench_tasks.mining.candidate import Candidate
from agentbench_tasks.mining.discussions import Discussion
from agentbench_tasks.mining.environments import Environments, bare_task
from agentbench_tasks.mining.ledger import Entry, Ledger
from agentbench_tasks.mining.task_files import remove_staged, task_id_for
from agentbench_tasks.mining.values import Commit
from agentbench_tasks.mining.workshop import MiningSettings, Workshop

_POLL = 0.2  # seconds
STAGING = ".mining"
"""Directory inside a suite for unfinished tasks. Its contents are removed when a command starts."""


class Watcher(RunObserver):
    """A run observer that also receives the results. Its methods are called from several threads."""

    def tried(self, entry: Entry) -> None:
        """Called when the work on one commit has ended."""

    def step(self, commit: Commit, message: str) -> None:
        """Called when one step of the work on a commit is done."""


@attrs.frozen(kw_only=True)
class Source:
    """The source of commits, and the destination of tasks."""

    history: History
    root: Path  #: directory of the suite
    ledger: Ledger
    discussions: Mapping[str, Discussion] = {}


def settings_digest(settings: MiningSettings, sandbox: str) -> str:
    """Identifies the settings that the result of a commit depends on."""
    return digest({"settings": dump(settings), "sandbox": sandbox})


def texts_digest(settings: str, discussions: Mapping[str, Discussion]) -> str:
    """Identifies settings, by their digest, and texts, since the choice of a description depends on both."""
    return digest([settings, {reference: dump(discussion) for reference, discussion in discussions.items()}])


@contextlib.contextmanager
def open_workshop(
    source: Source,
    settings: MiningSettings,
    variant: Variant,
    watcher: Watcher,
    *,
    workers: int,
    resists: Callable[[Task], str] | None,
) -> Iterator[Workshop]:
    """Open the sandbox, and the directory for unfinished tasks.

    Raises:
        UnavailableError: the sandbox is not available.
    """
    staging = source.root / STAGING
    remove_staged(staging)
    history = source.history
    identity = settings_digest(settings, variant.sandbox.name)
    probes = [
        bare_task(history.url, history.head, python, image, staging / "probe", settings.setup_timeout_sec)
        for python, image in settings.images.items()
    ]
    taken = {path.name for path in source.root.iterdir()} if source.root.is_dir() else set()
    lock = threading.Lock()

    def name_task(title: str) -> str:
        with lock:
            return task_id_for(title, taken)

    with contextlib.ExitStack() as stack:
        stack.callback(remove_staged, staging)
        session = stack.enter_context(open_session([variant], probes, watcher, workers=workers))
        stack.callback(session.stop.end, Interrupted("mining ended"))
        yield Workshop(
            history=history,
            root=source.root,
            staging=staging,
            session=session,
            variant=variant,
            environments=Environments(
                session=session,
                ledger=source.ledger,
                url=history.url,
                images=settings.images,
                staging=staging,
                timeout_sec=settings.setup_timeout_sec,
            ),
            settings=settings,
            settings_digest=identity,
            texts_digest=texts_digest(identity, source.discussions),
            discussions=source.discussions,
            name_task=name_task,
            resists=resists,
        )


def mine(
    shop: Workshop, commits: Sequence[Commit], ledger: Ledger, watcher: Watcher, *, limit: int | None, workers: int
) -> Sequence[Entry]:
    """Work on commits in order until ``limit`` of them are tasks, and return the results.

    Each result is written to the ledger before the next commit starts, so that nothing is lost if the command is
    interrupted or killed.

    Raises:
        KeyboardInterrupt: the user interrupted it; no process is left running.
        InputError: the ledger cannot be written.
    """
    line = _Line(commits, limit)
    results: list[Entry] = []

    def work() -> None:
        try:
            while (commit := line.take()) is not None:
                entry = Candidate(shop=shop, commit=commit, watch=partial(watcher.step, commit)).work()
                ledger.add(entry)
                results.append(entry)
                watcher.tried(entry)
                line.done(is_task=bool(entry.task))
        except BaseException:
            line.close()
            raise

    with contextlib.ExitStack() as stack:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="mining")
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        stack.callback(shop.session.stop.end, Interrupted("mining ended"))
        stack.callback(line.close)
        for future in [pool.submit(work) for _ in range(workers)]:
            future.result()
    return results


class _Line:
    """Commits in order, handed out while more tasks are needed than are in progress."""

    def __init__(self, commits: Sequence[Commit], limit: int | None) -> None:
        self._rest = iter(commits)
        self._needed = len(commits) if limit is None else limit
        self._running = 0
        self._changed = threading.Condition()

    def take(self) -> Commit | None:
        """The next commit, possibly after waiting for the result of another; ``None`` if no more are needed."""
        with self._changed:
            while self._running >= self._needed > 0:
                self._changed.wait(_POLL)
            commit = next(self._rest, None) if self._needed > 0 else None
            self._running += commit is not None
            return commit

    def done(self, *, is_task: bool) -> None:
        """Report that a commit has a result."""
        with self._changed:
            self._running -= 1
            self._needed -= is_task
            self._changed.notify_all()

    def close(self) -> None:
        """Hand out no more commits, because a worker has failed."""
        with self._changed:
            self._needed = 0
            self._changed.notify_all()
