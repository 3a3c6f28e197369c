"""The sandbox ``docker`` against the kit that every sandbox must pass, and every one that isolates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import Command, EnvironmentSpec, SandboxProvider, Score, Scorer, ScoringContext, installed
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_testing import IsolatedSandboxConformance, ScorerConformance, Workbench
from agentbench_testing.checks.scorer.checks import VerdictChecks
from agentbench_testing.checks.scorer.stage import ScorerStage


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("conformance") / "cache"))
        yield


@pytest.mark.docker
class TestDocker(IsolatedSandboxConformance):
    """With the image that tasks get by default."""

    python = "python"

    @classmethod
    def make_provider(cls) -> SandboxProvider:
        return DockerProvider(DockerOptions())

    @classmethod
    def spec(cls, *commands: str, capture: tuple[str, ...] = (), **settings: Any) -> EnvironmentSpec:
        return super().spec(*commands, capture=capture, **settings)


class WritesResults:
    """A scorer whose command writes into the workspace."""

    def score(self, context: ScoringContext) -> Score:
        command = Command(f"touch results && {context.validation.passing_command}", read_only=True)
        result = context.run(command, context.fork())
        context.save_output(result)
        return Score(passed=result.ok, exit_code=result.exit_code)


@pytest.mark.docker
class TestTheScorerInDocker(VerdictChecks):
    """The scorer of the core, where the workspace is read-only: its verdicts; the rest is the same as in ``local``."""

    sandboxes = ("docker",)
    passing_command = "python -m pytest -q checks/test_adding.py"
    tests = ("checks/test_adding.py::TestAdd::test_two_numbers",)

    @classmethod
    def make_scorer(cls) -> Scorer:
        scorer: Scorer = installed("scorer", "tests")
        return scorer


@pytest.mark.docker
def test_the_kit_finds_what_holds_in_local_only(tmp_path: Path) -> None:
    """A scorer that writes where it may not fails the fix in docker."""

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
