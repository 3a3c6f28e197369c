"""The registered commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench_runs import plugin
from agentbench_testing.fixtures import RunAgentbench


def test_the_commands() -> None:
    registered: list[tuple[str, str]] = []
    plugin.agentbench_register_commands(lambda name, target, *, summary: registered.append((name, target)))
    assert registered == [
        ("runs du", "agentbench_runs.du:du"),
        ("runs merge", "agentbench_runs.merge:merge"),
        ("runs pack", "agentbench_runs.packing:pack"),
        ("runs prune", "agentbench_runs.prune:prune"),
        ("runs tag", "agentbench_runs.tag:tag"),
        ("runs unpack", "agentbench_runs.unpack:unpack"),
    ]


def test_missing_distribution_is_named(run_agentbench: RunAgentbench) -> None:
    done = run_agentbench("--no-plugin", "runs", "runs", "prune")
    assert done.code == 2
    assert "is part of agentbench-runs; install it" in done.err


def test_tags_are_added_replaced_and_removed(agentbench: Any, make_run: Callable[..., Path]) -> None:
    run = make_run("a")
    assert agentbench("runs", "tag", "latest", "ticket=42", "why=a b").out == "ticket=42\nwhy=a b\n"
    assert agentbench("runs", "tag", str(run), "why-", "ticket=43", "more=").out == "more=\nticket=43\n"
    assert agentbench("runs", "tag", "latest", "--json").out == '{\n  "more": "",\n  "ticket": "43"\n}\n'
    assert "more= ticket=43" in agentbench("runs", "list").out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("why-", "has no tag 'why'\nIts tags: "),
        ("why", "'why' is not a valid tag\nUse the form KEY=VALUE"),
        ("=x", "a key has at most 63 letters"),
        ("a=\x1b[2J", "control characters"),
    ],
)
def test_invalid_changes_of_tags_change_nothing(
    agentbench: Any, make_run: Callable[..., Path], change: str, message: str
) -> None:
    make_run("a")
    agentbench("runs", "tag", "latest", "ticket=42")
    done = agentbench("runs", "tag", "latest", "more=1", change)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert agentbench("runs", "tag", "latest").out == "ticket=42\n"


def test_only_runs_are_tagged(agentbench: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = agentbench("runs", "tag", "elsewhere", "a=b")
    assert (done.code, "is not a run directory" in done.err) == (2, True)
    assert list((tmp_path / "elsewhere").iterdir()) == []
