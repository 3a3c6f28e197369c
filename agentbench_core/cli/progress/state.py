"""The data that all displays of a run show: counts, usage, running attempts, and the time left."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import attrs

from agentbench_core.run.observer import RunObserver
from agentbench_core.values.events import (
    BaselineStarted,
    Delegation,
    Event,
    LLMFailed,
    LLMRequest,
    LLMResponse,
    SetupCommandStarted,
    TaskStarted,
    TestsStarted,
    ToolCallFinished,
    ToolCallStarted,
)
from agentbench_core.values.record import AttemptRecord
from agentbench_core.values.text import escape_control, shorten

_WIDEST = 200  # maximum characters of an attempt's current action; terminals shorten it


@attrs.define(kw_only=True)
class Totals:
    """Counts and usage of one variant, or of all variants together."""

    planned: int = 0  #: attempts to run, including those that a resumed run keeps
    passed: int = 0  #: attempts that passed
    failed: int = 0  #: scored attempts that did not pass
    errors: int = 0  #: attempts that could not be scored
    steps: int = 0  #: tool calls
    llm_calls: int = 0  #: model calls
    prompt_tokens: int = 0  #: input tokens
    completion_tokens: int = 0  #: output tokens
    cost_usd: float = 0.0  #: US dollars; for a call of unknown cost, its reservation
    durations: list[float] = attrs.field(factory=list, repr=False)  #: seconds of each finished attempt

    @property
    def finished(self) -> int:
        """Number of finished attempts."""
        return self.passed + self.failed + self.errors

    def count(self, record: AttemptRecord) -> None:
        """Add the result of a finished attempt."""
        self.passed += record.scored and record.result.passed
        self.failed += record.scored and not record.result.passed
        self.errors += not record.scored
        self.durations.append(record.duration_sec)

    def plus(self, other: Totals) -> Totals:
        """The sum."""
        mine, its = (attrs.asdict(totals, recurse=False) for totals in (self, other))
        return Totals(**{name: value + its[name] for name, value in mine.items()})


@attrs.define(kw_only=True)
class RunningAttempt:
    """An attempt that has not ended, or a reporter. Times are from the monotonic clock."""

    variant: str  #: name of the variant; empty for a reporter
    name: str  #: task and repetition, or the reporter
    started: float  #: start of the attempt
    phase: str  #: the current phase
    phase_started: float  #: start of the phase
    worker: str = ""  #: the worker that runs it; empty: this process
    steps: int = 0  #: tool calls so far
    doing: str = ""
    """The last command, tool call or failed model call of the phase, on one line, without control characters."""
    waits_for: str = ""  #: ``model`` or ``tool`` while a call is in progress
    reserved: dict[tuple[int, int], float] = attrs.field(factory=dict, repr=False)
    """Maximum cost of the model calls in progress."""
    children: set[str] = attrs.field(factory=set, repr=False)
    """Names of sub-agents."""

    @property
    def title(self) -> str:
        """Variant, task and repetition, and the worker."""
        return f"{self.variant} {self.name}{f' on {self.worker}' * bool(self.worker)}".strip()


@attrs.frozen
class TimeLeft:
    """An estimate of the time until all attempts have finished."""

    seconds: float  #: seconds from now
    basis: str  #: human-readable basis of the estimate


class RunState(RunObserver):
    """Observes a run and keeps the data for displays. Subclasses print; they hold ``lock`` while they read."""

    def __init__(
        self, *, workers: int = 1, max_cost_usd: float | None = None, quarantined: Collection[str] = ()
    ) -> None:
        """``max_cost_usd`` limits each variant; ``quarantined`` are ids of tasks."""
        self.workers = workers
        self.max_cost_usd = max_cost_usd
        self.quarantined = quarantined
        self.variants: dict[str, Totals] = {}
        self.running: dict[str, RunningAttempt] = {}
        """Running attempts by id, and reporters by name."""
        self.started = time.monotonic()
        self.lock = threading.RLock()

    @property
    def totals(self) -> Totals:
        """The sum over all variants."""
        with self.lock:
            total = Totals()
            for each in self.variants.values():
                total = total.plus(each)
            return total

    def run_started(
        self, variant: str, directory: Path, attempts: int, recorded: Sequence[AttemptRecord], spent_usd: float
    ) -> None:
        """Count the attempts that a resumed run has already recorded."""
        with self.lock:
            totals = self.variants[variant] = Totals(planned=attempts, cost_usd=spent_usd)
            for record in recorded:
                totals.count(record)
                totals.steps += record.usage.steps
                totals.llm_calls += record.usage.llm_calls
                totals.prompt_tokens += record.usage.prompt_tokens
                totals.completion_tokens += record.usage.completion_tokens

    def attempt_started(self, attempt_id: str, variant: str, task_id: str, repeat: int) -> None:
        """Add the attempt."""
        now = time.monotonic()
        name = attempt_name(task_id, repeat)
        with self.lock:
            self.running[attempt_id] = RunningAttempt(
                variant=variant, name=name, started=now, phase="begins", phase_started=now
            )

    def phase_started(self, attempt_id: str, phase: str) -> None:
        """Keep the phase."""
        with self.lock:
            attempt = self.running[attempt_id]
            attempt.phase, attempt.phase_started = phase, time.monotonic()
            attempt.doing = attempt.waits_for = ""

    def event(self, attempt_id: str, event: Event) -> None:
        """Count model calls and tool calls, and keep the last command or call."""
        with self.lock:
            attempt = self.running.get(attempt_id)
            if attempt is None:
                return
            totals = self.variants.setdefault(attempt.variant, Totals())
            match event:
                case TaskStarted(worker=worker):
                    attempt.worker = one_line(worker)
                case (
                    SetupCommandStarted(command=command, cached=False)
                    | BaselineStarted(command=command, cached=False)
                    | TestsStarted(command=command)
                ):
                    attempt.doing = one_line(command)
                case LLMRequest():
                    totals.llm_calls += event.exchange == 1
                    attempt.reserved[event.call, event.exchange] = event.reserved_usd
                    attempt.waits_for = "model"
                case LLMResponse() | LLMFailed():
                    reserved = attempt.reserved.pop((event.call, event.exchange), 0.0)
                    totals.prompt_tokens += event.prompt_tokens
                    totals.completion_tokens += event.completion_tokens
                    totals.cost_usd += reserved if event.cost_usd is None else event.cost_usd
                    attempt.waits_for = "model" if attempt.reserved else ""
                    if isinstance(event, LLMFailed):
                        attempt.doing = one_line(f"model call failed: {event.error} {event.status or ''}")
                case ToolCallStarted():
                    totals.steps += 1
                    attempt.steps += 1
                    who = f"{event.agent}: " if event.agent in attempt.children else ""
                    attempt.doing = one_line(f"{who}{shorten(event.tool, 60)} {event.arguments}")
                    attempt.waits_for = "tool"
                case ToolCallFinished():
                    attempt.waits_for = "model" if attempt.reserved else ""
                case Delegation():
                    attempt.children.add(event.child)

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Count the result."""
        with self.lock:
            self.running.pop(record.attempt_id, None)
            self.variants.setdefault(record.variant, Totals()).count(record)

    def attempt_lost(self, record: AttemptRecord, explanation: str) -> None:
        """Remove the attempt, without a result."""
        with self.lock:
            self.running.pop(record.attempt_id, None)
        self.note(f"{attempt_name(record.task_id, record.repeat)}: {explanation}; the attempt will be repeated")

    def report_started(self, reporter: str) -> None:
        """Add the reporter."""
        now = time.monotonic()
        with self.lock:
            self.running[reporter] = RunningAttempt(
                variant="", name=f"reporter {reporter}", started=now, phase="report", phase_started=now
            )

    def report_finished(self, reporter: str) -> None:
        """Remove the reporter."""
        with self.lock:
            self.running.pop(reporter, None)

    def slowest(self) -> Sequence[RunningAttempt]:
        """Copies of the running attempts, in the order of their start."""
        with self.lock:
            return [attrs.evolve(attempt) for attempt in sorted(self.running.values(), key=lambda each: each.started)]

    def time_left(self) -> TimeLeft | None:
        """The time until all attempts have finished; ``None`` before the first has finished, and when none is left.

        An attempt is assumed to take the median time of its variant's attempts: those that have finished, and those
        that have been running for longer than the median of the finished ones, since short attempts finish first. For a
        variant without finished attempts, the median of all variants is used.
        """
        with self.lock:
            left = {name: totals.planned - totals.finished for name, totals in self.variants.items()}
            finished = [seconds for totals in self.variants.values() for seconds in totals.durations]
            if not finished or not any(left.values()):
                return None
            now = time.monotonic()
            running = [(each.variant, now - each.started) for each in self.running.values() if each.variant in left]
            known = {name: totals.durations or finished for name, totals in self.variants.items()}
        longer = [(name, seconds) for name, seconds in running if seconds > statistics.median(known[name])]
        typical = {
            name: statistics.median([*known[name], *(seconds for which, seconds in longer if which == name)])
            for name, count in left.items()
            if count
        }
        rests = [max(0.0, typical[name] - seconds) for name, seconds in running]
        waiting = sum(count * typical[name] for name, count in left.items() if count)
        waiting -= sum(typical[name] for name, _ in running)
        workers = min(self.workers, sum(left.values()))
        of = f"{len(finished)} finished" + (f" and {len(longer)} slower" if longer else "")
        of += " attempts" if len(finished) + len(longer) > 1 else " attempt"
        median = f"median {in_time(*typical.values())} of" if len(typical) == 1 else "medians of"
        seconds = max(0.0, *rests, (waiting + sum(rests)) / workers)
        return TimeLeft(seconds, f"{median} {of}, {workers} at a time")


def attempt_name(task_id: str, repeat: int) -> str:
    """The name of an attempt: the task, and the number of the repetition unless it is the first."""
    return f"{task_id}@{repeat}" if repeat > 1 else task_id


def one_line(text: str) -> str:
    """Untrusted text for one line of a terminal."""
    return shorten(escape_control(" ".join(text[: 2 * _WIDEST].split())), _WIDEST)


def in_time(seconds: float) -> str:
    """A human-readable duration: ``38 s``, ``4 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def in_usd(usd: float) -> str:
    """An amount in US dollars: ``$0``, ``$0.0042``, ``$1.25``."""
    return "$0" if not usd else f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


def in_tokens(tokens: int) -> str:
    """A number of tokens: ``950``, ``12.3k``, ``1.2M``."""
    return f"{tokens / 1e6:.1f}M" if tokens >= 1e6 else f"{tokens / 1e3:.1f}k" if tokens >= 1e3 else str(tokens)
