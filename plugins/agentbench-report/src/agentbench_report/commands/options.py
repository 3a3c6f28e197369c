"""Options that several reports have, among them the flags that override a refusal to compare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from agentbench_report.comparison.grounds import FLAGS, Ground

F = TypeVar("F", bound=Callable[..., Any])

RUN_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)

confidence_option = click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0.5, 1, max_open=True),
    help="Of intervals; the level of tests is 1 minus it.",
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
