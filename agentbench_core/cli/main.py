"""The command ``agentbench``: finds commands by name, loads only the one typed, turns errors into exit codes."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import click

from agentbench_core import __version__
from agentbench_core.cli.app import CORE_COMMANDS, App, say
from agentbench_core.errors import AgentBenchError, PluginError, UnavailableError, UnknownNameError, did_you_mean

_OF_OUTPUT = {errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF}
"""Errors of a write; those of a path name it."""


class _Commands(click.Group):
    """The core's commands and those of plugins; each is imported when it is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*CORE_COMMANDS, *App.of(ctx).registry.names("command")})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in CORE_COMMANDS:
            command: click.Command = _imported(CORE_COMMANDS[cmd_name][0])
            return command
        if cmd_name not in App.of(ctx).registry.names("command"):
            return None
        component = App.of(ctx).registry.find("command", cmd_name)
        try:
            found = _imported(component.target)
        except Exception as error:
            raise PluginError(
                f"command {cmd_name!r} of {component.source.distribution} cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, click.Command):
            raise PluginError(f"{component.target} of {component.source.distribution} is no click command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            near = did_you_mean(name, self.list_commands(ctx))
            missing = "" if near else "; it may come with a plugin that is not installed: agentbench plugins list"
            raise click.UsageError(f"no command {name!r}{near}{missing}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Say apart from a check that did not hold that the reader of our output went away."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise SystemExit(141) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and summaries, without importing any command."""
        summaries = {c.name: _sentence(c.summary) for c in App.of(ctx).registry.all("command")}
        summaries |= {name: summary for name, (_, summary) in CORE_COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(summaries.items()))


def _sentence(summary: str) -> str:
    """As the core's own commands are described; in tables of components summaries are written as they are."""
    return f"{summary[:1].upper()}{summary[1:].rstrip('.')}."


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentbench")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option("--no-plugin", metavar="NAME", multiple=True, help="Switch a plugin off. May be given several times.")
@click.option("--trace-plugins", is_flag=True, help="Show on standard error how plugins are loaded.")
@click.pass_context
def cli(ctx: click.Context, debug: bool, no_plugin: tuple[str, ...], trace_plugins: bool) -> None:
    """Evaluate coding agents offline: real repositories, evidence for every number.

    \b
    agentbench run --suite custom-dev --agent scripted     run a suite
    agentbench runs show DIR                               look at what came out
    agentbench plugins list                                what can be plugged in
    """
    app = App.of(ctx)
    known = {plugin.source.plugin for plugin in app.plugins.plugins}
    for name in no_plugin:
        if name not in known:
            raise UnknownNameError(
                f"no plugin {name!r}{did_you_mean(name, known)}", remedy=f"Plugins: {', '.join(sorted(known))}"
            )
    for name in sorted(app.disabled - known):
        say(
            f"note: AGENTBENCH_DISABLE_PLUGINS names {name!r}, which is no plugin here{did_you_mean(name, known)}",
            err=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 the thing checked did not hold, 2 to 4 errors, 70 a bug, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    try:
        code = cli.main(arguments, prog_name="agentbench", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except AgentBenchError as error:
        _tell(str(error), debug="--debug" in arguments)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted", err=True)
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - our own mistake: say so on one line
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT:
            _tell(f"cannot write to standard output: {error.strerror}", debug="--debug" in arguments)
            sys.exit(UnavailableError.exit_code)
        _tell(
            f"internal error: {type(error).__name__}: {error}\nSee the traceback: agentbench --debug ...",
            debug="--debug" in arguments,
        )
        sys.exit(70)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the calling process has closed.

    Otherwise the next file that is opened takes the place, and what is meant for the terminal goes into it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest place that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115 - a standard stream stays open


def _tell(message: str, *, debug: bool) -> None:
    if debug:
        import traceback  # not needed in the common case, and slow to load

        traceback.print_exc()
    from agentbench_core.evidence.redaction import Redactor  # likewise

    say(f"error: {Redactor(os.environ).clean_text(message)}", err=True)


def console() -> None:
    """The installed command: :func:`main`, and an end even if a plugin's threads would go on for ever."""
    try:
        main()
    except SystemExit as stop:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # closed by whoever started us
                stream.flush()
        if threading.active_count() > 1:
            os._exit(stop.code if isinstance(stop.code, int) else 0)  # nobody waits for threads that nobody owns
        raise
