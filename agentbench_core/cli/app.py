"""Shared by all commands: the loaded plugins, and printing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import attrs
import click

from agentbench_core.plugin.discovery import Plugins, disabled_by_environment, discover
from agentbench_core.plugin.kinds import COMMAND_GROUPS
from agentbench_core.plugin.registry import Registry
from agentbench_core.values.text import escape_control, shorten

CORE_COMMANDS = {
    "completion": (
        "agentbench_core.cli.completion:completion",
        "Enable shell completion for commands, flags and names.",
    ),
    "config show": ("agentbench_core.cli.config:show_config", "Show every setting and where its value comes from."),
    "doctor": ("agentbench_core.cli.doctor:doctor", "Check this machine for problems and suggest fixes."),
    "plugins list": ("agentbench_core.cli.plugins:list_plugins", "List components by kind, then unused plugins."),
    "plugins show": ("agentbench_core.cli.plugins:show_plugin", "Show a component or plugin: options, origin, state."),
    "replay": ("agentbench_core.cli.run:replay", "Repeat a run with its recorded model responses."),
    "run": ("agentbench_core.cli.run:run", "Run variants on the tasks of a suite."),
    "run-task": ("agentbench_core.cli.run:run_task", "Run variants on one task, given its task.yaml."),
    "runs list": ("agentbench_core.cli.runs_list:list_command", "List run directories, oldest first."),
    "runs rebuild": ("agentbench_core.cli.runs:rebuild_run", "Repair damaged records and events."),
    "runs show": ("agentbench_core.cli.runs:show_run", "Show a run and its attempts."),
    "runs workspace": (
        "agentbench_core.cli.runs_workspace:write_final_workspace",
        "Write the workspace of an attempt as its agent left it.",
    ),
    "tasks list": ("agentbench_core.cli.tasks:list_tasks", "List tasks by suite."),
    "tasks schema": ("agentbench_core.cli.tasks:schema", "Print the JSON Schema of task.yaml, for editors."),
    "tasks show": ("agentbench_core.cli.tasks:show_task", "Show every setting of a task, including defaults."),
}
"""The core's own commands by name, each with import target and summary. Plugins cannot replace them."""

TAKEN = frozenset({*CORE_COMMANDS, *COMMAND_GROUPS})
"""Names that plugin commands cannot use."""


@attrs.define(slots=False)
class App:
    """The state of one invocation; plugins are discovered on first use."""

    disabled: frozenset[str]  #: names of disabled plugins
    trace: bool = False  #: whether plugin loading is logged

    @classmethod
    def from_environment(cls, switched_off: Iterable[str], *, trace: bool = False) -> App:
        """Disable the plugins in ``--no-plugin`` and ``AGENTBENCH_DISABLE_PLUGINS`` (comma-separated).

        ``trace``, or ``AGENTBENCH_TRACE_PLUGINS=1``, logs plugin loading to standard error.
        """
        return cls(
            disabled_by_environment() | set(switched_off),
            trace=trace or os.environ.get("AGENTBENCH_TRACE_PLUGINS", "0") not in ("", "0"),
        )

    @classmethod
    def of(cls, ctx: click.Context) -> App:
        """The app of a command. Created here if the group has not run, as for ``--help`` and completion."""
        root = ctx.find_root()
        if not isinstance(root.obj, App):
            switched_off = root.params.get("no_plugin") or ()
            root.obj = cls.from_environment(switched_off, trace=bool(root.params.get("trace_plugins")))
        return root.obj

    @cached_property
    def plugins(self) -> Plugins:
        """Every plugin, including broken and disabled ones."""
        return discover(self.disabled, _show if self.trace else lambda line: None)

    @property
    def registry(self) -> Registry:
        """The components registered by working plugins."""
        return self.plugins.registry


def say(text: str = "", *, err: bool = False, nl: bool = True, styled: str = "") -> None:
    """Print a line with control characters escaped, since much of the output comes from repositories and agents.

    ``styled`` is printed before it, unescaped: trusted text with color codes, for a terminal that shows them.
    Raises OSError if standard output cannot be written. Errors on standard error are ignored.
    """
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        click.echo(styled + escape_control(text), err=err, nl=nl, color=True if styled else None)


def _show(line: str) -> None:
    say(f"plugins: {line}", err=True)


def print_json(value: Any) -> None:
    """Print plain data as indented JSON."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def shortened(text: str, limit: int = 300) -> str:
    """An explanation on one line; for a traceback, only the exception."""
    lines = text.strip().splitlines()
    message = lines[-1] if text.startswith("Traceback") else " ".join(line.strip() for line in lines)
    return shorten(message, limit)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, optional: Sequence[str] = ()) -> None:
    """Print columns of text under their headings; the last column is not padded.

    If the table is wider than the terminal, columns named in ``optional`` are left out one by one, in that order, and a
    line below names them. Output that is not a terminal has all columns.
    """
    every = [tuple(map(_one_line, row)) for row in (headers, *rows)]
    left_out: list[str] = []
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    while True:
        retained = [column for column, head in enumerate(headers) if head not in left_out]
        head, *below = ([row[column] for column in retained] for row in every)
        lines = table_lines(head, below)
        if width is None or max(map(len, lines)) <= width or len(left_out) == len(optional):
            break
        left_out.append(optional[len(left_out)])
    for line in lines:
        say(line)
    if left_out:
        say(f"not shown: {', '.join(sorted(left_out))} (--json shows all)")


def _one_line(cell: str) -> str:
    return escape_control(cell).replace("\n", "\\n").replace("\t", "\\t")


def table_lines(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Sequence[str]:
    """The lines that :func:`print_table` prints."""
    table = [tuple(headers), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headers))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
