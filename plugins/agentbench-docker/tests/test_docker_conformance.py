"""The ``docker`` sandbox passes the conformance suites for sandboxes and for isolated ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench_core import Command, SandboxProvider, Score, Scorer, ScoringContext, installed
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_testing import (
    IsolatedProgramSandboxConformance,
    IsolatedSandboxConformance,
    ScorerConformance,
    Workbench,
)
from agentbench_testing.checks.sandbox.programs import AddressChecks, IsolatedAddressChecks
from agentbench_testing.checks.scorer.checks import VerdictChecks
from agentbench_testing.checks.scorer.stage import ScorerHooks, ScorerStage


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("conformance") / "cache"))
        yield


@pytest.mark.docker
class TestDocker(IsolatedSandboxConformance):
    """The sandbox with the default image of tasks."""

    python = "python"

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return DockerProvider(DockerOptions())


@pytest.mark.docker
class TestProgramsHandedOver(IsolatedProgramSandboxConformance):
    """Agents that are programs; the host accepts connections on a socket of the container's network namespace."""

    python = "python"

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return DockerProvider(DockerOptions(endpoint="handed_over"))


@pytest.mark.docker
class TestAddressesCarried(IsolatedAddressChecks, AddressChecks):
    """Connections are carried by a relay in the container; programs are the same as above."""

    python = "python"

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return DockerProvider(DockerOptions(endpoint="carried"))


class WritesResults:
    """A scorer whose command writes into the workspace."""

    def score(self, context: ScoringContext) -> Score:
        command = Command(f"touch results && {context.validation.passing_command}", read_only=True)
        result = context.run(command, context.fork())
        context.save_output(result)
        return Score(passed=result.ok, exit_code=result.exit_code)


@pytest.mark.docker
class TestTheScorerInDocker(ScorerHooks):
    """The verdicts of the built-in scorer with a read-only workspace; all else is the same as in ``local``."""

    test_the_fix_passes = VerdictChecks.test_the_fix_passes
    test_a_wrong_change_fails = VerdictChecks.test_a_wrong_change_fails
    test_a_program_that_cannot_be_read_fails = VerdictChecks.test_a_program_that_cannot_be_read_fails
    test_each_test = VerdictChecks.test_each_test

    sandboxes = ("docker",)
    passing_command = "python -m pytest -q checks/test_adding.py"
    tests = ("checks/test_adding.py::TestAdd::test_two_numbers",)

    @classmethod
    def make_scorer(cls) -> Scorer:
        scorer: Scorer = installed("scorer", "tests")
        return scorer


@pytest.mark.docker
def test_scorer_that_works_only_in_local_fails_conformance(tmp_path: Path) -> None:
    """A scorer that writes to the read-only workspace fails conformance in docker."""

    class Hooks(ScorerConformance):
        @classmethod
        def make_scorer(cls) -> Scorer:
            return WritesResults()

    workbench = Workbench(tmp_path, "docker")
    try:
        with pytest.raises(AssertionError):
            Hooks().test_the_fix_passes(ScorerStage(workbench, Hooks))
    finally:
        workbench.close()
