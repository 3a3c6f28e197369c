"""The flags that override a refusal to compare, for every command that compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from agentbench_report.comparison.grounds import FLAGS, Ground

F = TypeVar("F", bound=Callable[..., Any])


def allow_flags(command: F) -> F:
    """Add ``--allow-...``; the command takes them as keywords, see :func:`allowed`."""
    for ground, help_ in reversed(FLAGS.items()):
        command = click.option(str(ground.flag), is_flag=True, default=False, help=help_)(command)
    return command


def allowed(flags: Mapping[str, bool]) -> Collection[Ground]:
    """The grounds that flags override, from the keywords of a command."""
    return [ground for ground in FLAGS if flags[f"allow_{ground.replace('-', '_')}"]]
