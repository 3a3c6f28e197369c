"""The repair loop: when it reruns the failing command, what it sends to the model, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import attrs
import pytest

from agentbench_core import (
    AgentResult,
    BudgetExceeded,
    Completion,
    Conversation,
    ModelFacts,
    RepairOptions,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSpec,
    repair_loop,
    rerun,
)
from agentbench_testing import FAILING_COMMAND, FIX, ContextDouble, calls, open_workbench, says
from agentbench_testing.doubles.workbench import builtin_tools

Make = Callable[..., AbstractContextManager[ContextDouble]]

PATCH = ToolCall(tool="apply_patch", arguments={"unified_diff": FIX})
BAD = ToolCall(tool="apply_patch", arguments={"unified_diff": "junk"})
LOOKS = (
    ToolCall(tool="list_files", arguments={}),
    ToolCall(tool="read_file", arguments={"path": "adding.py"}),
    ToolCall(tool="search", arguments={"pattern": "add"}),
)


def runs(command: str, **more: Any) -> ToolCall:
    return ToolCall(tool="run", arguments={"command": command, **more})


SED = runs("sed -i 's/left - right/left + right/' adding.py")


def returns(what: str, instead_of: str = "left - right") -> ToolCall:
    """A patch that makes the program return something else."""
    diff = f"--- a/adding.py\n+++ b/adding.py\n@@ -3 +3 @@\n-    return {instead_of}\n+    return {what}\n"
    return ToolCall(tool="apply_patch", arguments={"unified_diff": diff})


@pytest.fixture(scope="module")
def make() -> Iterator[Make]:
    """Create contexts in which the program has one bug."""
    with open_workbench() as workbench:
        yield workbench.context


def repaired(double: ContextDouble, **rules: Any) -> AgentResult:
    chat = Conversation(double.context, "Be good.")
    chat.add_user(double.context.instruction)
    return repair_loop(chat, double.context, RepairOptions(**rules), "v1")


def ran(double: ContextDouble) -> list[str]:
    """Return the names of the called tools; the failing command is ``again``."""
    names = []
    for call in double.trace.tool_calls:
        again = call.tool == "run" and call.arguments == {"command": double.context.failing_command}
        names.append("again" if again else call.tool)
    return names


def loop_messages(double: ContextDouble) -> list[str]:
    """Return the messages of the loop to the model, up to its last request."""
    return [message.content for message in double.last_messages[2:] if message.role == "user"]


def test_a_repair(make: Make) -> None:
    """The loop ends as soon as the command passes, and the result has the version of the prompts."""
    with make([PATCH]) as double:
        result = repaired(double)
        assert ran(double) == ["again", "apply_patch", "again"]
    assert result == AgentResult(message="the failing command passes", prompt_version="v1")


@pytest.mark.long
def test_any_command_may_fix_the_program(make: Make) -> None:
    """Any command may change the program, even one that fails or is killed; an answer costs one rerun."""
    for made in (
        SED,
        runs(f"{SED.arguments['command']}; exit 3"),
        runs(f"{SED.arguments['command']}; sleep 60", timeout_sec=3),
    ):
        with make([calls(*LOOKS, made, *LOOKS)]) as double:
            assert repaired(double).message == "the failing command passes"
            assert ran(double).count("again") == 2


def test_unchanged_files_cause_no_rerun(make: Make) -> None:
    """Files are unchanged, so no step is spent on a rerun, even if the model then stops calling tools."""
    with make([calls(*LOOKS, BAD), ToolCall(tool="no_such_tool", arguments={}), "Hm.", "Hm."]) as double:
        assert repaired(double).message == "the model stopped calling tools while the command was still failing"
        assert ran(double).count("again") == 1
        assert loop_messages(double) == [f"`{FAILING_COMMAND}` does not pass yet. Continue with a tool call."]


def test_command_without_effect_is_not_a_change(make: Make) -> None:
    """The model is not sent the same output again, and it does not count as a failed change."""
    looks = [runs(f"cat adding.py; : {number}") for number in range(4)]
    with make([*looks, PATCH]) as double:
        assert repaired(double, same_failure=2).ended == "completed"
        assert ran(double) == ["again", *["run", "again"] * 4, "apply_patch", "again"]
        assert loop_messages(double) == []


def test_failing_command_run_by_the_model_is_not_rerun(make: Make) -> None:
    """Its output is not sent again; after a change in the same answer, the command is rerun."""
    own = runs(FAILING_COMMAND)
    with make([own, calls(returns("7"), own), calls(own, returns("left + right", "7"))]) as double:
        assert repaired(double).ended == "completed"
        assert ran(double) == ["again", "again", "apply_patch", "again", "again", "apply_patch", "again"]
        assert loop_messages(double) == []
    with make([calls(PATCH, own)]) as double:
        assert repaired(double).ended == "completed"
        assert len(ran(double)) == 3


def test_command_with_other_variables_does_not_count(make: Make) -> None:
    """With variables set by the model it is a different command."""
    command = 'test -n "$SET"'
    with make([runs(command, env={"SET": "1"}), "Done.", "Done."], failing_command=command) as double:
        assert repaired(double).ended == "gave_up"
    with make([calls(SED, runs(FAILING_COMMAND, env={}))]) as double:
        assert repaired(double).ended == "completed"
        assert ran(double) == ["again", "run", "run"], "without variables it is the same command"


def test_fix_by_a_background_process_is_found(make: Make) -> None:
    """The command is rerun once before the model is told that it fails, but not twice without a reason."""
    waiting = runs("(while test ! -e go; do sleep 0.05; done; sed -i s/-/+/ adding.py; touch done) >/dev/null 2>&1 &")
    until_done = "while [ ! -e done ]; do sleep 0.05; done"

    def go(_: Any) -> Completion:
        (holder[0].workspace / "go").touch()
        assert holder[0].sandbox.exec(until_done, deadline=holder[0].deadline).ok
        return says("It is done.")

    holder: list[ContextDouble] = []
    with make([waiting, go]) as double:
        holder.append(double)
        assert repaired(double).message == "the failing command passes"
        assert ran(double) == ["again", "run", "again", "again"]
    with make([runs("true"), "Done.", "Done."]) as double:
        assert repaired(double).ended == "gave_up"
        assert ran(double) == ["again", "run", "again", "again"]


def test_output_is_sent_to_the_model_after_changes(make: Make) -> None:
    """The output after each change, and after other calls only if it differs."""
    odd = runs("sed -i 's/return 7/raise KeyError/' adding.py")
    with make([returns("7"), odd, says("", finish="length"), "Hm."]) as double:
        repaired(double)
        first, second, third = loop_messages(double)
    assert first.startswith(f"`{FAILING_COMMAND}` still fails with this change. Output:\n\n")
    assert "7 != 5" in first
    assert second.startswith(f"`{FAILING_COMMAND}` now fails in a different way. Output:\n\n")
    assert "KeyError" in second
    assert third == "Your response was cut off. Be brief, and continue with a tool call."


def test_old_output_of_the_command_is_dropped(make: Make) -> None:
    """Many long failures fit into the window, and the outcome of each change is kept."""
    noisy = f"python3 -c 'from adding import add; print((\"line %s \" % add(2, 3)) * 2000)'; {FAILING_COMMAND}"
    values = [str(number) for number in range(100, 112)]
    changes = [returns(new, old) for new, old in zip(values, ["left - right", *values], strict=False)]
    facts = ModelFacts(context_tokens=10_000, answer_tokens=500)
    with make([*changes, "Hm.", "Hm."], failing_command=noisy, facts=facts) as double:
        result = repaired(double)
        assert result.message == "the model stopped calling tools while the command was still failing"
        said = [message for message in loop_messages(double) if "with this change" in message]
    assert len(said) == len(changes)
    assert "dropped: the conversation grew too long" in said[0]
    assert "line 111 " in said[-1]


def test_repeated_identical_failures_end_the_loop(make: Make) -> None:
    """Changes with the same failure are counted; other values make another failure, even if they look like times."""
    with make([returns("7"), returns("7 + 0", "7"), returns("7 + 1 - 1", "7 + 0")]) as double:
        result = repaired(double, same_failure=2)
    assert (result.ended, result.message) == (
        "gave_up",
        "the command still fails in the same way after 2 changes",
    )
    command = "python3 -c \"from adding import add; v = add(2, 3); print('took %d s' % v); raise SystemExit(v != 5)\""
    values = ["100", "50", "20", "10", "5"]
    changes = [returns(new, old) for new, old in zip(values, ["left - right", *values], strict=False)]
    with make(changes, failing_command=command) as double:
        assert repaired(double, same_failure=1).ended == "completed"


@pytest.mark.long
def test_equal_failures_have_equal_digests(make: Make) -> None:
    """Addresses and the time until a kill are ignored, but the exit code is not."""

    def digest(command: str) -> str:
        with make(tool_timeout_sec=2.0) as double:
            return rerun(attrs.evolve(double.context, failing_command=command)).digest

    assert digest("echo at 0x7f3a12345678; false") == digest("echo at 0x7f3a87654321; false")
    assert digest("false") != digest("exit 2")
    assert digest("false") != digest("true")
    assert digest("echo 5 s; false") != digest("echo 6 s; false")
    killed = digest("echo so far; sleep 60")
    assert killed == digest("echo so far; sleep 60; true")
    assert killed != digest("echo further; sleep 60")


def test_a_command_that_hangs(make: Make) -> None:
    """The model gets the output printed before the command was killed."""
    with make(tool_timeout_sec=2.0) as double:
        found = rerun(attrs.evolve(double.context, failing_command="echo so far; sleep 60"))
    assert not found.passed
    assert found.output.startswith("killed after ")
    assert found.output.endswith("\nso far")


def test_tool_errors_end_the_loop_after_a_rerun(make: Make) -> None:
    """The command is rerun first, since a patch in the same answer may have fixed the program."""
    with make([calls(PATCH, *[BAD] * 8)]) as double:
        assert repaired(double).message == "the failing command passes"
    with make([calls(returns("7"), *[BAD] * 8)]) as double:
        result = repaired(double)
        assert ran(double)[-1] == "again"
    assert result.ended == "tool_error"
    assert result.message.startswith("8 consecutive tool calls failed; last error: ")


def test_without_the_tool_run(make: Make) -> None:
    """The command cannot be rerun, so the model decides when it is done."""
    tools = [tool for tool in builtin_tools() if tool.spec.name != "run"]
    with make([PATCH, BAD, "I am done."], tools=tools) as double:
        result = repaired(double)
        assert loop_messages(double) == [
            "The command cannot be run here, so it is not rerun after your changes. "
            "When you are done, say so in a message without a tool call."
        ]
        assert ran(double) == ["apply_patch", "apply_patch"]
        assert double.passes()
    assert (result.ended, result.message) == ("completed", "I am done.")


@pytest.mark.parametrize("finish", ["empty", "length"])
def test_passing_command_is_not_reported_as_failing(make: Make, finish: Any) -> None:
    """Hidden tests decide, so the model says when it is done, and is never told that the command fails."""
    with make([PATCH, says("", finish=finish), says("", finish=finish)], failing_command="true") as double:
        result = repaired(double)
        opening, passes, further = loop_messages(double)
    assert opening == (
        "`true` already passes: hidden tests decide whether the task is solved. "
        "When you are done, say so in a message without a tool call."
    )
    assert passes.startswith("`true` passes with this change.")
    assert further.startswith("Continue with a tool call, or say" if finish == "empty" else "Your response was cut off")
    assert (result.ended, result.message) == (
        "gave_up",
        "the model stopped calling tools without reporting that it was done",
    )
    with make([PATCH, "All is well."], failing_command="true") as double:
        assert repaired(double).message == "All is well."


def test_passing_command_broken_by_the_model(make: Make) -> None:
    """The model's claim to be done is then rejected."""
    command = "grep -q 'left - right' adding.py"
    with make([PATCH, "Done.", returns("left - right", "left + right"), "Done."], failing_command=command) as double:
        result = repaired(double)
        _, broken, rejected, fixed = loop_messages(double)
    assert broken.startswith(f"`{command}` fails with this change.")
    assert rejected == f"`{command}` no longer passes. Continue with a tool call."
    assert fixed.startswith(f"`{command}` passes with this change.")
    assert (result.ended, result.message) == ("completed", "Done.")


@pytest.mark.parametrize(
    ("finish", "words"), [("refusal", "the model refused"), ("context_overflow", "exceeds the model's context window")]
)
def test_answers_that_end_the_loop(make: Make, finish: Any, words: str) -> None:
    """The model refuses, or its window is exceeded."""
    with make([says("", finish=finish)]) as double:
        result = repaired(double)
    assert (result.ended, words in result.message) == ("gave_up", True)


def test_exhausted_budget_ends_the_loop(make: Make) -> None:
    """If no step is left for a rerun, the exception propagates and changes are kept."""
    with make([PATCH], max_steps=2) as double:
        with pytest.raises(BudgetExceeded):
            repaired(double)
        assert double.passes()


@attrs.frozen
class Breaks:
    """A third-party tool without a declared effect: it changes a file and raises, or refuses."""

    spec = ToolSpec(name="mend", description="Mend.", parameters={"type": "object", "properties": {}})

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if arguments.get("refuse"):
            return ToolResult.failure("refused", "I do not know how")
        context.sandbox.exec(SED.arguments["command"], deadline=context.deadline)
        raise RuntimeError("broken down")


@attrs.frozen
class Renamed:
    """A third-party tool that behaves like a built-in one."""

    tool: Any
    name: str

    @property
    def spec(self) -> ToolSpec:
        spec: ToolSpec = self.tool.spec
        return attrs.evolve(spec, name=self.name)

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        result: ToolResult = self.tool.call(arguments, context)
        return result


def test_names_of_tools_do_not_matter(make: Make) -> None:
    """Effects matter: another shell runs the command, and edits by another tool count as changes."""
    tools = [Renamed(tool, f"my_{tool.spec.name}") for tool in builtin_tools()]
    diffs = [
        attrs.evolve(returns(what, before), tool="my_apply_patch")
        for what, before in (("7", "left - right"), ("7 + 0", "7"))
    ]
    looks = [attrs.evolve(look, tool=f"my_{look.tool}") for look in LOOKS]
    own = attrs.evolve(runs(FAILING_COMMAND), tool="my_run")
    with make([own, *looks, *diffs], tools=tools) as double:
        assert repaired(double, same_failure=1).message.endswith("in the same way after 1 change")
        called = [call.tool for call in double.trace.tool_calls]
    assert called == ["my_run", "my_run", *(look.tool for look in looks), *["my_apply_patch", "my_run"] * 2]


def test_the_first_tool_that_runs_commands_is_taken(make: Make) -> None:
    """A tool named ``run`` that does not run commands is skipped; without any, an error is raised."""
    run = builtin_tools()[-1]
    code = attrs.evolve(Breaks.spec, name="run", effect="runs")
    python = type("Python", (), {"spec": code, "call": None})()
    with make([], tools=[python, Renamed(run, "sh"), Renamed(run, "zsh")]) as double:
        assert not rerun(double.context).passed
        assert [call.tool for call in double.trace.tool_calls] == ["sh"]
    with make([], tools=[python]) as double, pytest.raises(ToolError, match="no available tool runs commands"):
        rerun(double.context)


def test_tools_without_a_declared_effect_may_change_files(make: Make) -> None:
    """Any tool without a declared effect may have changed files, even if it raised, but not if it refused."""
    tools = [*builtin_tools(), Breaks()]
    with make(
        [ToolCall(tool="mend", arguments={"refuse": True}), ToolCall(tool="mend", arguments={})], tools=tools
    ) as double:
        assert repaired(double).message == "the failing command passes"
        assert ran(double) == ["again", "mend", "mend", "again"]
