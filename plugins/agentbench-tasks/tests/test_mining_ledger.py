"""The results of mining in memory and on disk: after a killed process, during another one, and in hostile suites."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbench_core import InputError
from agentbench_tasks.mining.candidate import Candidate
from agentbench_tasks.mining.ledger import LEDGER_FILE, Entry, Environment, Ledger
from agentbench_tasks.mining.task_files import remove_staged
from agentbench_tasks.mining.values import Commit
from agentbench_tasks.mining.workshop import MiningSettings


def entry(commit: str) -> Entry:
    return Entry(commit=commit, date="2024-01-01T00:00:00Z", subject="s", code="BOT", reason="r")


def test_an_incomplete_line_is_replaced_by_the_next_one_but_not_by_reading(tmp_path: Path) -> None:
    """M08: another process may be writing it while ``--explain`` or ``--dry-run`` reads the file."""
    Ledger(tmp_path).add(entry("a" * 40))
    file = tmp_path / LEDGER_FILE
    with file.open("ab") as writing:
        writing.write(b'{"type": "commit", "comm')
    before = file.read_bytes()
    ledger = Ledger(tmp_path)
    assert (set(ledger.entries), file.read_bytes()) == ({"a" * 40}, before)
    ledger.add(Environment(key="k", date="2024-01-01T00:00:00Z", python="3.11", pins=("a==1",)))
    ledger.add_all([entry("b" * 40), entry("c" * 40)])
    again = Ledger(tmp_path)
    assert (set(again.entries), set(again.environments)) == ({"a" * 40, "b" * 40, "c" * 40}, {"k"})


def test_links_in_a_suite_are_not_followed(tmp_path: Path) -> None:
    """M08: a suite may be part of a repository that somebody else has made."""
    suite, outside = tmp_path / "suite", tmp_path / "outside"
    suite.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (suite / LEDGER_FILE).symlink_to(outside / "new")
    with pytest.raises(InputError, match="cannot be written"):
        Ledger(suite).add(entry("a" * 40))
    (suite / ".mining").symlink_to(outside)
    remove_staged(suite / ".mining")
    assert not (suite / ".mining").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["kept"]


def test_an_error_in_the_work_on_a_commit_is_its_result_with_a_traceback(tmp_path: Path) -> None:
    class Stop:
        def within(self, seconds: float) -> None:
            raise RuntimeError("surprise")

    commit = Commit(
        id="a" * 40, parent="b" * 40, date="2024-01-01T00:00:00Z", author_date="", author="", subject="s", body=""
    )
    shop: Any = SimpleNamespace(
        staging=tmp_path,
        session=SimpleNamespace(stop=Stop()),
        settings=MiningSettings(suite="s"),
        settings_digest="settings",
    )
    result = Candidate(shop=shop, commit=commit).work()
    assert (result.code, result.reason, result.task, result.final) == ("INTERNAL", "RuntimeError: surprise", "", False)
    (trace,) = result.steps
    assert trace.endswith("RuntimeError: surprise")
    assert "in within" in trace
