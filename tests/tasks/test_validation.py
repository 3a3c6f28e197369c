"""``agentbench validate-tasks``: a valid task, one broken task per rule, and ``--write``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench_core import Tree, open_run
from agentbench_core.inputs.suite import read_task
from agentbench_tasks.failing_command import notes_on
from agentbench_tasks.rules import Note

TESTS_PATCH = """\
--- a/tests/test_app.txt
+++ b/tests/test_app.txt
@@ -1 +1 @@
-tests
+no tests
"""

TaskReport = dict[str, Any]


@pytest.fixture
def validate(agentbench: Any) -> Callable[..., TaskReport]:
    """Validate the one task of suite ``mini``, once by default, and return its finding."""

    def one(*arguments: str) -> TaskReport:
        times = () if "--times" in arguments else ("--times", "1")
        done = agentbench("validate-tasks", "--suite", "mini", "--json", *times, *arguments)
        (finding,) = json.loads(done.out)
        assert done.code == (finding["verdict"] != "valid"), done.err
        return dict(finding)

    return one


def broken(finding: TaskReport) -> dict[str, str]:
    """Map each broken rule to its reason."""
    return {problem["rule"]: problem["reason"] for problem in finding["problems"]}


def every_other_time(counter: Path) -> str:
    """A command that fails on odd calls and passes on even ones."""
    return f"n=$(cat {counter} || echo 0); echo $((n + 1)) > {counter}; test $((n % 2)) -eq 1"


def test_correct_task_is_valid(make_task: Any, agentbench: Any) -> None:
    """Repeated validation writes nothing."""
    directory = make_task()
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    done = agentbench("validate-tasks", "--suite", "mini", "--times", "2")
    assert done.code == 0
    assert re.search(r"one +valid +2 +[\d.]+$", done.out, re.MULTILINE)
    assert "1 of 1 task valid" in done.out
    assert "[2/2] one" in done.err
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before
    assert not Path("artifacts").exists()


@pytest.mark.parametrize(
    ("sections", "rule", "words"),
    [
        ({"validation": {"failing_command": "true"}}, "baseline_fails", "exits with 0 on the unchanged"),
        (
            {"environment": {"timeout_sec": 1}, "validation": {"failing_command": "sleep 30"}},
            "baseline_in_time",
            "timed out",
        ),
        ({"validation": {"failing_command": "surely-not-there"}}, "baseline_runs", "could not be started: .*not found"),
        ({"validation": {"passing_command": "true"}}, "empty_patch_fails", "the scorer passes the empty patch"),
        (
            {
                "environment": {"timeout_sec": 1},
                "validation": {"passing_command": "grep -q fixed app.txt || sleep 30"},
            },
            "empty_patch_in_time",
            "on the unchanged tree",
        ),
        (
            {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-y\n+z\n"},
            "oracle_applies",
            r"apply_patch\) failed: not_found",
        ),
        (
            {"agent": {"editable_globs": ["src/**"]}},
            "oracle_may_edit",
            r"apply_patch\) failed: not_editable",
        ),
        ({"agent": {"allow_file_write": False}}, "oracle_applies", "there is no tool 'apply_patch'"),
        ({"validation": {"passing_command": "grep -q other app.txt"}}, "oracle_passes", r"not pass \(exit code 1\)"),
        (
            {
                "environment": {"timeout_sec": 1},
                "validation": {"passing_command": "grep -q broken app.txt && exit 1; sleep 9"},
            },
            "oracle_in_time",
            "with the reference solution",
        ),
        ({"setup": {"commands": ["echo trouble >&2; exit 3"]}}, "setup", "exit 3"),
        ({"repo": {"commit": "0" * 40}}, "setup", "0" * 40),
        ({"environment": {"python": "3.9"}, "setup": {"commands": ["true"]}}, "setup", "requires Python 3.9"),
    ],
)
def test_a_broken_rule_is_caught(
    make_task: Any, validate: Any, sections: dict[str, Any], rule: str, words: str
) -> None:
    """Only this rule is reported, with a reason and a remedy."""
    make_task(**sections)
    finding = validate()
    assert finding["verdict"] == "invalid"
    assert list(broken(finding)) == [rule]
    assert re.search(words, broken(finding)[rule])
    assert finding["problems"][0]["remedy"]


def test_what_a_failing_check_printed_is_shown(make_task: Any, agentbench: Any, monkeypatch: Any) -> None:
    """The end of the output is shown, with secrets redacted and control sequences escaped."""
    monkeypatch.setenv("MY_TOKEN", "correct-horse-battery")
    command = r"seq 100; printf 'it is \033[2Jcorrect-horse-battery\n'; exit 4"
    make_task(validation={"passing_command": command})
    done = agentbench("validate-tasks", "--suite", "mini")
    assert done.code == 1
    assert re.search(r"one +invalid +2 +[\d.]+ +the reference solution does not pass \(exit code 4\)", done.out)
    assert "  | 100\n  | it is \\u001b[2J[redacted MY_TOKEN]\n" in done.out
    assert "  | 50\n" not in done.out
    assert "Correct the reference solution, or the tests that it does not pass." in done.out
    assert "0 of 1 task valid" in done.out


def test_reason_contains_no_secret(make_task: Any, agentbench: Any) -> None:
    """H32: the reason quotes the output of the failed setup."""
    token = "ghp_Zt8vQ2mLk4Xw7Rb1Nc5Hy9Jd3Gf6Ps0TuAeI"
    make_task(setup={"commands": [f"echo {token}; exit 3"], "capture": []})
    for flags in ((), ("--json",)):
        done = agentbench("validate-tasks", "--suite", "mini", *flags)
        assert done.code == 1
        assert "[redacted GitHub token]" in done.out
        assert token not in done.out + done.err


def test_an_oracle_that_touches_protected_files(make_task: Any, validate: Any) -> None:
    """Changes to protected files do not count; if there are no others, that is reported as well."""
    files = {"app.txt": "broken\n", "tests/test_app.txt": "tests\n"}
    directory = make_task(files=files, patch=TESTS_PATCH)
    alone = broken(validate())
    assert set(alone) == {"oracle_may_edit", "oracle_changes"}
    assert "must not change (touched_protected): tests/test_app.txt" in alone["oracle_may_edit"]
    patch = directory / "solution.patch"
    make_task(files=files)
    patch.write_text(patch.read_text() + TESTS_PATCH)
    assert set(broken(validate())) == {"oracle_may_edit"}
    make_task(files=files, agent={"editable_globs": ["**", "tests/test_app.txt"]})
    patch.write_text(patch.read_text() + TESTS_PATCH)
    assert validate()["verdict"] == "valid"  # editable, because its path is listed


@pytest.mark.parametrize(
    ("script", "sections", "rule", "words"),
    [
        ([("run", "true")], {}, "oracle_changes", "no part of the reference"),
        ([("run", "sleep 30")], {"environment": {"timeout_sec": 2}}, "oracle_in_time", r"in call 1 of 1 .*\(run\)"),
        ([("run", "true")] * 3, {"agent": {"max_steps": 2}}, "oracle_applies", "3 tool calls, but all 2 steps are"),
        ([("fix", "true")], {}, "oracle_applies", "unknown_tool"),
        ([("run", "echo fixed > app.txt; ln -s x link")], {}, "oracle_may_edit", r"\(dropped_link\): link"),
    ],
)
def test_reference_solution_as_tool_calls(
    make_task: Any, validate: Any, script: list[tuple[str, str]], sections: dict[str, Any], rule: str, words: str
) -> None:
    """A script uses the same tools and limits as an agent."""
    directory = make_task(oracle={"patch": "", "script": "solution.yaml"}, **sections)
    calls = [{"tool": tool, "arguments": {"command": command}} for tool, command in script]
    (directory / "solution.yaml").write_text(yaml.safe_dump(calls))
    finding = validate()
    assert list(broken(finding)) == [rule]
    assert re.search(words, broken(finding)[rule])


def test_all_problems_are_reported(make_task: Any, validate: Any, agentbench: Any) -> None:
    """Each problem has its own row."""
    make_task(validation={"failing_command": "true", "passing_command": "true"}, patch="--- a\n")
    assert set(broken(validate())) == {"baseline_fails", "empty_patch_fails", "oracle_applies"}
    make_task(oracle={"patch": ""}, setup={"commands": ["exit 3"]})
    assert set(broken(validate())) == {"setup"}
    rows = agentbench("validate-tasks", "--suite", "mini").out.splitlines()
    assert re.match(r"one +invalid +2 +[\d.]+ +the setup command .exit 3. ended with exit code 3", rows[1])
    assert re.match(r" +note: no reference solution, so the task is not proven solvable", rows[2])


def test_a_task_without_a_reference_solution(make_task: Any, agentbench: Any, validate: Any) -> None:
    """Everything else is checked, with a note; ``--strict`` rejects the task."""
    make_task(oracle={"patch": ""})
    done = agentbench("validate-tasks", "--suite", "mini")
    assert done.code == 0, done.out
    assert re.search(
        r"one +valid +2 +[\d.]+ +note: no reference solution, so the task is not proven solvable", done.out
    )
    assert "Add a reference solution: oracle.patch or oracle.script." in done.out
    assert "1 of 1 task valid" in done.out
    strict = validate("--strict")
    assert (strict["verdict"], strict["problems"], len(strict["notes"])) == ("invalid", [], 1)
    written = agentbench("validate-tasks", "--suite", "mini", "--write")
    assert "nothing written: a reference solution is required to find the tests that must pass" in written.out
    make_task(oracle={"patch": ""}, validation={"failing_command": "true"})
    assert list(broken(validate())) == ["baseline_fails"], "everything else is still checked"
    make_task()
    assert validate("--strict")["verdict"] == "valid"


TELLS = """
    import attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Tells:
        def solve(self, context):
            context.tools.call(ToolCall(tool="run", arguments={"command": "echo fixed > app.txt"}))
            return AgentResult(message=" ".join(context.failure_output.split()))

    @hookimpl
    def agentbench_register_agents(register):
        register("tells", lambda options: Tells(), Options, summary="says what it was shown")
"""


@pytest.mark.long
def test_a_bug_that_hangs(make_task: Any, validate: Any, agentbench: Any, records: Any, plugin: Any) -> None:
    """With ``failing_timeout_ok`` a timeout of the failing command counts as failure, and agents see it."""
    command = "echo before it hangs; grep -q fixed app.txt || sleep 60"
    hangs = {"failing_command": command, "passing_command": command}
    make_task(environment={"timeout_sec": 1}, validation=hangs)
    late = validate()
    assert set(broken(late)) == {"baseline_in_time", "empty_patch_in_time"}
    assert all("validation.failing_timeout_ok" in problem["remedy"] for problem in late["problems"])
    make_task(environment={"timeout_sec": 1}, validation={**hangs, "failing_timeout_ok": True})
    found = validate()
    assert (found["verdict"], found["problems"]) == ("valid", [])
    plugin("tells", TELLS)
    assert agentbench("run", "--suite", "mini", "--agent", "tells").code == 0
    (run,) = Path("artifacts/runs").iterdir()
    assert list(open_run(run).explanations().values()) == ["before it hangs [it ran out of time after 1 s]"]
    (record,) = records()
    assert record["result"]["passed"]
    assert record["baseline_validation"] == {"attempted": True, "failed_as_expected": True, "exit_code": None}


def test_a_flaky_baseline(make_task: Any, agentbench: Any, validate: Any, tmp_path: Path) -> None:
    """The number of failures is reported; the default number of repeats finds it."""
    make_task(validation={"failing_command": every_other_time(tmp_path / "counter")})
    (finding,) = json.loads(agentbench("validate-tasks", "--suite", "mini", "--json").out)
    assert (finding["verdict"], finding["times"]) == ("flaky", 2)
    finding = validate("--times", "3")
    assert finding["verdict"] == "flaky"
    assert [(p["rule"], p["times"]) for p in finding["problems"]] == [("baseline_fails", 1)]


def test_a_flaky_oracle(make_task: Any, agentbench: Any, tmp_path: Path) -> None:
    """One check may pass by luck; repeated checks find it."""
    command = f"grep -q fixed app.txt && {{ {every_other_time(tmp_path / 'counter')}; }}"
    make_task(validation={"passing_command": command})
    done = agentbench("validate-tasks", "--suite", "mini", "--times", "4")
    assert done.code == 1
    assert re.search(r"one +flaky +4 +[\d.]+ +in 2 of 4 checks: the reference solution does not pass", done.out)


def test_task_with_permanent_and_flaky_failures_is_invalid(make_task: Any, validate: Any, tmp_path: Path) -> None:
    """Rules that never hold are listed first, and decide the verdict."""
    flaky = every_other_time(tmp_path / "counter")
    make_task(validation={"failing_command": flaky, "passing_command": "false"})
    finding = validate("--times", "2")
    assert finding["verdict"] == "invalid"
    assert [(p["rule"], p["times"]) for p in finding["problems"]] == [("oracle_passes", 2), ("baseline_fails", 1)]


def test_task_that_fails_every_time_is_not_flaky(make_task: Any, validate: Any, tmp_path: Path) -> None:
    """It is invalid even if a different rule fails each time."""
    failing = f"! {{ {every_other_time(tmp_path / 'a')}; }}"
    passing = f"grep -q fixed app.txt && ! {{ {every_other_time(tmp_path / 'b')}; }}"
    make_task(validation={"failing_command": failing, "passing_command": passing})
    finding = validate("--times", "2")
    assert [(p["rule"], p["times"]) for p in finding["problems"]] == [("baseline_fails", 1), ("oracle_passes", 1)]
    assert finding["verdict"] == "invalid"
    assert finding["flakes"]["failed_every_time"]


def test_hidden_tests_are_used_in_validation(make_task: Any, validate: Any) -> None:
    """Baseline and oracle are checked with the hidden tests; without them the baseline may pass."""
    command = "test ! -e checks/must || grep -q -f checks/must app.txt"
    make_task(hidden={"must": "fixed"}, validation={"failing_command": command, "passing_command": command})
    assert validate()["verdict"] == "valid"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python -m pytest -q checks/test_x.py", "checks/test_x.py is"),
        ("cd . && (python -m pytest ./checks//test_x.py::test_new[a-b])", "checks/test_x.py is"),
        ("pytest --confcutdir=. -k 'x or y' /workspace/checks", "checks is"),
        (
            "pytest checks/public.py::test_old checks/public.py::TestNew::test_new",
            "checks/public.py::TestNew::test_new is",
        ),
        ("pytest --deselect=checks/test_x.py::a checks/data.bin 'x", "checks/test_x.py, checks/data.bin are"),
    ],
)
def test_a_failing_command_that_names_hidden_tests(make_task: Any, command: str, named: str) -> None:
    """Agents can never make it pass."""
    public = "def test_old(): pass\n"
    hidden = {
        "test_x.py": "def test_new(): assert 0\n",
        "public.py": f"{public}class TestNew:\n    async def test_new(self): assert 0\n",
        "data.bin": "\0",
    }
    files = {"app.txt": "broken\n", "tests/test_y.py": public}
    if "public.py" in command:
        files["checks/public.py"] = public
    task = make_task(files=files, hidden=hidden, validation={"failing_command": f"{command} ; grep -q fixed app.txt"})
    (note,) = notes(task)
    assert note.reason == f"agents can never make failing_command pass: {named} not in the agent's workspace"
    assert "public tests" in note.remedy


def test_a_failing_command_that_agents_can_run(make_task: Any, validate: Any, agentbench: Any) -> None:
    """Public tests cause no note, even where hidden ones overlay them; a task with a note is valid."""
    files = {"app.txt": "broken\n", "checks/test_x.py": "class TestX:\n    def test_old(self): pass\n"}
    hidden = {"test_x.py": f"{files['checks/test_x.py']}def test_new(): pass\n", "data/y.txt": "x"}
    ends = "; grep -q fixed app.txt"
    for command in ("pytest", "pytest checks", "pytest checks/test_x.py::TestX::test_old[a]", "echo checks/test_y.py"):
        assert notes(make_task(files=files, hidden=hidden, validation={"failing_command": command + ends})) == ()
    make_task(files=files, hidden=hidden, validation={"failing_command": f"cat checks/data/y.txt {ends}"})
    finding = validate()
    assert (finding["verdict"], finding["problems"], len(finding["notes"])) == ("valid", [], 1)
    done = agentbench("validate-tasks", "--suite", "mini")
    assert done.code == 0
    assert re.search(
        r"^one +valid +2 +[\d.]+ +note: agents can never make failing_command pass", done.out, re.MULTILINE
    )
    assert "  Make failing_command run public tests only" in done.out


def notes(task: Path) -> tuple[Note, ...]:
    """The notes on the failing command of a task."""
    with Tree(task / "repo") as public:
        return notes_on(read_task(task), public)


BAD_SCORER = """
    import attrs
    from agentbench_core import SandboxError, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Raises:
        def score(self, context): raise ValueError("a bug")

    class Breaks:
        def score(self, context): raise SandboxError("the engine went away")

    @hookimpl
    def agentbench_register_scorers(register):
        register("raises", lambda options: Raises(), Options, summary="")
        register("breaks", lambda options: Breaks(), Options, summary="")
"""


@pytest.mark.parametrize(("scorer", "words"), [("raises", "ValueError: a bug"), ("breaks", "the engine went away")])
def test_failing_check_does_not_affect_other_tasks(
    make_task: Any, agentbench: Any, plugin: Any, scorer: str, words: str
) -> None:
    """Each task reports the error, after its earlier problems."""
    plugin("scorers", BAD_SCORER)
    make_task("a", validation={"failing_command": "true"})
    make_task("b")
    done = agentbench("validate-tasks", "--suite", "mini", "--json", "--times", "1", "--set", f"scorer={scorer}")
    first, second = json.loads(done.out)
    assert list(broken(first)) == ["baseline_fails", "checked"]
    assert words in broken(second)["checked"]
    assert done.code == 1


# --- lists of tests ----------------------------------------------------------------------------------------------


UNCALIBRATED = ("--times", "1", "--set", "scorer=plain")
"""Flags for tests of what is written, which both scorers find with the same sessions of pytest."""


@pytest.fixture
def pytest_task(agentbench: Any) -> Path:
    """The task that ``tasks new`` creates in suite ``mini``, with a public and a hidden test file."""
    assert agentbench("tasks", "new", "clamp", "--suite", "mini").code == 0
    return Path("tasks/mini/clamp/task.yaml")


ABOVE, BELOW = "tests/test_clamp.py::test_above_the_range", "tests/test_clamp.py::test_below_the_range"
HIDDEN = "checks/test_clamp_hidden.py::test_inside_and_at_the_ends"
MORE = ["checks/test_clamp_hidden.py::test_a_range_below_zero", "checks/test_clamp_hidden.py::test_many_values"]


@pytest.mark.long
def test_write_fills_the_lists(pytest_task: Path, agentbench: Any) -> None:
    """Comments and quotes are preserved, and the verdict is unchanged."""
    old = 'passing_command: "python -m pytest -q"\n'
    before = pytest_task.read_text().replace(old, f"# by hand\n  {old}  pass_to_pass: []  # soon\n")
    pytest_task.write_text(before)
    pytest_task.chmod(0o640)
    done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1")
    assert done.code == 0, done.err
    assert "clamp: wrote fail_to_pass: 4, pass_to_pass: 1\n" in done.out
    found = "".join(f'    - "{name}"\n' for name in sorted([HIDDEN, ABOVE, *MORE]))
    after = before.replace(old, f"{old}  fail_to_pass:\n{found}")
    after = after.replace("pass_to_pass: []  # soon\n", f'pass_to_pass:  # soon\n    - "{BELOW}"\n')
    assert pytest_task.read_text() == after
    assert pytest_task.stat().st_mode & 0o777 == 0o640
    assert [path for path in pytest_task.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.long
def test_inherited_tests_have_their_own_names(pytest_task: Path, agentbench: Any) -> None:
    """As in pytest, the id has the file that collects a test, not the one that defines it, with both scorers."""
    checks = pytest_task.parent / "checks"
    head, _, body = (checks / "test_clamp_hidden.py").read_text().partition("\n\n\n")
    method = body.replace("()", "(self)").replace("\n", "\n    ")
    (checks / "test_clamp_hidden.py").write_text(f"{head}\n\nclass TestClamp:\n    {method}")
    canary = head.splitlines()[0]
    (checks / "test_clamp_only.py").write_text(f"{canary}\nfrom test_clamp_hidden import TestClamp\n")
    before = pytest_task.read_text()
    for mode in ("tests", "plain"):
        pytest_task.write_text(before)
        done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1", "--set", f"scorer={mode}")
        assert done.code == 0, done.out + done.err
        named = yaml.safe_load(pytest_task.read_text())["validation"]["fail_to_pass"]
        methods = [name.partition("::")[2] for name in sorted([HIDDEN, *MORE])]
        files = ["checks/test_clamp_hidden.py", "checks/test_clamp_only.py"]
        assert named == [*(f"{file}::TestClamp::{method}" for file in files for method in methods), ABOVE]


def rewrite(task_file: Path, *, flow: bool | None = None, **lists: list[str]) -> None:
    spec = yaml.safe_load(task_file.read_text())
    spec["validation"] |= lists
    task_file.write_text(yaml.safe_dump(spec, default_flow_style=flow))


def test_lists_that_are_wrong(pytest_task: Path, validate: Any) -> None:
    """Wrongly listed and missing tests are reported; a test that did not run never passes."""
    gone = "tests/test_no.py::test_no"
    rewrite(pytest_task, fail_to_pass=[ABOVE, BELOW, gone], pass_to_pass=[BELOW, HIDDEN])
    finding = validate()
    assert finding["verdict"] == "invalid"
    why = f"1 of 5 expected tests did not pass: {gone} (not run)"
    assert broken(finding) == {
        "fail_to_pass": f"fail_to_pass contains tests that already pass: {BELOW}",
        "pass_to_pass": f"pass_to_pass contains tests that do not pass before the fix: {HIDDEN} (failed)",
        "oracle_passes": f"the reference solution does not pass (exit code 0): {why}",
    }


PATH_NOW = "tests/test_clamp.py"


def overlay(task_file: Path) -> None:
    """Make the hidden tests overlay the public ones, with one more test in a public file."""
    directory, public = task_file.parent, task_file.parent / "repo/tests"
    (directory / "checks").rename(directory / "tests")
    more = "\n\ndef test_ends() -> None:\n    assert clamp(99, 0, 10) == 10\n"
    (directory / PATH_NOW).write_text((public / "test_clamp.py").read_text() + more)
    text = task_file.read_text().replace('files: "checks/"', 'files: "tests/"')
    task_file.write_text(text)
    assert 'files: "tests/"' in text


@pytest.mark.long
@pytest.mark.parametrize(("mode", "named"), [("tests", True), ("plain", False)])
def test_write_where_hidden_tests_overlay_public_ones(
    pytest_task: Path, agentbench: Any, mode: str, named: bool
) -> None:
    """This works with both scorers, and whether or not the task lists tests already."""
    overlay(pytest_task)
    if named:
        rewrite(pytest_task, fail_to_pass=[ABOVE])
    done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1", "--set", f"scorer={mode}")
    assert done.code == 0, done.out + done.err
    assert f"clamp: wrote fail_to_pass: 5{' (4 new)' * named}, pass_to_pass: 1" in done.out
    lists = yaml.safe_load(pytest_task.read_text())["validation"]
    inside = {name.replace("checks/", "tests/") for name in (HIDDEN, *MORE)}
    assert set(lists["fail_to_pass"]) == {ABOVE, *inside, f"{PATH_NOW}::test_ends"}
    assert lists["pass_to_pass"] == [BELOW]


@pytest.mark.long
def test_write_renews_lists(pytest_task: Path, agentbench: Any) -> None:
    """Retained entries keep their position and quotes; then the task is valid, and a second run writes nothing."""
    old = 'passing_command: "python -m pytest -q"\n'
    lists = f"  fail_to_pass:  # mine\n  - '{HIDDEN}'\n\n  # old\n  - {BELOW}\n  - {ABOVE}::gone # x\n"
    rest = f"  pass_to_pass: [{ABOVE}]  # also mine\n  # the end\n"
    before = pytest_task.read_text().replace(old, f"{old}{lists}{rest}")
    pytest_task.write_text(before)
    done = agentbench("validate-tasks", "--suite", "mini", "--write", *UNCALIBRATED)
    assert done.code == 1
    assert "clamp: wrote fail_to_pass: 4 (3 new, 2 removed), pass_to_pass: 1 (1 new, 1 removed)\n" in done.out
    more = "".join(f'  - "{name}"\n' for name in (*MORE, ABOVE))
    new = f"  fail_to_pass:  # mine\n  - '{HIDDEN}'\n{more}"
    new += f'  pass_to_pass:  # also mine\n    - "{BELOW}"\n  # the end\n'
    after = before.replace(lists, new).replace(rest, "")
    assert pytest_task.read_text() == after
    done = agentbench("validate-tasks", "--suite", "mini", "--write", *UNCALIBRATED)
    assert done.code == 0
    assert "clamp: nothing to write\n" in done.out
    assert pytest_task.read_text() == after


@pytest.mark.release
def test_write_names_tests_that_the_solution_does_not_pass(pytest_task: Path, agentbench: Any) -> None:
    """They are excluded, not flaky; listed tests, and tests whose file does not load, are not dropped."""
    checks = pytest_task.parent / "checks"
    (checks / "test_red.py").write_text("def test_red() -> None:\n    assert False\n")
    rewrite(pytest_task, fail_to_pass=[HIDDEN])
    done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "2")
    assert done.code == 0, done.out
    left = "excluded 1 test that did not pass with the reference solution: checks/test_red.py::test_red"
    assert f"clamp: wrote fail_to_pass: 4 (3 new), pass_to_pass: 1; {left}\n" in done.out
    after = pytest_task.read_text()
    rewrite(pytest_task, fail_to_pass=[HIDDEN, "checks/test_red.py::test_red"])
    assert (
        "nothing written: the task is invalid"
        in agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1").out
    )
    pytest_task.write_text(after)
    (checks / "test_clamp_hidden.py").write_text("import nothing_of_that_name\n")
    assert (
        "nothing written: the task is invalid"
        in agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1").out
    )


@pytest.mark.release
def test_write_excludes_tests_with_inconsistent_results(pytest_task: Path, agentbench: Any, tmp_path: Path) -> None:
    """Tests that sometimes pass with the solution are excluded; a single check cannot detect them."""
    test = "import subprocess\n\n\ndef test_odd() -> None:\n    assert subprocess.run({!r}, shell=True).returncode\n"
    (pytest_task.parent / "checks/test_odd.py").write_text(test.format(every_other_time(tmp_path / "counter")))
    rewrite(pytest_task, fail_to_pass=[HIDDEN])
    before = pytest_task.read_text()
    done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1")
    assert "inconsistent results" not in done.out
    pytest_task.write_text(before)
    (tmp_path / "counter").write_text("1\n")
    done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "4")
    assert "excluded 1 test with inconsistent results" in done.out, done.out


def test_write_does_not_change_invalid_tasks(pytest_task: Path, agentbench: Any) -> None:
    """The file of an invalid task is unchanged."""
    (pytest_task.parent / "solution.patch").write_text("--- a\n")
    before = pytest_task.read_bytes()
    done = agentbench("validate-tasks", "--suite", "mini", "--write", *UNCALIBRATED)
    assert (done.code, pytest_task.read_bytes()) == (1, before)
    assert "clamp: nothing written: the task is invalid" in done.out


def test_write_does_not_change_tasks_without_test_ids(make_task: Any, agentbench: Any) -> None:
    """Commands other than pytest have no test ids; with ``--json`` the message goes to stderr."""
    directory = make_task()
    before = (directory / "task.yaml").read_bytes()
    done = agentbench("validate-tasks", "--suite", "mini", "--write", "--times", "1", "--json")
    assert (done.code, (directory / "task.yaml").read_bytes()) == (0, before)
    assert "one: nothing written: no results for individual tests" in done.err
    assert json.loads(done.out)[0]["verdict"] == "valid"


def test_write_refuses_flow_mappings(pytest_task: Path, agentbench: Any) -> None:
    """A flow mapping in braces cannot be extended."""
    rewrite(pytest_task, flow=True)
    before = pytest_task.read_bytes()
    done = agentbench("validate-tasks", "--suite", "mini", "--write", *UNCALIBRATED)
    assert (done.code, pytest_task.read_bytes()) == (2, before)
    assert "clamp/task.yaml: cannot add the tests: `validation` is written in YAML flow style ({...})" in done.err


# --- the command -------------------------------------------------------------------------------------------------


def test_bad_input_and_an_unavailable_sandbox(make_task: Any, agentbench: Any, plugin: Any) -> None:
    """The exit codes are 2 and 3, before anything runs."""
    make_task()
    for arguments, words in (
        (("--suite", "mimi"), "did you mean 'mini'?"),
        (("--suite", "mini", "--task", "two"), "no task matches 'two'"),
        (("--suite", "mini", "--times", "0"), "0 is not in the range"),
        (("--suite", "mini", "--sandbox", "locl"), "did you mean 'local'?"),
        (("--suite", "mini", "--set", "scorer.x=1"), "options of scorer 'tests'"),
    ):
        done = agentbench("validate-tasks", *arguments)
        assert (done.code, words in done.err) == (2, True), done.err
    plugin("away", AWAY)
    done = agentbench("validate-tasks", "--suite", "mini", "--sandbox", "away")
    assert (done.code, "the engine does not answer" in done.err) == (3, True), done.err


AWAY = """
    import attrs
    from agentbench_core import UnavailableError, hookimpl

    @attrs.frozen
    class Options:
        pass

    class Away:
        def preflight(self, specs): raise UnavailableError("the engine does not answer")
        def prepare(self, spec, workspace, log, deadline): raise AssertionError
        def sweep(self): raise AssertionError
        def close(self): pass

    @hookimpl
    def agentbench_register_sandboxes(register):
        register("away", lambda options: Away(), Options, summary="")
"""


def test_validation_needs_no_agent(make_task: Any, agentbench: Any) -> None:
    """Neither the task's agent nor the project's has to be installed."""
    make_task(agent={"entrypoint": "not-installed"})
    Path("agentbench.toml").write_text('agent = "not-here-either"\n[run]\nsuite = "mini"\n')
    assert agentbench("validate-tasks").code == 0


def test_reasons_are_printed_as_they_are_found(make_task: Any, agentbench: Any) -> None:
    """Progress lines show each reason, and the end of the output the first time."""
    command = "test -f fixed.txt && exit 0; echo why it failed; exit 7"
    make_task("a", validation={"failing_command": "true", "passing_command": command})
    make_task("b")
    done = agentbench("validate-tasks", "--suite", "mini", "--times", "2", "--workers", "1")
    lines = [
        re.sub(r"[\d.]+ s$", "N s", line)
        for line in done.err.splitlines()
        if not line.startswith(("note: ", "warning: "))
    ]
    first = "broken: baseline_fails: the failing command exits with 0 on the unchanged repository  N s"
    second = "      broken: oracle_passes: the reference solution does not pass (exit code 7)"
    assert lines == [
        f"[1/4] a  {first}",
        second,
        "      | why it failed",
        f"[2/4] a@2  {first}",
        second,
        "[3/4] b  valid  N s",
        "[4/4] b@2  valid  N s",
    ]


def interrupted(tmp_path: Path, number: signal.Signals, *flags: str, until: str) -> tuple[str, str]:
    """What an interrupted validation prints, once a file exists; check that it leaves nothing behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [str(Path(sys.executable).parent / "agentbench"), "validate-tasks", "--suite", "mini", "--workers", "1"]
    command += flags
    with subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not (tmp_path / until).exists():
            time.sleep(0.05)
        assert list(scratch.iterdir()) != []
        process.send_signal(number)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, err
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / until).read_text()), 0)
    assert list(scratch.iterdir()) == []
    return out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(make_task: Any, tmp_path: Path, number: signal.Signals) -> None:
    """It exits with 130 and leaves no process and no scratch directory."""
    for name in "ab":
        make_task(name, validation={"failing_command": f"echo $$ > {tmp_path}/pid-{name}; exec sleep 60"})
    out, err = interrupted(tmp_path, number, until="pid-a")
    assert out == ""
    assert "interrupted after checking 0 of 2 tasks" in err
    assert not (tmp_path / "pid-b").exists()


@pytest.mark.parametrize("flags", [(), ("--json",), ("--flakes",)], ids=" ".join)
def test_what_was_finished_before_an_interrupt(make_task: Any, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Finished tasks are reported and saved, the rest is not."""
    for name in "ac":
        make_task(name)
    make_task("b", validation={"failing_command": f"echo $$ > {tmp_path}/pid; exec sleep 60"})
    out, err = interrupted(tmp_path, signal.SIGINT, *flags, until="pid")
    assert err.splitlines()[-1] == "interrupted after checking 1 of 3 tasks"
    if "--json" in flags:
        assert [finding["task"] for finding in json.loads(out)] == ["a"]
    else:
        assert re.search(r"^a +valid +2", out, re.MULTILINE)
        assert re.search("^[bc] ", out, re.MULTILINE) is None
    flakes = tmp_path / "tasks/mini/flakes.yaml"
    assert flakes.exists() == ("--flakes" in flags)
    if flakes.exists():
        assert list(yaml.safe_load(flakes.read_text())["tasks"]) == ["a"]
