"""The agent ``context_packer``, with the harness's own tools, a real workspace and a scripted model."""

from typing import Any

import pytest

from agentbench_core import ModelFacts, ToolCall
from agentbench_subagents.options import ContextPackerOptions
from agentbench_subagents.packer import ContextPacker
from agentbench_testing import builtin_tools, calls, says


def solve(double: Any, **options: Any) -> Any:
    return ContextPacker(ContextPackerOptions(**options)).solve(double.context)


def first_message(double: Any) -> str:
    system, first = double.requests[0].messages[:2]
    assert (system.role, first.role) == ("system", "user")
    return str(first.content)


def test_the_relevant_files_are_in_the_first_message_and_a_patch_ends_it(attempt: Any, fix: str) -> None:
    """The failing assertion names only the test. The model needs only one call, the fix."""
    with attempt([ToolCall(tool="apply_patch", arguments={"unified_diff": fix})]) as double:
        result = solve(double)
        assert double.passes()
        first = first_message(double)
        used = [call.tool for call in double.trace.tool_calls]
    assert (result.ended, result.message) == ("completed", "the failing command passes")
    assert result.prompt_version.startswith("packer_v2@sha256:")
    assert used == ["list_files", *["read_file"] * 4, "run", "apply_patch", "run"]
    assert first.startswith(double.context.instruction.rstrip())
    assert "- src/shop/money.py: all 2 lines, about " in first
    assert "=== src/shop/money.py, all 2 lines\ndef total(prices):\n    return sum(prices[1:])" in first
    assert "src/shop/unused.py" not in first


def test_the_pack_stays_within_its_budget_and_lists_omitted_files(attempt: Any) -> None:
    with attempt(["done", "done"]) as double:
        solve(double, pack_tokens=300)
        first = first_message(double)
    packed = first.removeprefix(double.context.instruction.rstrip()).strip()
    assert len(packed.encode()) <= 900
    assert "which did not fit" in packed


@pytest.mark.parametrize(("window", "most"), [(None, 8000), (6000, 2000), (100, 300)])
def test_a_small_model_gets_a_small_pack(attempt: Any, window: int | None, most: int) -> None:
    with attempt([], facts=ModelFacts(context_tokens=window)) as double:
        packed = ContextPacker(ContextPackerOptions()).packed(double.context)
    assert f"(at most {most} tokens" in packed.text


@pytest.mark.parametrize(
    ("max_steps", "max_files", "steps"), [(None, 10, 5), (9, 10, 4), (2, 10, 1), (30, 1, 2), (30, 0, 1)]
)
def test_reading_uses_at_most_its_share_of_the_steps(
    attempt: Any, max_steps: int | None, max_files: int, steps: int
) -> None:
    with attempt([], max_steps=max_steps) as double:
        ContextPacker(ContextPackerOptions(max_files=max_files)).packed(double.context)
        assert double.budget.steps == steps


def test_without_tools_that_read_nothing_is_packed(attempt: Any) -> None:
    tools = [tool for tool in builtin_tools() if tool.spec.name in ("run", "apply_patch")]
    with attempt(["done", "done"], tools=tools) as double:
        assert solve(double).ended == "gave_up"
        assert first_message(double).endswith("none\n")


def test_it_gives_up_like_the_repair_loop(attempt: Any) -> None:
    useless = ToolCall(tool="read_file", arguments={"path": "gone"})
    with attempt([useless] * 9) as double:
        assert solve(double, tool_errors=3).ended == "tool_error"
        assert len(double.requests) == 3
    with attempt([says("no", finish="refusal")]) as double:
        assert solve(double).ended == "gave_up"
    with attempt([calls(), says("")]) as double:
        assert solve(double, idle_turns=2).ended == "gave_up"
