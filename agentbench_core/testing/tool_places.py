"""Checks: which files a tool reads and writes, and how much of them it shows."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs

from agentbench_core.testing.bench import Bench
from agentbench_core.testing.looking import contents
from agentbench_core.testing.tool_stage import LARGE, AtHand, ToolHooks
from agentbench_core.testing.waiting import soon


@attrs.frozen
class _Outside:
    """A directory beside the workspace, with a secret in it."""

    directory: Path
    secret: str

    def unchanged(self) -> bool:
        return contents(self.directory) == {"secret.txt": (0o644, self.secret.encode())}


class PlaceChecks(ToolHooks):
    """The workspace and what lies around it."""

    def test_paths_that_lead_out(self, bench: Bench) -> None:
        """Upwards or absolute: refused, nothing is read or written there."""
        with self.at_hand(bench) as at_hand, _outside(at_hand) as outside:
            near = f"{outside.directory.name}/secret.txt"
            for path in (f"../{near}", f"x/../../{near}", str(outside.directory / "secret.txt"), f"./../{near}"):
                self._is_refused(at_hand, path, outside)

    def test_links_that_lead_out(self, bench: Bench) -> None:
        """A command in the sandbox may have made them: refused too, as files and as directories."""
        with self.at_hand(bench) as at_hand, _outside(at_hand) as outside:
            (at_hand.workspace / "link.txt").symlink_to(outside.directory / "secret.txt")
            (at_hand.workspace / "linked").symlink_to(outside.directory)
            for path in ("link.txt", "linked/secret.txt"):
                self._is_refused(at_hand, path, outside)

    def test_the_repository_of_the_workspace(self, bench: Bench) -> None:
        """``.git`` is not the agent's: refused."""
        with self.at_hand(bench) as at_hand, _outside(at_hand) as outside:
            (at_hand.workspace / ".git").mkdir()
            (at_hand.workspace / ".git/config").write_text(outside.secret)
            self._is_refused(at_hand, ".git/config", outside)
            assert (at_hand.workspace / ".git/config").read_text() == outside.secret

    def test_what_is_no_file(self, bench: Bench) -> None:
        """A named pipe: nobody waits for somebody to write into it, also when it is only found on the way."""
        with self.at_hand(bench, tool_timeout_sec=self.patience / 2) as at_hand:
            os.mkfifo(at_hand.workspace / "pipe")
            for arguments in (self.good_arguments(), *self.with_path("pipe")):
                result = soon(partial(at_hand.call, arguments), self.patience)
                assert result.error_type not in ("internal_error", "timeout"), result

    def test_what_it_writes(self, bench: Bench) -> None:
        """Only a tool that edits changes the workspace, and it keeps a diff as evidence."""
        with self.at_hand(bench) as at_hand:
            before = contents(at_hand.workspace)
            result = at_hand.call(self.good_arguments())
            after = contents(at_hand.workspace)
            diffs = "".join(str(diff) for diff in at_hand.diffs.values())
        assert result.ok, result
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        assert bool(changed) == (at_hand.tool.spec.effect == "edits"), f"changed: {changed}"
        assert [path for path in changed if path not in diffs] == [], "no diff was kept"

    def test_what_may_not_be_edited(self, bench: Bench) -> None:
        """Where the task forbids it, a tool that edits refuses, and others do not mind."""
        with self.at_hand(bench, editable=lambda _: False) as at_hand:
            before = contents(at_hand.workspace)
            result = at_hand.call(self.good_arguments())
            assert contents(at_hand.workspace) == before
        assert result.ok != (at_hand.tool.spec.effect == "edits"), result
        assert result.error_type != "internal_error", result

    def test_results_are_bounded(self, bench: Bench) -> None:
        """Huge files, endless lines, binary files, very many files: a model reads every byte of a result."""
        with self.at_hand(bench, files={**self.files, **LARGE}) as at_hand:
            for arguments in (self.good_arguments(), *self.greedy_arguments()):
                result = soon(partial(at_hand.call, arguments), 3 * self.patience)
                size = len(json.dumps(dict(result.fields))) + len(result.error_message)
                assert size <= self.result_cap, f"{size} bytes for {str(arguments)[:200]}"
                assert result.error_type != "internal_error", result

    def _is_refused(self, at_hand: AtHand, path: str, outside: _Outside) -> None:
        for arguments in self.with_path(path):
            result = at_hand.call(arguments)
            assert not result.ok, (path, result)
            assert result.error_type != "internal_error", result
            assert outside.secret not in json.dumps([dict(result.fields), result.error_message])
            assert outside.unchanged(), f"{path} was changed"


@contextmanager
def _outside(at_hand: AtHand) -> Iterator[_Outside]:
    directory = at_hand.workspace.with_name(f"outside-{secrets.token_hex(4)}")
    directory.mkdir()
    outside = _Outside(directory, secrets.token_hex(8))
    (directory / "secret.txt").write_text(outside.secret)
    (directory / "secret.txt").chmod(0o644)
    yield outside
