"""Providers and environments that are broken in how they prepare, share or close, each in one respect."""

from __future__ import annotations

import contextlib
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs

from agentbench_core import (
    Deadline,
    Environment,
    EnvironmentSpec,
    Interrupted,
    Sandbox,
    SandboxError,
    SetupError,
    SetupLog,
    UnavailableError,
)
from agentbench_core.values.task import Setup
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from agentbench_testing import RecordingLog
from agentbench_testing.doubles.sandboxes import EnvironmentDouble, ProviderDouble, SandboxDouble


class SetsUpNothing(EnvironmentDouble):
    """Returns the pristine tree as the prepared one."""

    @property
    def workspace(self) -> Path:
        return self.pristine


class WorksInThePristineTree(ProviderDouble):
    """Prepares in the pristine tree instead of a copy."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        environment = super().prepare(spec, workspace, log, deadline)
        (workspace / f"left-{len(self.made)}").touch()
        return environment


class DoesNotLog(ProviderDouble):
    """Does not log setup commands."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        return super().prepare(spec, workspace, RecordingLog(), deadline)


class LosesFacts(EnvironmentDouble):
    """Discards captured facts."""

    @property
    def facts(self) -> Mapping[str, str]:
        return {}


class StartsWithoutSetup(ProviderDouble):
    """Keeps only the workspace of a setup, and not what was installed."""

    class Bare(EnvironmentDouble):
        def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
            bare = attrs.evolve(self.spec, setup=Setup(capture=()))
            base = self.owner.inner.prepare(bare, self.pristine, RecordingLog(), deadline)
            return base.start(workspace, read_only=read_only, network=network, deadline=deadline)

    environment_type = Bare


class PreparesAgain(ProviderDouble):
    """Treats all specs as different."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        self.__dict__["count"] = count = self.__dict__.get("count", 0) + 1
        return super().prepare(attrs.evolve(spec, commit=f"{count:040}"), workspace, log, deadline)


class LooksAtTheCommitOnly(ProviderDouble):
    """Treats specs with the same commit as equal."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        known = next((each for each in self.made if each.spec.commit == spec.commit), None)
        return known or super().prepare(spec, workspace, log, deadline)


class OmitsTheReason(ProviderDouble):
    """Fails without the reason."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        try:
            return super().prepare(spec, workspace, log, deadline)
        except SetupError as error:
            raise SetupError("the set-up failed") from error


class ContinuesAfterFailures(ProviderDouble):
    """Runs further setup commands after a failure."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        try:
            return super().prepare(spec, workspace, log, deadline)
        except SetupError:
            rest = attrs.evolve(spec, setup=attrs.evolve(spec.setup, commands=spec.setup.commands[-1:]))
            with contextlib.suppress(SetupError):
                super().prepare(rest, workspace, log, deadline)
            raise


class IgnoresTheDeadline(ProviderDouble):
    """Ignores the deadline of a setup."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        return super().prepare(spec, workspace, log, Deadline(600))


class RemembersInterrupts(ProviderDouble):
    """Raises the interrupt of an earlier setup again."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        if "stopped" in self.__dict__:
            raise self.__dict__["stopped"]
        try:
            return super().prepare(spec, workspace, log, deadline)
        except Interrupted as error:
            self.__dict__["stopped"] = error
            raise


class TakesAnyPython(ProviderDouble):
    """Ignores the requested Python version."""

    def prepare(self, spec: EnvironmentSpec, workspace: Path, log: SetupLog, deadline: Deadline) -> Environment:
        here = ".".join(platform.python_version_tuple()[:2])
        spec = attrs.evolve(spec, settings=attrs.evolve(spec.settings, python=here))
        return super().prepare(spec, workspace, log, deadline)


class FollowsLinks(EnvironmentDouble):
    """Replaces symlinks with copies in the prepared tree."""

    @property
    def workspace(self) -> Path:
        copy = self.pristine.with_name("copy")
        if not copy.exists():
            shutil.copytree(self.inner.workspace, copy, symlinks=False)
        return copy


class CountsInFacts(EnvironmentDouble):
    """Has a fact that is not text."""

    @property
    def facts(self) -> Mapping[str, str]:
        return {**self.inner.facts, "cpus": cast(str, 2)}


class StartsInPlace(EnvironmentDouble):
    """Works in the prepared tree instead of the given fork."""

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        return super().start(self.inner.workspace, read_only=read_only, network=network, deadline=deadline)


class ClosesAll(SandboxDouble):
    """Closes all sandboxes of the environment with one."""

    def close(self) -> None:
        for each in self.owner.started:
            each.inner.close()


class FailsPreflight(ProviderDouble):
    """Always fails in ``preflight``."""

    def preflight(self, specs: Sequence[EnvironmentSpec]) -> Sequence[str]:
        raise UnavailableError("the engine does not answer")


class FindsWords(ProviderDouble):
    """Has a check that returns text."""

    def checks(self, specs: Sequence[EnvironmentSpec]) -> Mapping[str, object]:
        return {"disk": lambda: "fine"}


class SweepsEverything(ProviderDouble):
    """Sweeps sandboxes that are in use."""

    def sweep(self) -> Sequence[str]:
        for each in [sandbox for environment in self.made for sandbox in environment.started]:
            each.close()
        return [*super().sweep(), "everything"]


class LeavesSandboxesOpen(ProviderDouble):
    """Does not close sandboxes."""

    def close(self) -> None:
        pass


class ClosesOnce(ProviderDouble):
    """Cannot be closed twice."""

    def close(self) -> None:
        if self.__dict__.setdefault("closed", False):
            raise SandboxError("closed already")
        self.__dict__["closed"] = True
        super().close()


class ReopensItself(ProviderDouble):
    """Can be used after it was closed."""

    def close(self) -> None:
        super().close()
        self.inner = LocalProvider(LocalOptions())


DOUBLES: Mapping[str, type[SandboxDouble | EnvironmentDouble | ProviderDouble]] = {
    "test_setup_changes_the_prepared_tree": SetsUpNothing,
    "test_setup_leaves_the_pristine_tree": WorksInThePristineTree,
    "test_setup_is_logged": DoesNotLog,
    "test_captures_become_facts": LosesFacts,
    "test_what_setup_installs_is_in_every_start": StartsWithoutSetup,
    "test_equal_specs_are_prepared_once": PreparesAgain,
    "test_equal_specs_at_once": PreparesAgain,
    "test_other_commands_make_another_environment": LooksAtTheCommitOnly,
    "test_a_setup_command_that_fails": OmitsTheReason,
    "test_the_first_failure_ends_the_setup": ContinuesAfterFailures,
    "test_a_setup_without_time": IgnoresTheDeadline,
    "test_a_setup_that_is_interrupted": RemembersInterrupts,
    "test_another_python_than_asked_for": TakesAnyPython,
    "test_the_prepared_tree_has_what_the_pristine_one_has": FollowsLinks,
    "test_facts_are_text": CountsInFacts,
    "test_starts_leave_the_prepared_tree": StartsInPlace,
    "test_starts_have_workspaces_of_their_own": StartsInPlace,
    "test_starts_do_not_end_each_other": ClosesAll,
    "test_preflight": FailsPreflight,
    "test_checks": FindsWords,
    "test_sweep_keeps_what_is_in_use": SweepsEverything,
    "test_close_ends_sandboxes": LeavesSandboxesOpen,
    "test_closing_a_provider_twice": ClosesOnce,
    "test_nothing_new_after_closing": ReopensItself,
}
