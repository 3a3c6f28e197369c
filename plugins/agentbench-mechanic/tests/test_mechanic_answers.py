"""The mechanic as a function from a conversation to a response."""

from __future__ import annotations

import argparse
import ast
import builtins
import copy
import dataclasses
import inspect
import io
import json
import keyword
import re
import sys
import tokenize
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

import agentbench_mechanic
from agentbench_core import Message, Request, ToolCall, ToolSpec
from agentbench_mechanic.guessing import patched
from agentbench_mechanic.mechanic import next_reply
from agentbench_mechanic.repair.__main__ import BEGIN, END
from agentbench_mechanic.transcript import Reply
from agentbench_mechanic.upload import packed, upload_commands

HOME = Path(agentbench_mechanic.__file__).parent
ROOT = Path(__file__).parents[3]

OUTPUT = """\
src/shelf.py:3: AssertionError
FAILED tests/test_shelf.py::test_room - assert 4 == 5
2 failed, 3 passed in 0.1s
"""
INSTRUCTION = f"Shelves are too small.\n\nThe command `python -m pytest -q tests` prints:\n\n{OUTPUT}"
SHELF = "def room(shelf, books):\n    if shelf is None:\n        return len(shelf) - 1\n    return shelf < books\n"
CHANGE = "--- a/src/shelf.py\n+++ b/src/shelf.py\n@@ -1 +1 @@\n-a\n+b\n"


def tool(name: str, *required: str, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in required} | properties}
    return ToolSpec(name=name, description="", parameters={**schema, "required": list(required)})


ALL = [tool("list_files"), tool("read_file", "path"), tool("run", "command"), tool("apply_patch", "unified_diff")]
READING = [tool("list_files"), tool("read_file", "path"), tool("apply_patch", "unified_diff")]


class Chat:
    """A conversation with the mechanic, with tool results from a test."""

    def __init__(self, text: str, tools: Sequence[ToolSpec], max_tokens: int | None = None) -> None:
        self.request = Request(messages=(), tools=tuple(tools), max_tokens=max_tokens)
        self.add(Message(role="system", content="Fix it."))
        self.say(text)

    def add(self, *messages: Message) -> None:
        self.request = attrs.evolve(self.request, messages=(*self.request.messages, *messages))

    def say(self, text: str) -> None:
        self.add(Message(role="user", content=text))

    def ask(self) -> Reply:
        before = copy.deepcopy(self.request)
        reply = next_reply(self.request)
        assert self.request == before
        assert next_reply(self.request) == reply, "the reply depends on state"
        return reply

    def call(self, result: str, *, expected: str) -> Mapping[str, Any]:
        """Request a response, which must be one call of ``expected``. It gets ``result``. Returns its arguments."""
        reply = self.ask()
        (call,) = reply.calls
        assert call.tool == expected, reply
        call = attrs.evolve(call, id=f"c{len(self.request.messages)}")
        self.add(
            Message(role="assistant", content=reply.text, tool_calls=(call,)),
            Message(role="tool", tool_call_id=call.id, content=result),
        )
        return call.arguments

    def upload(self) -> None:
        for _ in upload_commands(self.request.max_tokens or 4096):
            self.call("exit_code: 0\nstdout: \nstderr: ", expected="run")


def searched(*lines: str, change: str = "") -> str:
    text = "".join(f"repair: {line}\n" for line in lines)
    return f"exit_code: {int(not change)}\nstdout:\n{text}" + (f"{BEGIN}\n{change}{END}" if change else "")


# --- search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [2048, 4096, 100_000])
def test_the_search_is_uploaded_in_parts_that_are_short_enough(max_tokens: int) -> None:
    chat = Chat(INSTRUCTION, ALL, max_tokens=max_tokens)
    uploaded = ""
    for number, _ in enumerate(upload_commands(max_tokens)):
        command = chat.call("exit_code: 0", expected="run")["command"]
        assert len(command) < max_tokens * 4
        found = re.fullmatch(r"printf %s '([^']*)' (>>?) \S+", command)
        assert found is not None
        assert found[2] == (">>" if number else ">")
        uploaded += found[1]
    assert uploaded == packed()
    last = chat.call("", expected="run")["command"]
    assert "python -m repair" in last
    assert last.endswith("--skip 0 tests")


@pytest.mark.parametrize("prints", ["It prints:", "Output:"], ids=["v1", "v2"])
def test_a_change_that_helps_is_sent_as_a_diff(prints: str) -> None:
    chat = Chat(INSTRUCTION, ALL)
    chat.upload()
    chat.call(searched("3 tests pass, 2 fail", "chosen: x", change=CHANGE), expected="run")
    assert chat.call("changed_files:\n  src/shelf.py", expected="apply_patch")["unified_diff"] == CHANGE
    chat.say(f"`python -m pytest -q tests` passes with this change. {prints}\n\n5 passed")
    assert chat.ask().calls == ()


def test_a_part_is_fixed_first_and_then_the_rest() -> None:
    chat = Chat(INSTRUCTION, ALL)
    chat.upload()
    chat.call(searched("3 tests pass, 2 fail", change=CHANGE), expected="run")
    chat.call("changed_files:\n  src/shelf.py", expected="apply_patch")
    chat.say("`python -m pytest -q tests` still fails with this change. It prints:\n\n1 failed")
    again = chat.call(searched("4 tests pass, 1 fail", change=CHANGE), expected="run")["command"]
    assert again.endswith("--skip 0 tests")
    assert "END" not in again, "the search was uploaded again"
    chat.call("error: not_editable: no", expected="apply_patch")
    assert (
        "--skip"
        in chat.call(searched("4 tests pass, 1 fail", "tried up to number 9, 0 left"), expected="run")["command"]
    )
    assert chat.ask().calls == ()


def test_it_continues_where_it_stopped_and_gives_up_in_time() -> None:
    chat = Chat(INSTRUCTION, ALL)
    chat.upload()
    nothing = "tried up to number 40, 60 left"
    chat.call(searched("3 tests pass, 2 fail", nothing), expected="run")
    assert "--skip 40 " in chat.call(searched("3 tests pass, 2 fail", nothing), expected="run")["command"]
    assert "give up" in chat.ask().text


def test_no_change_if_all_tests_pass() -> None:
    chat = Chat(INSTRUCTION, ALL)
    chat.upload()
    chat.call(searched("5 tests pass, 0 fail"), expected="run")
    assert chat.ask().calls == ()


def test_a_sandbox_that_cannot_run_the_search() -> None:
    chat = Chat(INSTRUCTION, ALL)
    chat.upload()
    chat.call("exit_code: 127\nstdout: \nstderr: python: not found", expected="run")
    chat.call("paths:\n  src/shelf.py", expected="list_files")  # it reads files instead


# --- guesses ----------------------------------------------------------------------------------------------------


def test_without_running_anything_it_reads_and_guesses() -> None:
    chat = Chat(INSTRUCTION, READING)
    chat.call("paths:\n  src/__init__.py\n  src/shelf.py\n  tests/test_shelf.py\nomitted: 0", expected="list_files")
    file = f"text:\n{SHELF.rstrip()}\ntotal_lines: 4\nomitted_chars: 0\n[left: 20 steps]"
    assert chat.call(file, expected="read_file") == {"path": "src/shelf.py"}
    seen, now = {SHELF}, SHELF
    for _ in range(5):
        diff = chat.call("changed_files:\n  src/shelf.py", expected="apply_patch")["unified_diff"]
        chat.say("`python -m pytest -q tests` still fails with this change. It prints:\n\n2 failed")
        now = patched(now, diff)
        ast.parse(now)
        assert now not in seen
        changed = [line for line, given in zip(now.splitlines(), SHELF.splitlines(), strict=False) if line != given]
        assert len(changed) == 1, "a change that did not help was not reverted"
        seen.add(now)


def test_a_refused_guess_is_not_repeated() -> None:
    chat = Chat(INSTRUCTION, READING)
    chat.call("paths:\n  src/shelf.py\nomitted: 0", expected="list_files")
    chat.call(f"text:\n{SHELF}total_lines: 4\nomitted_chars: 0", expected="read_file")
    refused = [chat.call("error: bad_patch: no", expected="apply_patch")["unified_diff"] for _ in range(4)]
    assert len(set(refused)) == 4


# --- roles -------------------------------------------------------------------------------------------------------

ROUTER = tool("decide", "task", action={"type": "string", "enum": ["search", "patch", "test", "stop"]})
SEARCHER = tool("report", files={"type": "array"}, summary={"type": "string"})
PATCHER = tool("report", "unified_diff", explanation={"type": "string"})
TESTER = tool("report", "advice", verdict={"type": "string", "enum": ["passes", "progress", "same", "worse"]})


def test_router() -> None:
    chat = Chat(INSTRUCTION, [ROUTER])
    assert chat.call("result: found", expected="decide")["action"] == "search"
    for _ in range(3):
        assert chat.call("result: still fails", expected="decide")["action"] == "patch"
    assert chat.call("result: same", expected="decide")["action"] == "test"
    reply = chat.call("result: The patcher ended without a result: no report", expected="decide")
    assert reply["action"] == "patch"
    assert chat.call("", expected="decide")["action"] == "stop"


def test_searcher() -> None:
    chat = Chat(INSTRUCTION, [*READING[:2], SEARCHER])
    chat.call("paths:\n  src/shelf.py\n  tests/test_shelf.py\nomitted: 0", expected="list_files")
    chat.call(f"text:\n{SHELF}total_lines: 4\nomitted_chars: 0", expected="read_file")
    report = chat.call("", expected="report")
    (file,) = report["files"]
    assert file["path"] == "src/shelf.py"
    (snippet,) = file["snippets"]
    assert snippet["text"] in SHELF
    assert SHELF.splitlines()[snippet["first_line"] - 1] == snippet["text"].splitlines()[0]


def test_patcher_reads_the_findings_and_reports_a_diff() -> None:
    chat = Chat(f"{INSTRUCTION}\nFound so far:\n\nsrc/shelf.py: looks odd\n\nYour task: fix", [*READING[:2], PATCHER])
    assert chat.call(f"text:\n{SHELF}total_lines: 4\nomitted_chars: 0", expected="read_file") == {
        "path": "src/shelf.py"
    }
    first = chat.call("error: refused: no", expected="report")["unified_diff"]
    assert patched(SHELF, first) != SHELF
    assert chat.call("", expected="report")["unified_diff"] != first


def test_patcher_reverts_earlier_changes() -> None:
    changed = SHELF.replace("<", ">")
    made = "--- a/src/shelf.py\n+++ b/src/shelf.py\n@@ -4 +4 @@\n-    return shelf < books\n+    return shelf > books\n"
    text = f"{INSTRUCTION}\n\nThese changes have been made already, and are in the files:\n\n{made}\n\nYour task: fix"
    chat = Chat(text, [*READING[:2], PATCHER])
    chat.call(f"text:\n{changed}total_lines: 4\nomitted_chars: 0", expected="read_file")
    after = patched(changed, chat.call("", expected="report")["unified_diff"])
    assert after not in (SHELF, changed)
    assert sum(one != two for one, two in zip(after.splitlines(), SHELF.splitlines(), strict=False)) == 1


@pytest.mark.parametrize("heading", ["With them", "With these changes,"], ids=["v1", "v2"])
def test_patcher_keeps_changes_that_fixed_a_part(heading: str) -> None:
    """It fixes only code smells, in this case a mutable default."""
    changed = "def room(shelf, books=[]):\n    return shelf <= books\n"
    made = (
        "--- a/src/shelf.py\n+++ b/src/shelf.py\n@@ -2 +2 @@\n-    return shelf < books\n+    return shelf <= books\n"
    )
    printed = f"{heading} `python -m pytest -q tests` prints:\n\n1 failed, 4 passed"
    chat = Chat(f"{INSTRUCTION}\n\nChanges:\n\n{made}\n\n{printed}\n\nYour task: fix", [*READING[:2], PATCHER])
    chat.call(f"text:\n{changed}total_lines: 2\nomitted_chars: 0", expected="read_file")
    after = patched(changed, chat.call("", expected="report")["unified_diff"])
    assert "books=None" in after
    assert "return shelf <= books" in after


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ("3 failed, 1 passed", "1 failed, 3 passed", "progress"),
        ("3 failed, 1 passed", "3 failed, 1 passed", "same"),
        ("1 failed", "2 failed", "worse"),
        ("1 failed", "4 passed", "passes"),
        ("FAILED (failures=3)", "FAILED (failures=2)", "progress"),
    ],
)
@pytest.mark.parametrize(
    "headings",
    [("Before the last change it printed:", "Now it prints:"), ("Output before the last change:", "Output now:")],
    ids=["v1", "v2"],
)
def test_tester(before: str, now: str, verdict: str, headings: tuple[str, str]) -> None:
    text = f"{headings[0]}\n\n{before}\n\n{headings[1]}\n\n{now}\n\nYour task: evaluate"
    assert Chat(text, [TESTER]).call("", expected="report")["verdict"] == verdict


def test_an_unknown_tool_is_called_according_to_its_schema() -> None:
    nested = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    given = tool("vote", "why", "for_what", for_what=nested)
    chat = Chat("Vote.", [given])
    assert chat.call("thanks", expected="vote") == {"why": "-", "for_what": {"n": 3}}
    assert chat.ask().calls == ()


def test_without_tools_it_replies_with_text() -> None:
    reply = next_reply(Request(messages=(Message(role="user", content="hello"),)))
    assert (reply.calls, bool(reply.text)) == ((), True)


# --- any request -------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["path", "command", "unified_diff", "properties", "required"]), JSON)
NAMES = st.sampled_from(["run", "apply_patch", "read_file", "list_files", "report", "decide", "bash"])
CALLS = st.builds(
    ToolCall, tool=NAMES, arguments=st.just({"path": "x.py"}) | OBJECTS, id=st.sampled_from(["", "a", "b"])
)
CONTENTS = st.sampled_from(
    [
        INSTRUCTION,
        CHANGE,
        searched("tried up to number 1, 2 left"),
        searched(change=CHANGE),
        f"text:\n{SHELF}total_lines: 4\nomitted_chars: 0",
    ]
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=CONTENTS | st.text(max_size=40),
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    tool_call_id=st.sampled_from(["", "a"]),
)
OFFERED = st.lists(
    st.sampled_from([*ALL, ROUTER, SEARCHER, PATCHER, TESTER])
    | st.builds(ToolSpec, name=NAMES, description=st.just(""), parameters=OBJECTS),
    max_size=5,
) | st.just([tool("bash", "command")])
REQUESTS = st.builds(
    Request,
    messages=st.lists(MESSAGES, max_size=6).map(tuple),
    tools=OFFERED.map(tuple),
    max_tokens=st.none() | st.integers(min_value=1, max_value=9000),
)


@pytest.mark.release
@given(REQUESTS)
@settings(deadline=None, max_examples=300)
def test_any_request_gets_a_reply(request: Request) -> None:
    reply = next_reply(request)
    assert reply.text
    json.dumps([call.arguments for call in reply.calls])


@given(st.text(alphabet="ab\n \\+-@", max_size=60), st.text(alphabet="ab\n \\+-@", max_size=200))
def test_any_diff_can_be_applied(text: str, diff: str) -> None:
    assert isinstance(patched(text, diff), str)
    assert isinstance(patched(text, diff, back=True), str)


# --- independence of the tasks -------------------------------------------------------------------------------


def _names(text: str) -> Iterator[str]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        tokens = []
    for token in tokens:
        if token.type == tokenize.NAME:
            yield token.string
        elif token.type == tokenize.STRING:
            yield from re.findall(r"\w+", token.string)


def _is_compound(name: str) -> bool:
    """Whether a name is a compound of words, so that it does not occur by chance."""
    return len(name.strip("_")) > 7 and bool(re.search(r"[a-z]_[a-z]|[a-z][A-Z]", name.strip("_")))


_PYTHONS = (str, bytes, list, dict, set, int, tuple, ast, re, tokenize, io, argparse, unicodedata)


def test_source_contains_no_names_from_tasks() -> None:
    """No id, no package or file name, and no other name in their programs, tests and solutions, except Python's."""
    tasks = [path.parent for path in ROOT.glob("tasks/*/*/task.yaml")]
    assert len(tasks) > 20
    theirs = {task.name for task in tasks}
    for task in tasks:
        theirs |= {path.name for path in (task / "repo").rglob("*") if (path / "__init__.py").exists()}
        for path in task.rglob("*.py"):
            theirs |= {name for name in _names(path.read_text(encoding="utf-8")) if _is_compound(name)}
        added = [line[1:] for line in (task / "solution.patch").read_text().splitlines() if line[:1] in "+-"]
        theirs |= {name for name in re.findall(r"\w+", "\n".join(added)) if _is_compound(name)}
    pythons = (
        set(inspect.signature(dataclasses.field).parameters)
        | set(keyword.kwlist)
        | set(sys.stdlib_module_names)
        | set(dir(builtins))
    )
    for kind in (*_PYTHONS, argparse.ArgumentParser):
        pythons |= set(dir(kind))
    for path in ROOT.glob("agentbench_core/**/*.py"):
        pythons |= set(_names(path.read_text(encoding="utf-8")))  # the project's own names
    ours = "\n".join(path.read_text(encoding="utf-8") for path in HOME.rglob("*.py"))
    words = set(re.findall(r"[\w-]+", ours)) | set(re.findall(r"\w+", ours))
    assert sorted((theirs - pythons) & words) == []
