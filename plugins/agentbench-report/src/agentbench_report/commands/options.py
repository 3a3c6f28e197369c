"""Options shared by several commands, including the flags that override a refused comparison."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentbench_report.comparison.refusal_reasons import FLAGS, RefusalReason

if TYPE_CHECKING:
    from agentbench_core.harness import DateRange
    from agentbench_report.comparison.refusals import Refusal
    from agentbench_report.counts import RunCounts

F = TypeVar("F", bound=Callable[..., Any])


class _Share(click.FloatRange):
    """A float range that rejects nan, which click accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


confidence_option = click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=_Share(0.5, 0.999),
    help="Confidence level of intervals. The significance level of tests is 1 minus this value.",
)


resamples_option = click.option(
    "--resamples",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Number of bootstrap resamples, and of sign flips if there are too many to enumerate.",
)


def format_option(*styles: str, description: str) -> Callable[[F], F]:
    """Add ``--format``: ``table``, ``md``, or one of ``styles``. The command receives it as ``style``."""
    choice = click.Choice(["table", "md", *styles])
    return click.option(
        "--format",
        "style",
        default=_default_style,
        show_default="table in a terminal, otherwise md",
        type=choice,
        help=description,
    )


def _default_style() -> str:
    return "table" if sys.stdout.isatty() else "md"


def print_report(style: str, markdown: Callable[[], str], **others: Callable[[], str]) -> None:
    """Print a report in one of the formats of :func:`format_option`; ``others`` are the formats other than Markdown."""
    if style == "table":
        from agentbench_core.harness import show_page

        show_page(markdown())
    else:
        click.echo((others | {"md": markdown})[style](), nl=False)


def allow_flags(*exclude: RefusalReason) -> Callable[[F], F]:
    """Add the ``--allow-...`` flags, except for ``exclude``. The command receives them as keywords for ``allowed``."""

    def add(command: F) -> F:
        for ground, help_ in reversed(FLAGS.items()):
            if ground not in exclude:
                command = click.option(str(ground.flag), is_flag=True, default=False, help=help_)(command)
        return command

    return add


def allowed(flags: Mapping[str, bool]) -> Collection[RefusalReason]:
    """The reasons for refusal that are overridden by the ``--allow-...`` flags of a command."""
    return [ground for ground in FLAGS if flags[f"allow_{ground.replace('-', '_')}"]]


def read_run(directory: Path, dates: DateRange) -> RunCounts:
    """Count the attempts of a run at tasks in a range of dates. Prints a note to stderr if the range is limited."""
    from agentbench_report.reading import read, shown

    run = read(directory, dates)
    if run.selection:
        click.echo(f"note: {shown(str(directory))}: {shown(run.selection)}", err=True)
    return run


def print_overridden(runs: str, refusals: Iterable[Refusal]) -> None:
    """Print the overridden refusals to stderr, since CSV output cannot include them."""
    from agentbench_report.comparison.refusals import name_list
    from agentbench_report.reading import shown

    for refusal in refusals:
        tasks = f"; tasks: {name_list(refusal.tasks)}" if refusal.tasks else ""
        details = f"{refusal.reason} A: {refusal.a}; B: {refusal.b}{tasks}"
        click.echo(f"warning: {runs} are not comparable (overridden by {refusal.flag}): {shown(details)}", err=True)
