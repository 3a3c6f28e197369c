"""Checks: an environment is immutable, and started many times."""

from __future__ import annotations

from agentbench_core.testing.looking import contents
from agentbench_core.testing.stage import Hooks, Stage, Started


class EnvironmentChecks(Hooks):
    """``Environment``: its tree, its facts, and starts that do not know of each other."""

    def test_the_prepared_tree_has_what_the_pristine_one_has(self, stage: Stage) -> None:
        """Every file with its bytes and its mode, and links as links."""
        prepared = contents(stage.environment.workspace)
        assert {name: prepared.get(name) for name in contents(stage.pristine)} == contents(stage.pristine)
        assert sorted(prepared) == sorted([*contents(stage.pristine), "made"])

    def test_facts_are_text(self, stage: Stage) -> None:
        """They go into a JSON file: names and values are text; the version of Python is one of them."""
        facts = stage.environment.facts
        assert {type(each) for pair in facts.items() for each in pair} == {str}
        assert facts["python"].startswith(self.python_version)

    def test_starts_leave_the_prepared_tree(self, stage: Stage) -> None:
        """What commands do to their workspace happens to nothing else."""
        before = contents(stage.environment.workspace)
        with stage.start() as started:
            started.run("echo changed > text; rm -r package; chmod 600 program; touch new")
        stage.once("echo changed > text; rm -r package; chmod 600 program; touch new")
        assert contents(stage.environment.workspace) == before

    def test_starts_have_workspaces_of_their_own(self, stage: Stage, shared: Started) -> None:
        """Two at a time: none sees what happens in the other."""
        with stage.start() as other:
            shared.run("echo mine > whose")
            other.run("echo theirs > whose; touch only-theirs")
            assert shared.ask("cat whose; ls only-theirs 2>/dev/null || echo none") == "mine\nnone"

    def test_starts_do_not_end_each_other(self, stage: Stage, shared: Started) -> None:
        """One is closed, the other one works on."""
        with stage.start() as other:
            other.run("true")
        assert shared.ask("echo alive") == "alive"
