"""The flags shared by ``tasks mine`` and ``tasks new --fix``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs
import click

from agentbench_core import InputError
from agentbench_core.harness import App, Variant, names_of, set_flag, variant_for_tasks
from agentbench_tasks.mining.workshop import MiningSettings

F = TypeVar("F", bound=Callable[..., Any])

JUNIT_ALONE = "--junit requires --test-command; results of pytest are read without --junit"
"""The message for a flag that requires another flag."""
_PYTHON = re.compile(r"(?P<version>3\.\d+)(?:=(?P<image>\S+))?")


def _images(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    """Images by Python version. Raises BadParameter for anything else."""
    images = {}
    for value in given:
        match = _PYTHON.fullmatch(value)
        if match is None:
            raise click.BadParameter(
                f"{value!r} does not have the form VERSION or VERSION=IMAGE; example: 3.12=my-image:3.12"
            )
        images[match["version"]] = match["image"] or ""
    return images or {"3.11": ""}


_FLAGS = (
    click.option(
        "--times", type=click.IntRange(min=1), default=3, show_default=True, help="Number of validations per task."
    ),
    click.option(
        "--sandbox",
        metavar="NAME",
        default="docker",
        show_default=True,
        shell_complete=names_of("sandbox"),
        help="Sandbox that runs the repository's code.",
    ),
    click.option("--allow-unisolated", is_flag=True, help="Allow a sandbox that is not isolated, such as local."),
    click.option(
        "--issues",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="Exported issues and pull requests, as JSON, for descriptions.",
    ),
    click.option(
        "--python",
        "images",
        metavar="VERSION[=IMAGE]",
        multiple=True,
        callback=_images,
        help="Available Python version, and the image that has it. Repeatable. [default: 3.11]",
    ),
    click.option("--test-command", metavar="COMMAND", default="", help="Command that runs the tests, if not pytest."),
    click.option("--junit", metavar="PATH", default="", help="JUnit report that --test-command writes."),
    click.option(
        "--setup",
        metavar="COMMAND",
        multiple=True,
        help="Setup command to use instead of the detected ones. Repeatable.",
    ),
    click.option(
        "--timeout",
        "timeout_sec",
        type=click.FloatRange(min=1),
        default=300.0,
        show_default=True,
        help="Timeout per test run, in seconds.",
    ),
    set_flag,
)


def work_flags(command: F) -> F:
    """Add the flags to a command."""
    return functools.reduce(lambda decorated, flag: flag(decorated), reversed(_FLAGS), command)


def mining_settings(suite: str, typed: Mapping[str, Any]) -> MiningSettings:
    """The settings in flags. Raises UsageError for flags that cannot be combined."""
    names = {field.name for field in attrs.fields(MiningSettings)} & typed.keys()
    settings = MiningSettings(suite=suite, **{name: typed[name] for name in names})
    if settings.junit and not settings.test_command:
        raise click.UsageError(JUNIT_ALONE)
    return settings


def mining_variant(app: App, typed: Mapping[str, Any]) -> Variant:
    """The selected sandbox and its settings.

    Raises InputError if the sandbox is not isolated, unless such a sandbox is allowed.
    """
    variant = variant_for_tasks(app, typed, "mining")
    if not variant.sandbox.can("isolated") and not typed["allow_unisolated"]:
        raise InputError(
            f"refusing to run code from the repository in the {variant.sandbox.name!r} sandbox, which is not isolated",
            remedy="Use --sandbox docker, or pass --allow-unisolated if this machine is disposable.",
        )
    return variant
