"""Selects the display of a run: `--progress`, and the abilities of the terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from agentbench_core.cli.app import say
from agentbench_core.cli.progress.lines import Display, JsonProgress, PlainProgress

progress_flag = click.option(
    "--progress",
    "display",
    type=click.Choice(["auto", "rich", "plain", "json"]),
    default="auto",
    show_default=True,
    help="Progress on standard error: a live display, one line per event, or one JSON object per line. "
    "auto: live if standard error is a terminal that can show it, otherwise lines.",
)  #: adds `--progress` as `display`


@contextlib.contextmanager
def progress(
    display: str,
    *,
    workers: int,
    max_cost_usd: float | None,
    isolated: bool,
    quarantined: Mapping[str, str],
) -> Iterator[Display]:
    """Show the progress of a run on standard error inside the block. The display can print messages afterwards.

    Args:
        display: `auto`, `rich`, `plain` or `json`. Raises UsageError for `rich` without a terminal that can show it.
        workers: number of attempts that run at the same time.
        max_cost_usd: maximum cost of each variant's run in US dollars, if limited.
        isolated: whether the sandbox is isolated; otherwise, a warning is printed.
        quarantined: reasons for the quarantine by task id; empty for other tasks.
    """
    excluded = {task_id: reason for task_id, reason in quarantined.items() if reason}
    known: dict[str, Any] = {"workers": workers, "max_cost_usd": max_cost_usd, "quarantined": frozenset(excluded)}
    obstacle = _obstacle()
    if display == "rich" and obstacle:
        raise click.UsageError(f"--progress rich: {obstacle}; use --progress plain or json")
    if display == "rich" or (display == "auto" and not obstacle):
        from rich.console import Console  # slow to import

        from agentbench_core.cli.progress.live import LiveProgress

        live = LiveProgress(Console(stderr=True), **known)
        _warn(live, isolated, excluded)
        with live.shown():
            yield live
        return
    lines = JsonProgress(**known) if display == "json" else PlainProgress(**known)
    _warn(lines, isolated, excluded)
    with _repeating(lines.tick):
        yield lines


def warn_unisolated() -> None:
    """Warn about a sandbox that is not isolated."""
    say(_UNISOLATED, err=True)


_UNISOLATED = "warning: this sandbox is not isolated; commands run with your user's permissions"


def _warn(display: Display, isolated: bool, quarantined: Mapping[str, str]) -> None:
    if not isolated:
        display.message(_UNISOLATED)
    for task_id, reason in quarantined.items():
        display.note(f"{task_id} is quarantined and excluded from headline figures: {reason}")


def _obstacle() -> str:
    """Why standard error cannot show a live display; empty if it can."""
    if not sys.stderr.isatty():
        return "standard error is not a terminal"
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        return "this terminal cannot move the cursor (see TERM)"
    return "" if console.encoding.startswith("utf") else f"this terminal's encoding is {console.encoding}, not UTF-8"


@contextlib.contextmanager
def _repeating(action: Callable[[], None]) -> Iterator[None]:
    """Call ``action`` every second inside the block."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(1):
            action()

    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
