"""``agentbench docker save`` and ``load``: prepared environments for other machines."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from agentbench_core import InputError, SetupError
from agentbench_core.harness import (
    App,
    DateRange,
    Obstacles,
    RunObserver,
    Session,
    Task,
    WarningLog,
    date_flags,
    open_session,
    saved_setup,
    say,
    selected_tasks,
    set_flag,
    suite_flags,
    task_flag,
    variant_for_tasks,
)
from agentbench_docker.bundle import check_names
from agentbench_docker.cache import Cache
from agentbench_docker.client import Client
from agentbench_docker.transfer import Prepared, Transfer, check_target

_REPOSITORY = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+")


class _Notes(RunObserver):
    """Shows notes on standard error."""

    def note(self, message: str) -> None:
        say(message, err=True)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@suite_flags
@task_flag
@date_flags
@set_flag
@click.option(
    "--registry",
    default="",
    metavar="REPOSITORY",
    help="Push the images to this repository, for example registry.example.com/environments, instead of saving them.",
)
@click.pass_obj
def save(
    app: App, /, directory: Path, task_globs: tuple[str, ...], dates: DateRange, registry: str, **typed: Any
) -> int:
    """Prepare the environments for tasks and save them for other machines.

    \b
    agentbench docker save environments --suite custom-dev
    agentbench docker save environments --suite custom-dev --registry registry.example.com/environments

    DIRECTORY is created. It contains the prepared trees and the images; with --registry, the images are pushed with
    your own docker credentials instead. Copy the directory to the other machines and load it there with `agentbench
    docker load`. Runs on these machines do not repeat the setup.
    """
    check_target(directory)
    if registry and not _REPOSITORY.fullmatch(registry):
        raise InputError(
            f"--registry {registry!r} is not a valid repository",
            remedy="For example: --registry registry.example.com/environments",
        )
    variant = variant_for_tasks(app, {**typed, "sandbox": "docker"}, "environments")
    tasks = selected_tasks(variant.settings.run, task_globs, dates)
    check_names({task.spec.environment.docker_image for task in tasks})
    with _transfer() as transfer, open_session([variant], tasks, _Notes()) as session:
        prepared = _prepared(session, tasks)  # in use until the session is closed, so that they are not removed
        images = transfer.save(prepared, directory, registry)
    say(f"saved in {directory}: {_counted(len(prepared), 'environment')}, {_counted(images, 'image')}")
    return 0


def _prepared(session: Session, tasks: Sequence[Task]) -> Sequence[Prepared]:
    """The environments of tasks, each once. Raises InputError with all setups that failed."""
    found: dict[str, Prepared] = {}
    obstacles, log = Obstacles(), WarningLog(session.observer.note)
    for task in tasks:
        say(f"{task.spec.id}: preparing", err=True)
        with obstacles.gathered():
            try:
                prepared = session.shared.environment(task, session.shared.source(task), log)
            except SetupError as error:
                raise InputError(f"{task.spec.id}: {error.message}", remedy=error.remedy) from error
            key = prepared.environment.digest
            entry = Cache().find(key)
            assert entry is not None, "environments that are in use must not be removed"
            found[key] = Prepared(entry=entry, setup=saved_setup(key))
    obstacles.refuse()
    return list(found.values())


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def load(directory: Path) -> int:
    """Load environments that were saved on another machine.

    DIRECTORY was written by `agentbench docker save`, by someone whom you trust as much as the images that you run.
    Its content is checked before anything is loaded. Loading it again does nothing.
    """
    with _transfer() as transfer:
        new = transfer.load(directory)
    for key in new:
        say(f"loaded {key.removeprefix('sha256:')[:12]}")
    if not new:
        say("all environments were already present")
    return 0


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@contextlib.contextmanager
def _transfer() -> Iterator[Transfer]:
    with tempfile.TemporaryDirectory(prefix="agentbench-client-") as directory:
        client = Client(os.environ, Path(directory), own_config=True)
        yield Transfer(client, Cache(), lambda message: say(message, err=True))
