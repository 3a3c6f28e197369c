"""The tree of delegations between agents. Agents emit these events themselves and may write anything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, strategies as some

from agentbench_core import Delegation
from agentbench_core.cli.delegations import AgentTree
from agentbench_core.values.events import LLMRequest, LLMResponse, ToolCallStarted


def lines(*links: tuple[str, str]) -> list[str]:
    """Return the lines of the tree: branches and names."""
    tree = AgentTree()
    for parent, child in links:
        tree.add(Delegation(parent=parent, child=child, role="r", depth=1))
    return [line.removesuffix(": calls 0, tokens 0, steps 0") for line in tree.lines()]


def names(lines: Sequence[str]) -> list[str]:
    return [line.lstrip("│├└─ ") for line in lines]


def test_no_delegations() -> None:
    """The tree is empty."""
    assert lines() == []


def test_a_tree() -> None:
    """Children are below their parents, in the order of delegation."""
    assert lines(("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")) == [
        "a",
        "├─ b",
        "│  ├─ d",
        "│  └─ e",
        "└─ c",
        "   └─ f",
    ]


def test_usage_per_agent() -> None:
    """Calls, tokens and steps are those of one agent; a retried call counts once."""
    tree = AgentTree()
    tree.add(Delegation(parent="a", child="b", role="r", depth=1))
    for exchange in (1, 2):
        tree.add(LLMRequest(call=7, exchange=exchange, agent="b", messages=1))
    tree.add(
        LLMResponse(
            call=7,
            exchange=2,
            finish="stop",
            model="m",
            served_by="",
            prompt_tokens=10,
            completion_tokens=2,
            cached_tokens=0,
            cost_usd=None,
            duration_sec=0.1,
        )
    )
    tree.add(ToolCallStarted(step=1, agent="a", tool="run"))
    assert list(tree.lines()) == ["a: calls 0, tokens 0, steps 1", "└─ b: calls 1, tokens 12, steps 0"]


def test_agent_with_several_parents_is_drawn_once() -> None:
    """It is below its first parent; otherwise repeated links would grow exponentially."""
    doubled = [(f"a{number}", f"a{number + 1}") for number in range(40) for _ in range(2)]
    assert names(lines(*doubled)) == [f"a{number}" for number in range(41)]
    assert lines(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")) == ["a", "├─ b", "│  └─ d", "└─ c"]


def test_cyclic_delegations() -> None:
    """Each agent in a cycle is drawn once, even without a root."""
    assert lines(("a", "a")) == ["a"]
    assert lines(("a", "b"), ("b", "a")) == ["a", "└─ b"]
    assert lines(("x", "y"), ("a", "b"), ("b", "a")) == ["x", "└─ y", "a", "└─ b"]


def test_a_long_chain_and_a_wide_tree() -> None:
    """Only the first 200 lines are shown, with the number of omitted ones."""
    chain = lines(*pairwise(f"a{number}" for number in range(1501)))
    assert names(chain) == [*(f"a{number}" for number in range(200)), "... and 1301 more"]
    wide = lines(*(("a", f"b{number}") for number in range(200)))
    assert (len(wide), wide[-2:]) == (201, ["├─ b198", "... and 1 more"])
    assert lines(*(("a", f"b{number}") for number in range(199)))[-1] == "└─ b198"


def test_names_are_shortened_to_one_line() -> None:
    """Names are shortened to one line; control sequences are escaped when they are printed."""
    assert lines(("a\nb\r\tc\u2028d", "e" * 1000)) == ["a b c d", f"└─ {'e' * 80}"]


def test_names_on_a_terminal(agentbench: Any, make_task: Any, plugin: Any) -> None:
    """Control sequences in agent names are escaped."""
    make_task()
    plugin("odd", ODD)
    assert agentbench("run", "--suite", "mini", "--agent", "odd").code == 0
    (row,) = agentbench("runs", "list", "--json").out.split('"directory": "')[1:]
    shown = agentbench("runs", "show", row.partition('"')[0]).out
    assert "  odd: calls 0, tokens 0, steps 0\n  └─ evil\\u001b[31m red\\u202e: calls 0, tokens 0, steps 0\n" in shown


@given(some.lists(some.tuples(some.sampled_from("abcdefgh"), some.sampled_from("abcdefgh"))))
def test_every_agent_is_drawn_exactly_once(links: list[tuple[str, str]]) -> None:
    """Every agent is drawn exactly once."""
    assert sorted(names(lines(*links))) == sorted({name for link in links for name in link})


ODD = """
import attrs
from agentbench_core import AgentResult, Delegation, hookimpl

@attrs.frozen
class Nothing:
    pass

class Odd:
    def solve(self, context):
        context.log.emit(Delegation(parent="odd", child="evil\\x1b[31m\\nred\\u202e", role="r", depth=1))
        return AgentResult()

@hookimpl
def agentbench_register_agents(register):
    register("odd", lambda options: Odd(), Nothing, summary="odd")
"""
