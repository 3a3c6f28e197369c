"""How commands find a run: by path, name, id, the beginning of one of them, or ``latest``.

Every command that takes a run imports this module, so it imports the code that reads runs only to search for one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from agentbench_core.cli.app import say
from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.evidence.layout import MANIFEST
from agentbench_core.values.text import name_some, quantity

if TYPE_CHECKING:
    from agentbench_core.evidence.run_list import RunName

_LATEST = re.compile(r"latest(?:~(?P<back>[0-9]{1,6}))?(?::(?P<variant>.+))?")
_SEE = "See: agentbench runs list"


class RunParameter(click.ParamType[Path]):
    """A run: a path, a name or id as :func:`find_run` describes, given to the command as the path of its directory."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Find the run."""
        return value if isinstance(value, Path) else self.find(value)

    def find(self, text: str) -> Path:
        """The directory of the run that ``text`` names. Raises InputError if there is no such run, or more than one."""
        return find_run(text, _out())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete names of runs in the output directory, and paths, or any directory if there is no run."""
        from agentbench_core.evidence.reader import find_runs
        from agentbench_core.evidence.run_list import run_names

        out = _out()
        found = run_names(out)
        names = [(run.short_name, f"{run.suite}, {run.started:%Y-%m-%d %H:%M} UTC") for run in reversed(found)]
        names += [("latest", "the most recently started run")] if found else []
        results = [CompletionItem(name, help=text) for name, text in names if name.startswith(incomplete)]
        if incomplete or not results:
            directories = {out, Path(f"{incomplete}x").parent}
            paths = sorted({str(run) for directory in directories for run in find_runs(directory)})
            results += [CompletionItem(path) for path in paths if path.startswith(incomplete)]
        return results or [CompletionItem(incomplete, type="dir")]


RUN = RunParameter()
"""The type of a parameter that is a run; names are looked up in the output directory of the project's settings."""


def _out() -> Path:
    from agentbench_core.cli.flags import runs_directory

    return runs_directory()


def find_run(text: str, out: Path) -> Path:
    """The directory of the run that ``text`` names.

    Args:
        text: the path of a run directory; or the short name, the id or the directory name of a run in ``out``, or an
            unambiguous beginning of one of them; or ``latest`` (the most recently started run), ``latest~1`` (the one
            before), ``latest:VARIANT`` or ``latest~1:VARIANT``. ``DIR/NAME`` searches for such a name in ``DIR``. An
            existing path takes precedence.
        out: directory of run directories.

    Raises:
        InputError: there is no such run, or more than one; lists some candidates.
    """
    from agentbench_core.evidence.reader import find_runs
    from agentbench_core.evidence.run_list import run_names

    with contextlib.suppress(OSError):  # such as a name that is too long
        if Path(text).exists():
            return Path(text)
    place, _, name = text.rpartition("/")
    directory = Path(place or "/") if "/" in text else out
    if latest := _LATEST.fullmatch(name):
        return _latest(directory, text, int(latest["back"] or 0), latest["variant"])
    known = run_names(directory)
    by_directory = {run.directory: run for run in known}
    every = {path: _names(path, by_directory.get(path)) for path in find_runs(directory)}
    wanted = name.lower()
    for matches in (str.__eq__, str.startswith):
        found = [path for path, names in every.items() if name and any(matches(each, wanted) for each in names)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{text!r} matches {len(found)} runs in {directory}: {_shown(found, by_directory)}",
                remedy=f"Pass more of the name, or the path of one of them. {_SEE}",
            )
    paths = [str(path) for path in every]
    nearest = did_you_mean(str(directory / name), paths) or did_you_mean(wanted, [run.short_name for run in known])
    some = f"The latest runs: {_shown([run.directory for run in reversed(known)], by_directory)}. " if known else ""
    raise InputError(
        f"{text!r} is not a run directory ({MANIFEST} not found), and no run in {directory} has this name{nearest}",
        remedy=f"{some}{_SEE}",
    )


def _latest(out: Path, text: str, back: int, variant: str | None) -> Path:
    from agentbench_core.evidence.run_list import run_names

    every = run_names(out)
    runs = [run for run in every if variant in (None, run.variant)]
    if back < len(runs):
        run = runs[-1 - back]
        shared = {other.variant for other in every if other.group_id == run.group_id}
        if variant is None and len(shared) > 1:
            others = name_some(sorted(shared))
            say(f"note: {text} is {run.short_name}; the same command ran these variants: {others}", err=True)
        return run.directory
    if not every:
        raise InputError(f"{text}: there are no runs in {out}", remedy="Start one: agentbench run --suite NAME")
    variants = sorted({run.variant for run in every})
    if variant is not None and not runs:
        raise InputError(
            f"{text}: no run in {out} has variant {variant!r}{did_you_mean(variant, variants)}",
            remedy=f"Variants of these runs: {name_some(variants)}. {_SEE}",
        )
    which = "" if variant is None else f" of variant {variant!r}"
    count = f"{quantity(len(runs), 'run')}{which}"
    raise InputError(f"{text}: {out} has {count}, so the oldest is latest~{len(runs) - 1}")


def _names(path: Path, run: RunName | None) -> Sequence[str]:
    return [name.lower() for name in (path.name, *((run.run_id, run.short_name) if run else ()))]


def _shown(paths: Sequence[Path], known: dict[Path, RunName]) -> str:
    return name_some([known[path].short_name if path in known else path.name for path in paths])
