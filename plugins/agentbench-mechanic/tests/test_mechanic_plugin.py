"""The registered components, the cost of the import, and the provider."""

import subprocess
import sys
from typing import Any, cast

import attrs
import pytest

from agentbench_core import (
    Deadline,
    ExpectedCalls,
    InputError,
    LLMCall,
    Message,
    NoOptions,
    Request,
    ToolSpec,
    option,
)
from agentbench_mechanic import plugin
from agentbench_mechanic.provider import MODEL, Mechanic
from agentbench_testing import CallDouble, MakeTask, RunAgentbench

HEAVY = ("httpx", "numpy", "scipy", "pydantic", "python_on_whales", "rich", "tabulate")
SOURCE = "def fits(width, text):\n    return len(text) < width\n"
TEST = "from fits import fits\n\n\ndef test_exactly():\n    assert fits(3, 'abc')\n    assert not fits(2, 'abc')\n"
PATCH = """\
--- a/fits.py
+++ b/fits.py
@@ -1,2 +1,2 @@
 def fits(width, text):
-    return len(text) < width
+    return len(text) <= width
"""
COMMAND = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@attrs.frozen(kw_only=True)
class Arguments:
    why: str = option(help="a reason")


VOTE = ToolSpec.of("vote", "Vote.", Arguments)


def call() -> LLMCall:
    return CallDouble()


def test_registers_a_model_that_is_offline() -> None:
    registered = []

    def register(name: str, factory: Any, options: type, *, summary: str, capabilities: Any) -> None:
        registered.append((name, factory(options()), options, capabilities))

    plugin.agentbench_register_llms(cast("Any", register))
    assert registered == [("mechanic", Mechanic(), NoOptions, {"offline"})]


def test_entry_module_imports_nothing_heavy() -> None:
    later = ("agentbench_mechanic.provider", "agentbench_mechanic.mechanic", "agentbench_mechanic.repair")
    code = (
        "import sys, agentbench_mechanic.plugin;"
        f"print(sorted(name for name in {(*HEAVY, *later)!r} if name in sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_it_is_free_and_warns_about_results() -> None:
    request = Request(messages=(), model=MODEL)
    expected = ExpectedCalls(request=request, workers=1, max_cost_usd=1.0, deadline=Deadline(9.0))
    facts = Mechanic().preflight(expected)
    assert (facts.usd_per_million_input, facts.usd_per_million_output, facts.usd_per_request) == (0, 0, 0)
    assert "do not measure agents" in " ".join(facts.warnings)
    with pytest.raises(InputError, match="only the model 'mechanic', not 'other'"):
        Mechanic().preflight(attrs.evolve(expected, request=attrs.evolve(request, model="other")))


def test_its_own_responses() -> None:
    """Tests what the planned responses of the kit do not cover: unique ids of calls, tokens, and the end."""
    request = Request(messages=(Message(role="user", content="Vote."),), tools=(VOTE,), model=MODEL)
    first = Mechanic().complete(request, call())
    assert (first.finish, first.model, [made.tool for made in first.message.tool_calls]) == (
        "tool_calls",
        MODEL,
        ["vote"],
    )
    result = Message(role="tool", content="thanks", tool_call_id=first.message.tool_calls[0].id)
    request = attrs.evolve(request, messages=(*request.messages, first.message, result))
    last = Mechanic().complete(request, call())
    assert (last.finish, last.message.tool_calls) == ("stop", ())
    assert first.usage is not None
    assert last.usage is not None
    assert last.usage.prompt_tokens > first.usage.prompt_tokens > 10
    assert (first.usage.cost_usd, first.usage.completion_tokens > 1) == (0.0, True)


def test_each_call_has_a_unique_id() -> None:
    request = Request(messages=(Message(role="user", content="Vote."),), tools=(VOTE,), model=MODEL)
    made = Mechanic().complete(request, call()).message
    again = attrs.evolve(request, messages=(made, made, *request.messages))
    assert Mechanic().complete(again, call()).message.tool_calls == ()  # it has already voted
    other = ToolSpec.of("run", "Run.", Arguments)
    patch = ToolSpec.of("apply_patch", "Patch.", Arguments)
    later = Mechanic().complete(attrs.evolve(again, tools=(other, patch)), call()).message
    assert [one.id for one in (*made.tool_calls, *later.tool_calls)] == ["call-1", "call-3"]


@pytest.mark.release
def test_it_fixes_a_program_with_the_documented_command(make_task: MakeTask, run_agentbench: RunAgentbench) -> None:
    """It uses the agent `baseline` and the default sandbox."""
    task = make_task(
        files={"fits.py": SOURCE, "test_fits.py": TEST},
        patch=PATCH,
        environment={"timeout_sec": 200},
        validation={"failing_command": COMMAND, "passing_command": COMMAND},
    )
    done = run_agentbench("run-task", "--task", str(task), "--agent", "baseline", "--llm", "mechanic")
    assert "1 of 1 scored attempts passed" in done.out, done.err
    assert "0.0000 USD" in done.out
