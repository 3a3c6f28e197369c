"""Environments of commits: dependencies are resolved once per recipe, and shared by commits with equal recipes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core import SetupError, Validation, quantity
from agentbench_core.harness import (
    EnvironmentSettings,
    Repo,
    Session,
    Setup,
    Task,
    TaskSpec,
    WarningLog,
)
from agentbench_tasks.mining.commit_tree import CommitTree
from agentbench_tasks.mining.ledger import Environment, Ledger
from agentbench_tasks.mining.pins import CAPTURE, classify, pins, setup_commands
from agentbench_tasks.mining.recipe import recipes
from agentbench_tasks.mining.values import Commit, Recipe, RejectedError, Rejection, moment

_SHARED_SECONDS = 90 * 24 * 60 * 60.0
"""Maximum difference between the dates of two commits that share an environment."""


@attrs.frozen(kw_only=True)
class Chosen:
    """The setup of one task."""

    commands: tuple[str, ...]  #: ordinary setup commands with pinned versions
    python: str
    image: str  #: image for sandboxes that use images; empty for the default one
    source: str  #: human-readable source of the environment
    neighbor: bool = False  #: whether the packages come from another commit, because the commit's own failed


@attrs.define(kw_only=True)
class Environments:
    """Resolves recipes in the sandbox. Thread-safe."""

    session: Session
    ledger: Ledger
    url: str  #: the repository
    images: Mapping[str, str]  #: image by Python version
    staging: Path
    timeout_sec: float
    built: int = 0  #: number of environments that were resolved by this command
    _failed: dict[str, Rejection] = attrs.field(factory=dict)
    _locks: dict[str, threading.Lock] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def choose(self, commit: Commit, tree: CommitTree, version: str, step: Callable[[str], None]) -> Iterator[Chosen]:
        """The setups to try for the task of a commit, best first; each is resolved when it is needed.

        Raises RejectedError if there is none.
        """
        wanted = recipes(tree, date=commit.date, version=version, pythons=list(self.images))
        found_any, failure = False, None
        for recipe in wanted:
            found = self._resolved(recipe, commit)
            if isinstance(found, Environment):
                packages = quantity(len(found.pins), "package")
                step(f"environment: {found.source} ({packages}, Python {found.python})")
                found_any = True
                yield self._chosen(recipe, found, found.source)
            else:
                step(f"environment failed: {recipe.source}: {found.reason}")
                failure = failure or found
        neighbor = self._neighbor(commit, wanted)
        if neighbor is not None:
            source = f"packages of a neighboring commit, as of {neighbor.date[:10]}: {neighbor.source}"
            yield self._chosen(wanted[0], neighbor, source, is_neighbor=True)
        elif not found_any:
            assert failure is not None, "there must be at least one recipe"
            raise RejectedError(failure.code, failure.reason)

    def _chosen(self, recipe: Recipe, found: Environment, source: str, *, is_neighbor: bool = False) -> Chosen:
        return Chosen(
            commands=tuple(setup_commands(found.pins, recipe)),
            python=recipe.python,
            image=self.images.get(recipe.python, ""),
            source=source,
            neighbor=is_neighbor,
        )

    def _neighbor(self, commit: Commit, own: Sequence[Recipe]) -> Environment | None:
        """The resolved environment of another recipe with the same Python that is nearest in time."""
        keys, pythons = {recipe.key for recipe in own}, {recipe.python for recipe in own}
        others = [
            found
            for found in list(self.ledger.environments.values())
            if found.key not in keys and found.python in pythons
        ]
        return min(others, key=lambda found: _distance(found.date, commit.date), default=None)

    def _resolved(self, recipe: Recipe, commit: Commit) -> Environment | Rejection:
        key = key_at(recipe.key, commit.date, self.ledger.environments)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        while not lock.acquire(timeout=0.2):
            self.session.stop.check()
        try:
            if key_at(recipe.key, commit.date, self.ledger.environments) != key:  # resolved by another thread
                return self._resolved(recipe, commit)
            if key in self.ledger.environments:
                return self.ledger.environments[key]
            if key in self._failed:
                return self._failed[key]
            try:
                found = self._resolve(recipe, commit, key)
            except RejectedError as error:
                self._failed[key] = error.rejection
                return error.rejection
            self.ledger.add(found)
            self.built += 1
            return found
        finally:
            lock.release()

    def _resolve(self, recipe: Recipe, commit: Commit, key: str) -> Environment:
        """Install the dependencies as of the commit's date, and list the installed packages."""
        directory = self.staging / f"environment-{re.sub(r'[^0-9a-z]+', '-', key.lower())[-32:]}"
        image = self.images.get(recipe.python, "")
        bare = bare_task(self.url, commit.parent, recipe.python, image, directory, self.timeout_sec)
        setup = Setup(commands=recipe.resolve, capture=(CAPTURE,), shared_cache=False)
        task = attrs.evolve(bare, spec=attrs.evolve(bare.spec, setup=setup))
        log = WarningLog(self.session.observer.note)
        try:
            prepared = self.session.shared.environment(task, self.session.shared.source(task), log)
        except SetupError as error:
            rejection = classify(error.message)
            raise RejectedError(rejection.code, rejection.reason) from None
        finally:
            self.session.shared.forget(task)
        frozen = prepared.environment.facts.get(re.sub(r"[^a-z0-9]+", "_", CAPTURE.lower()).strip("_"), "")
        return Environment(
            key=key,
            date=commit.date,
            python=recipe.python,
            pins=pins(frozen, ""),
            source=recipe.source,
        )


def bare_task(url: str, commit: str, python: str, image: str, directory: Path, timeout_sec: float) -> Task:
    """A task without tests, for preparing an environment; it is never run."""
    settings = EnvironmentSettings(python=python, setup_timeout_sec=timeout_sec)
    if image:
        settings = attrs.evolve(settings, docker_image=image)
    spec = TaskSpec(
        id="environment",
        suite="mining",
        repo=Repo(url=url, commit=commit, submodules="omitted"),
        environment=settings,
        validation=Validation(failing_command="false", passing_command="true"),
    )
    return Task(spec=spec, directory=directory, text="", hidden=(), script=(), digest="")


def key_at(key: str, date: str, known: Mapping[str, Environment]) -> str:
    """The key of the environment for a recipe and the date of a commit.

    Newer packages can change the results of tests, so an environment is shared only within a limited time.
    """
    first = known.get(key)
    if first is None or _distance(first.date, date) <= _SHARED_SECONDS:
        return key
    day = moment(date)
    return f"{key}:{day.year}-{(day.month + 2) // 3}"


def _distance(one: str, other: str) -> float:
    """Seconds between two dates."""
    return abs((moment(one) - moment(other)).total_seconds())
