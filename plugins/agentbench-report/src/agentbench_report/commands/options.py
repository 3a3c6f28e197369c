"""Options that several reports have, among them the flags that override a refusal to compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentbench_report.comparison.grounds import FLAGS, Ground

if TYPE_CHECKING:
    from agentbench_report.comparison.comparable import Refusal

F = TypeVar("F", bound=Callable[..., Any])

RUN_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


class _Share(click.FloatRange):
    """A range that nan is not in, although it is neither below nor above."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value} is no number.", param, ctx)
        return found


confidence_option = click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=_Share(0.5, 0.999),
    help="Of intervals; the level of tests is 1 minus it.",
)


resamples_option = click.option(
    "--resamples",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Of the bootstrap, and of sign flips that are too many to try all.",
)


def format_option(*styles: str, says: str) -> Callable[[F], F]:
    """``--format``, the first one being the default; ``says`` is its help. The command takes it as ``style``."""
    return click.option("--format", "style", default=styles[0], show_default=True, type=click.Choice(styles), help=says)


def allow_flags(*but: Ground) -> Callable[[F], F]:
    """Add ``--allow-...``, but for some; the command takes them as keywords, see :func:`allowed`."""

    def add(command: F) -> F:
        for ground, help_ in reversed(FLAGS.items()):
            if ground not in but:
                command = click.option(str(ground.flag), is_flag=True, default=False, help=help_)(command)
        return command

    return add


def allowed(flags: Mapping[str, bool]) -> Collection[Ground]:
    """The grounds that flags override, from the keywords of a command."""
    return [ground for ground in FLAGS if flags[f"allow_{ground.replace('-', '_')}"]]


def tell_overridden(which: str, refusals: Iterable[Refusal]) -> None:
    """Say on stderr what was overridden: a table as CSV has no place for it."""
    from agentbench_report.comparison.comparable import some
    from agentbench_report.reading import shown

    for refusal in refusals:
        tasks = f"; tasks: {some(refusal.tasks)}" if refusal.tasks else ""
        about = f"{refusal.reason} A: {refusal.a}; B: {refusal.b}{tasks}"
        click.echo(f"{which}: not comparable, and compared all the same ({refusal.flag}): {shown(about)}", err=True)
