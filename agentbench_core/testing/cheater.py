"""What every cheater must do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from agentbench_core import Deadline
from agentbench_core.testing.bench import Bench
from agentbench_core.testing.cheater_stage import CheaterHooks
from agentbench_core.testing.looking import contents
from agentbench_core.testing.waiting import at_once

_PROSE = {"README.md": "# Nothing but prose\n"}


class CheaterConformance(CheaterHooks):
    """Checks for every cheater, controls included, at a small task in the sandbox ``local``.

    A cheat that was never tried looks as one that the scorer saw through. So most of them ask that it is told apart.
    """

    def test_what_it_leaves(self, bench: Bench) -> None:
        """The cheat is there; the upper control has solved the task, the lower one has changed nothing."""
        cheated = self.cheat(bench)
        assert cheated.error is None, f"cheat() raised {cheated.error!r}"
        if self.control == "lower":
            assert cheated.changed == []
        else:
            assert cheated.there, "it left no cheat: override `has_cheated` if it lies outside of the workspace"
        if self.control == "upper":
            assert cheated.passes, "the oracle was not applied"

    def test_nothing_to_cheat_with(self, bench: Bench) -> None:
        """No Python, no hidden tests: ToolError ``not_applicable`` that says why, or it finds something all the same.

        The upper control must have its oracle: without one it raises something else.
        """
        cheated = self.cheat(bench, files=_PROSE, script=())
        if self.control == "upper":
            assert cheated.error is not None, "there was no oracle"
            assert not cheated.not_applicable, "that is not how a control ends"
        elif cheated.error is not None:
            assert cheated.not_applicable, f"cheat() raised {cheated.error!r}"
            assert str(cheated.error).strip(), "it does not say why"
        else:
            assert cheated.there or self.control == "lower", "it left nothing, and did not say so"

    def test_the_sandbox_breaks(self, bench: Bench) -> None:
        """What it raises comes through, or another error, but never ``not_applicable``: nothing is known then."""
        cheated = self.cheat(bench, refusal="breaks")
        assert cheated.error is not None or not cheated.used, "it went on as if nothing were broken"
        assert not cheated.not_applicable, cheated.error

    def test_a_command_that_fails(self, bench: Bench) -> None:
        """The same where its commands fail, or a tool refuses: no Python there, no shell, a patch that does not fit."""
        cheated = self.cheat(bench, refusal="fails")
        assert cheated.error is not None or not cheated.used, "it did not look at how its commands ended"
        assert not cheated.not_applicable, cheated.error

    def test_no_time_left(self, bench: Bench) -> None:
        """It ends soon, and says so, or has done its work all the same."""
        cheated = self.cheat(bench, deadline=Deadline(0.0))
        assert cheated.error is not None or cheated.there or self.control == "lower", (
            "it left nothing, and said nothing"
        )
        assert not cheated.not_applicable, cheated.error

    def test_what_lies_around(self, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is the sandbox that is attacked: neither the prepared tree nor where the command began is changed."""
        monkeypatch.chdir(tmp_path)
        prepared = bench.environment(self.program).workspace
        before = contents(prepared)
        self.cheat(bench)
        assert contents(prepared) == before
        assert contents(tmp_path) == {}

    def test_two_at_once(self, bench: Bench) -> None:
        """Each at a task of its own: each leaves its cheat there."""
        both = at_once([partial(self.cheat, bench), partial(self.cheat, bench)], 2 * self.patience)
        assert [cheated.error for cheated in both] == [None, None]
        assert [cheated.there for cheated in both] == [self.control != "lower"] * 2
