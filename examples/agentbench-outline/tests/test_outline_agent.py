"""The agent ``outline-first``, with the harness's own tools, real files and a scripted model."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentbench_core import AgentResult, ModelFacts, Prompt, Tool, ToolCall, Warning_
from agentbench_outline.agent import OutlineFirst
from agentbench_outline.options import OutlineFirstOptions, OutlineOptions
from agentbench_outline.paths import imported, named
from agentbench_outline.tool import Outline
from agentbench_testing import FIX, ContextDouble, builtin_tools, make_context

PATCH = ToolCall(tool="apply_patch", arguments={"unified_diff": FIX})
OFFERED: Sequence[Tool] = (*builtin_tools(), Outline(OutlineOptions()))


def solve(attempt: ContextDouble, **options: Any) -> AgentResult:
    return OutlineFirst(OutlineFirstOptions(**options)).solve(attempt.context)


def test_outlines_come_before_the_first_answer() -> None:
    """The failure names the test, the test imports the program: both are outlined, and the model patches at once."""
    with make_context([PATCH], tools=OFFERED) as attempt:
        result = solve(attempt)
        assert attempt.passes()
        tools = [call.tool for call in attempt.trace.tool_calls]
        _, instruction, outlines = attempt.requests[0].messages[:3]
    assert (result.ended, result.message) == ("completed", "the failing command passes")
    assert result.prompt_version.startswith("outline_first_v2@sha256:")
    assert tools == ["list_files", "outline", "outline", "run", "apply_patch", "run"]
    assert instruction.content == attempt.context.instruction
    assert "test_adding.py\n6-8: class TestAdd\n7-8: def TestAdd.test_two_numbers" in outlines.content
    assert "\n\nadding.py\n1-3: def add - The sum of two numbers." in outlines.content


@pytest.mark.parametrize(
    ("version", "beginning"),
    [
        ("v1", "Outlines of files that the failure leads to (lines: definition - what it says of itself):\n\n"),
        ("v2", "Outlines of files related to the failure (lines: definition - docstring):\n\n"),
    ],
)
def test_the_option_chooses_the_prompts(version: str, beginning: str) -> None:
    """v1 is byte for byte that of earlier releases."""
    prompt = Prompt.read("agentbench_outline", f"outline_first_{version}")
    with make_context([PATCH], tools=OFFERED) as attempt:
        result = solve(attempt, prompt_version=version)
        system, _, outlines = attempt.requests[0].messages[:3]
    assert system.content == prompt.text
    assert result.prompt_version == prompt.version
    assert outlines.content.startswith(beginning)
    if version == "v1":
        digest = "cef9d737fc978a15e79f0330a4869cd1b57e7e8531f2070a5665cad6f5788fab"
        assert prompt.version == f"outline_first_v1@sha256:{digest}"


def test_without_its_tool_it_warns_and_continues() -> None:
    with make_context([PATCH]) as attempt:
        assert solve(attempt).ended == "completed"
        warnings = [event.message for event in attempt.events if isinstance(event, Warning_)]
    assert warnings == ["no outlines: missing tools: outline; use --variant outline-first"]


@pytest.mark.parametrize(
    ("max_steps", "max_files", "steps"), [(None, 6, 3), (30, 1, 2), (30, 0, 0), (8, 6, 2), (7, 6, 0)]
)
def test_it_outlines_within_its_share_of_the_steps(max_steps: int | None, max_files: int, steps: int) -> None:
    with make_context([], tools=OFFERED, max_steps=max_steps) as attempt:
        OutlineFirst(OutlineFirstOptions(max_files=max_files)).outlines(attempt.context)
        assert attempt.budget.steps == steps


@pytest.mark.parametrize(("max_chars", "window"), [(190, None), (9000, 253)])
def test_outlines_stay_within_the_limit(max_chars: int, window: int | None) -> None:
    """The option, or the model's context window; outlines that do not fit are omitted completely."""
    with make_context([], tools=OFFERED, facts=ModelFacts(context_tokens=window)) as attempt:
        text = OutlineFirst(OutlineFirstOptions(max_chars=max_chars)).outlines(attempt.context)
    assert "test_adding.py" in text
    assert "def add" not in text
    assert len(text) <= 190


def test_a_file_that_cannot_be_parsed_is_skipped() -> None:
    """It may be the file with the bug."""
    files = {"broken.py": "def f(:\n", "test_it.py": "import broken\n"}
    with make_context([], tools=OFFERED, files=files, failing_command="python3 broken.py test_it.py") as attempt:
        text = OutlineFirst(OutlineFirstOptions()).outlines(attempt.context)
    assert "test_it.py\n(no classes, no functions)" in text
    assert "\nbroken.py\n" not in text


def test_which_files_an_output_names() -> None:
    paths = ["src/shop/cart.py", "tests/test_cart.py", "cart.py"]
    output = 'FAILED tests/test_cart.py::test_a\n  File "/sandbox/src/shop/cart.py", line 3\nSee other.py, cart.py.'
    assert named(output, paths) == ["tests/test_cart.py", "src/shop/cart.py", "cart.py"]
    assert named("a" * 2_000_000 + ".py", paths) == []


def test_which_files_are_imported() -> None:
    paths = ["lib/shop/cart.py", "src/shop/__init__.py", "src/shop/cart.py", "src/shop/money/__init__.py", "run.py"]
    assert imported(["shop.cart.Cart", "shop.money.total", "os.path", "run"], "tests/test_cart.py", paths) == [
        *("lib/shop/cart.py", "src/shop/money/__init__.py", "run.py"),
    ]
    assert imported([".cart.Cart", ".money", ".VERSION", "..x"], "src/shop/till.py", paths) == [
        *("src/shop/cart.py", "src/shop/money/__init__.py", "src/shop/__init__.py"),
    ]
