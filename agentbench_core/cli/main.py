"""The ``agentbench`` command: global flags, and the mapping of errors to exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Sequence
from typing import TextIO

import click

from agentbench_core import __version__
from agentbench_core.cli.app import App, say
from agentbench_core.cli.command_groups import CommandGroup
from agentbench_core.errors import AgentBenchError, UnavailableError, UnknownNameError, did_you_mean

_OF_OUTPUT = {errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF}
"""Error numbers of failed writes to a stream, if the error names no path."""


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentbench")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option("--no-plugin", metavar="NAME", multiple=True, help="Disable a plugin. Repeatable.")
@click.option("--trace-plugins", is_flag=True, help="Log plugin loading to standard error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool, no_plugin: tuple[str, ...], trace_plugins: bool) -> None:
    """Evaluate coding agents offline, on real repositories, with evidence for every number.

    \b
    agentbench run --suite custom-dev --agent scripted     run a suite
    agentbench runs show DIR                               show the results
    agentbench plugins list                                list components
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
            f"note: AGENTBENCH_DISABLE_PLUGINS lists {name!r}, which is not installed{did_you_mean(name, known)}",
            err=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 a check failed, 2 to 4 errors, 70 an internal error, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    try:
        code = cli.main(arguments, prog_name="agentbench", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except AgentBenchError as error:
        _tell(str(error), debug="--debug" in arguments)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        with contextlib.suppress(OSError):  # as for all errors on standard error
            error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted", err=True)
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - an internal error: report it on one line
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT:
            _tell(f"cannot write to standard output: {error.strerror}", debug="--debug" in arguments)
            sys.exit(UnavailableError.exit_code)
        _tell(
            f"internal error: {type(error).__name__}: {error}\nSee the traceback: agentbench --debug ...",
            debug="--debug" in arguments,
        )
        sys.exit(70)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that the parent process has closed.

    Otherwise the next opened file would get its descriptor, and terminal output would be written to that file.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115 - a standard stream stays open


def _tell(message: str, *, debug: bool) -> None:
    if debug:
        import traceback  # slow to import and rarely needed

        traceback.print_exc()
    from agentbench_core.evidence.redaction import Redactor  # also slow to import

    say(f"error: {Redactor(os.environ).clean_text(message)}", err=True)


def _flush(stream: TextIO) -> None:
    """Write buffered output. Drop it if that fails; otherwise Python would try again, and exit with 120."""
    try:
        stream.flush()
    except (OSError, ValueError):  # the disk is full, or the reader has closed the stream
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def console() -> None:
    """The installed entry point: run :func:`main`, and exit even if plugin threads are still running."""
    try:
        main()
    except SystemExit as stop:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)
        if threading.active_count() > 1:
            os._exit(stop.code if isinstance(stop.code, int) else 0)  # do not wait for abandoned threads
        raise
