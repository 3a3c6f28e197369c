"""Progress on a terminal: totals and running attempts at the bottom, a permanent line per finished attempt above."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text

from agentbench_core.cli.progress.lines import Display, Line, cost_in_words, results_in_words
from agentbench_core.cli.progress.state import RunningAttempt, Totals, in_time, in_tokens
from agentbench_core.values.record import AttemptRecord
from agentbench_core.values.text import escape_control, quantity

_GAP = 3  # spaces between two facts
_NARROW = 100  # columns; narrower tables have smaller gaps
_PHASE = 12  # columns: environment, agent: model
_SHOWN_VARIANTS = 6
_INDENT = 6  # of the second line of a result


class LiveProgress(Display):
    """Shows the totals and the slowest running attempts, as many as fit in three fifths of the terminal."""

    def __init__(self, console: Console, **known: Any) -> None:
        super().__init__(**known)
        self._console = console
        self._widest_name = 0

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show the display inside the block; afterwards, only the permanent lines remain."""
        live = Live(self, console=self._console, transient=True, refresh_per_second=4)
        live.start(refresh=True)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # the terminal was closed
                live.stop()

    def attempt_finished(self, record: AttemptRecord, explanation: str) -> None:
        """Remove the attempt from the display, and print its result."""
        with self.printing:
            with self.lock:
                super().attempt_finished(record, explanation)
                totals = self.totals
            line = Line.of(record, explanation, record.task_id in self.quarantined)
            head = Text.assemble(
                (f"[{totals.finished}/{totals.planned}] ", "dim"),
                f"{escape_control(line.name)}  ",
                (line.result, line.style),
                f"  {line.rest}",
            )
            self._console.print(head, soft_wrap=True)
            if line.reason:
                self._console.print(Padding(Text(escape_control(line.reason)), (0, 0, 0, _INDENT)))

    def message(self, text: str) -> None:
        """Print a line above the display."""
        with self.printing:
            self._console.print(Text(escape_control(text)), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """The current display, for the current size of the terminal."""
        width, height = self._console.size
        with self.lock:
            totals, running, now = self.totals, self.slowest(), time.monotonic()
            variants = dict(self.variants)
            facts = self._facts(totals, now)
        if not variants:
            return Text(f"checking the sandbox and the models, {now - self.started:.0f} s", style="dim")
        footer: list[RenderableType] = [_bar(totals, width), *_packed(facts, width)]
        room = height * 3 // 5 - 1 - len(footer)  # for attempts, below a rule; the rest is for results
        if 1 < len(variants) <= min(_SHOWN_VARIANTS, room - 2):
            footer.append(self._by_variant(variants))
            room -= len(variants)
        room = max(room, min(2, height - 2 - len(footer)))
        if room < 1:
            return Group(*footer[: max(1, height - 1)])
        return Group(Rule(style="dim"), *self._attempts(running, now, room, width), *footer)

    def _facts(self, totals: Totals, now: float) -> Sequence[Text]:
        facts = [Text(text, style=style) for text, style in results_in_words(totals)]
        if totals.steps:
            facts.append(Text(_steps(totals.steps)))
        if totals.llm_calls:
            both = totals.prompt_tokens + totals.completion_tokens
            sent, received = in_tokens(totals.prompt_tokens), in_tokens(totals.completion_tokens)
            facts.append(Text(f"{in_tokens(both)} tokens").append(f" ({sent} in, {received} out)", style="dim"))
        if totals.llm_calls or self.max_cost_usd is not None:
            limit = None if self.max_cost_usd is None else self.max_cost_usd * len(self.variants)
            facts.append(Text(cost_in_words(totals, limit), style=_alarm(totals, limit)))
        facts.append(Text(f"{_clock(now - self.started)} elapsed"))
        if left := self.time_left():
            facts.append(
                Text(f"ETA {in_time(left.seconds)}", style="bold").append(f" ({left.basis})", style="not bold dim")
            )
        return facts

    def _attempts(
        self, running: Sequence[RunningAttempt], now: float, room: int, width: int
    ) -> Sequence[RenderableType]:
        """The slowest attempts, one per line; the last line states how many do not fit."""
        shown = running if len(running) <= room else running[: max(1, room - 1)]
        self._widest_name = max([self._widest_name, *(cell_len(each.title) for each in shown)])
        table = Table.grid(
            Column(no_wrap=True, overflow="ellipsis", width=min(self._widest_name, max(12, width // 3))),
            Column(no_wrap=True, overflow="ellipsis", width=_PHASE, style="cyan"),
            Column(no_wrap=True, justify="right", min_width=5),
            Column(no_wrap=True, justify="right", min_width=8),
            Column(no_wrap=True, overflow="ellipsis", ratio=1, style="dim"),
            padding=(0, 1 if width < _NARROW else 2, 0, 0),
            expand=True,
        )
        for each in shown:
            table.add_row(
                Text(escape_control(each.title)),
                Text(f"{each.phase}: {each.waits_for}" if each.waits_for else each.phase),
                Text(_clock(now - each.started)),
                Text(_steps(each.steps) if each.steps else ""),
                Text(each.doing),
            )
        more = len(running) - len(shown)
        rest = [Text(f"and {more} more", style="dim")] if more and room > 1 else []
        return [table, *rest] if shown else rest

    def _by_variant(self, variants: dict[str, Totals]) -> Table:
        table = Table.grid(padding=(0, _GAP, 0, 0))
        for name, totals in variants.items():
            cells = [Text(escape_control(name)), Text(f"{totals.finished}/{totals.planned}")]
            cells += [Text(text, style=style) for text, style in results_in_words(totals)]
            if totals.llm_calls or self.max_cost_usd is not None:
                cost = cost_in_words(totals, self.max_cost_usd)
                cells.append(Text(cost, style=_alarm(totals, self.max_cost_usd)))
            for cell in cells:
                cell.no_wrap, cell.overflow = True, "ellipsis"
            table.add_row(*cells)
        return table


def _bar(totals: Totals, width: int) -> Table:
    count = f"{totals.finished}/{totals.planned}"
    bar = ProgressBar(
        total=max(1, totals.planned),
        completed=totals.finished,
        width=max(1, width - len(count) - 2),
        style="bright_black",
        complete_style="cyan",
        finished_style="green",
    )
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_row(bar, Text(count, no_wrap=True))
    return row


def _packed(facts: Sequence[Text], width: int) -> Sequence[Text]:
    """Facts side by side, on as many lines as they need; one that is wider than a line is cut."""
    lines: list[Text] = []
    for fact in facts:
        if lines and lines[-1].cell_len + _GAP + fact.cell_len <= width:
            lines[-1].append(" " * _GAP).append_text(fact)
        else:
            lines.append(Text(no_wrap=True, overflow="ellipsis").append_text(fact))
    return lines


def _steps(count: int) -> str:
    return quantity(count, "step")


def _alarm(totals: Totals, limit: float | None) -> str:
    """The style of a cost: it stands out when less than a fifth of the limit is left."""
    return "bold yellow" if limit is not None and totals.cost_usd > 0.8 * limit else ""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
