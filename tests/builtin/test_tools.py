"""The five built-in tools, called by a script in a real run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Calls = Callable[..., list[dict[str, Any]]]

FILES = {
    "app.txt": "broken\n",
    "src/one.py": "def first():\n    return call(a.b, (1, 2))\n",
    "src/two.py": "def second():\n    return first()\n",
    "docs/notes.md": "first of all\n",
}


@pytest.fixture
def call(make_task: Any, agentbench: Any) -> Calls:
    """Make tool calls and return their results."""

    def make(
        *calls: tuple[str, dict[str, Any]], files: dict[str, str] = FILES, **sections: Any
    ) -> list[dict[str, Any]]:
        script = [{"tool": tool, "arguments": arguments} for tool, arguments in calls]
        directory = make_task(files=files, **sections)
        (directory / "script.yaml").write_text(yaml.safe_dump(script))
        spec = yaml.safe_load((directory / "task.yaml").read_text()) | {"oracle": {"script": "script.yaml"}}
        (directory / "task.yaml").write_text(yaml.safe_dump(spec))
        done = agentbench("run", "--suite", "mini", "--agent", "scripted", "--set", "agent.stop_on_error=false")
        assert done.code == 0, done.err
        (path,) = Path("artifacts").glob("runs/*/tasks/one/agent/tool_calls.jsonl")
        return [json.loads(line)["result"] for line in path.read_text().splitlines()]

    return make


def test_list_files(call: Calls) -> None:
    """Paths are sorted and limited to a root or a glob."""
    results = call(
        ("list_files", {"root": "", "glob": None}),
        ("list_files", {"root": "src"}),
        ("list_files", {"glob": "**/*.md"}),
        ("list_files", {"root": "../.."}),
        ("list_files", {"rot": ""}),
    )
    assert [r["fields"].get("paths") for r in results[:3]] == [
        ["app.txt", "docs/notes.md", "src/one.py", "src/two.py"],
        ["src/one.py", "src/two.py"],
        ["docs/notes.md"],
    ]
    assert [r["error_type"] for r in results[3:]] == ["path_escape", "bad_arguments"]
    assert "rot: unknown field (did you mean 'root'?)" in results[4]["error_message"]


def test_read_file(call: Calls) -> None:
    """Reads a file or a range of lines, and reports what cannot be read."""
    results = call(
        ("read_file", {"path": "src/one.py"}),
        ("read_file", {"path": "src/one.py", "start_line": 2, "end_line": 2}),
        ("read_file", {"path": "src/one.py", "start_line": 9}),
        ("read_file", {"path": "nowhere"}),
        ("read_file", {"path": "src"}),
        ("read_file", {"path": "/etc/passwd"}),
    )
    assert results[0]["fields"]["text"] == FILES["src/one.py"]
    assert results[1]["fields"] == {"text": "    return call(a.b, (1, 2))\n", "total_lines": 2, "omitted_chars": 0}
    assert [r["error_type"] for r in results[2:]] == ["bad_range", "not_found", "not_a_file", "path_escape"]


def test_search(call: Calls) -> None:
    """H33: the query is literal text first, and never an option of another program.

    It is tried as a regular expression if the text does not occur.
    """
    results = call(
        ("search", {"query": "first"}),
        ("search", {"query": "first", "glob": "**/*.py", "max_results": 1}),
        ("search", {"query": "call(a.b, (1, 2))"}),
        ("search", {"query": r"def \w+\("}),
        ("search", {"query": "nothing like it"}),
        ("search", {"query": "bad(["}),
        ("search", {"query": "-e evil --pre=x"}),
        ("search", {"query": "--pre=./evil.sh"}),
        ("search", {"query": "--pre=./evil.sh|.*"}),
    )
    assert results[0]["fields"]["matches"] == [
        "docs/notes.md:1:first of all",
        "src/one.py:1:def first():",
        "src/two.py:2:    return first()",
    ]
    assert results[1]["fields"] == {"matches": ["src/one.py:1:def first():"], "more": True, "regex": False}
    assert results[2]["fields"] == {
        "matches": ["src/one.py:2:    return call(a.b, (1, 2))"],
        "more": False,
        "regex": False,
    }
    assert results[3]["fields"] == {
        "matches": ["src/one.py:1:def first():", "src/two.py:1:def second():"],
        "more": False,
        "regex": True,
    }
    assert results[4]["fields"]["matches"] == []
    assert results[5]["error_type"] == "bad_query"
    assert [result["fields"].get("matches") for result in results[6:8]] == [[], []]
    assert len(results[8]["fields"]["matches"]) > 5  # a regular expression, not an option


def test_apply_patch(call: Calls) -> None:
    """Applies all hunks of all files or none, reports offsets, and refuses files that are not editable."""
    good = "--- a/src/one.py\n+++ b/src/one.py\n@@ -9 +9 @@\n-def first():\n+def primary():\n"
    new = "--- /dev/null\n+++ b/src/three.py\n@@ -0,0 +1 @@\n+x = 1\n"
    bad = "--- a/src/two.py\n+++ b/src/two.py\n@@ -1 +1 @@\n-def third():\n+def fourth():\n"
    other = "--- a/docs/notes.md\n+++ b/docs/notes.md\n@@ -1 +1 @@\n-first of all\n+last\n"
    results = call(
        ("apply_patch", {"unified_diff": good + bad}),
        ("read_file", {"path": "src/one.py"}),
        ("apply_patch", {"unified_diff": good + new}),
        ("apply_patch", {"unified_diff": other}),
        ("apply_patch", {"unified_diff": "nonsense"}),
        agent={"editable_globs": ["src/**"]},
    )
    assert results[0]["error_type"] == "patch_conflict"
    assert "src/two.py" in results[0]["error_message"]
    assert "def second():" in results[0]["error_message"]
    assert results[1]["fields"]["text"] == FILES["src/one.py"]
    assert results[2]["fields"] == {"changed_files": ["src/one.py", "src/three.py"], "moved": {"src/one.py": [-8]}}
    assert [r["error_type"] for r in results[3:]] == ["not_editable", "bad_patch"]
    (diff,) = Path("artifacts").glob("runs/*/tasks/one/diffs/step_*.patch")
    assert diff.name == "step_0003.patch"
    assert "+def primary():" in diff.read_text()


def test_apply_patch_that_cannot_be_written(call: Calls) -> None:
    """If a later file cannot be written, earlier ones are unchanged, including their modes."""
    change = "diff --git a/app.txt b/app.txt\nold mode 100644\nnew mode 100755\n--- a/app.txt\n+++ b/app.txt\n"
    change += "@@ -1 +1 @@\n-broken\n+fixed\n"
    delete = "--- a/src/one.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-def first():\n-    return call(a.b, (1, 2))\n"
    below_a_file = "--- /dev/null\n+++ b/src/two.py/x\n@@ -0,0 +1 @@\n+x\n"
    results = call(
        ("apply_patch", {"unified_diff": change + delete + below_a_file}),
        ("read_file", {"path": "app.txt"}),
        ("read_file", {"path": "src/one.py"}),
        ("run", {"command": "git status --short; ls -l app.txt | cut -c1-10"}),
    )
    assert results[0]["error_type"] == "not_found"
    assert "'src/two.py/x'" in results[0]["error_message"]
    assert [result["fields"]["text"] for result in results[1:3]] == [FILES["app.txt"], FILES["src/one.py"]]
    assert results[3]["fields"]["stdout"] == "-rw-r--r--\n"


def test_apply_patch_turns_a_file_into_a_directory(call: Calls) -> None:
    """The order of the two files in the patch does not matter, as in git."""
    create = "--- /dev/null\n+++ b/app.txt/x\n@@ -0,0 +1 @@\n+x\n"
    delete = "--- a/app.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-broken\n"
    results = call(("apply_patch", {"unified_diff": create + delete}), ("list_files", {"glob": "app.txt/**"}))
    assert results[0]["fields"]["changed_files"] == ["app.txt/x", "app.txt"]
    assert results[1]["fields"]["paths"] == ["app.txt/x"]


@pytest.mark.long
def test_run(call: Calls) -> None:
    """A failing command is a result; one that takes too long is killed, and its output so far is returned."""
    results = call(
        ("run", {"command": "echo out; echo err >&2; exit 3"}),
        ("run", {"command": "echo $WORD", "env": {"WORD": "given"}}),
        ("run", {"command": "echo before; sleep 30", "timeout_sec": 1}),
        ("run", {"command": "echo before; sleep 30"}),
        ("rnu", {}),
        environment={"tool_timeout_sec": 3},
    )
    assert results[0]["fields"] == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}
    assert results[1]["fields"]["stdout"] == "given\n"
    for slow in results[2:4]:
        assert (slow["ok"], slow["error_type"]) == (False, "timeout")
        assert slow["fields"] == {"exit_code": None, "stdout": "before\n", "stderr": ""}
    assert results[4]["error_message"].startswith("there is no tool 'rnu' (did you mean 'run'?)")
