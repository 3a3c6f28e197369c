"""`agentbench tasks attack`: adversaries, controls, verdicts on tasks, and samples."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from agentbench_core import Deadline, TaskFacts
from agentbench_integrity.adversaries import battery
from agentbench_integrity.adversaries.agent import ScriptedAdversary
from agentbench_integrity.adversaries.script import Script
from agentbench_integrity.attack.sampling import sampled_pairs, spread_sample
from agentbench_testing import make_context
from agentbench_testing.doubles.sample_program import Files
from agentbench_testing.doubles.workbench import Workbench, open_workbench

COMMAND = "python -m pytest -q"
FILES = {
    "adding/__init__.py": '"""Sums."""\n\nfrom adding.sums import add, double\n\n__all__ = ["add", "double"]\n',
    "adding/sums.py": (
        '"""Sums."""\n\n\n'
        'def add(left, right):\n    """The sum of two numbers."""\n    return left - right\n\n\n'
        'def double(number):\n    """Twice a number."""\n    return 2 * number\n'
    ),
    "tests/test_sums.py": (
        "import adding\n\n\ndef test_double():\n    assert adding.double(2) == 4\n\n\n"
        "def test_nothing():\n    assert adding.add(2, 0) == 2\n"
    ),
}
CODING = "#!/usr/bin/python\n# -*- coding: latin-1 -*-\n"
FUTURE = "'Says.'\n# why\nfrom __future__ import annotations\nfrom __future__ import (\n  division,\n)\n"
HIDDEN = {
    "test_more.py": (
        "import pytest\n\nimport adding\n\n\n"
        '@pytest.mark.parametrize(("left", "right", "expected"), [(2, 3, 5), (1, 1, 2)])\n'
        "def test_add(left, right, expected):\n    assert adding.add(left, right) == expected\n\n\n"
        "def test_again():\n    expected = 10\n    assert adding.add(5, 5) == expected\n"
    )
}
PATCH = """\
--- a/adding/sums.py
+++ b/adding/sums.py
@@ -3,5 +3,5 @@

 def add(left, right):
     \"\"\"The sum of two numbers.\"\"\"
-    return left - right
+    return left + right

"""

PLUGIN = """
    import attrs
    from agentbench_core import Agent, AgentResult, AttemptContext, NoOptions, Register, ToolCall, ToolError, hookimpl

    @attrs.frozen
    class Mine:
        options: NoOptions

        def solve(self, context: AttemptContext) -> AgentResult:
            {body}
            return AgentResult()

    @hookimpl
    def agentbench_register_agents(register: Register[Agent]) -> None:
        register("mine", Mine, NoOptions, summary="does what this test is about", capabilities={{"adversary"}})
"""


SOLVES = "context.tools.call(ToolCall(tool='run', arguments={'command': 'echo fixed > app.txt'}))"


@pytest.fixture
def attack(agentbench: Any) -> Any:
    """Attack the tasks of a suite; return the exit code and the JSON output."""

    def run(*arguments: str, suite: str = "mini") -> tuple[int, dict[str, Any]]:
        done = agentbench("tasks", "attack", "--suite", suite, "--json", *arguments)
        return done.code, json.loads(done.out)

    return run


def trials(found: dict[str, Any], scorer: str = "tests") -> dict[str, dict[str, Any]]:
    """The trials on the one task, by agent."""
    (task,) = [task for task in found["tasks"] if task["scorer"] == scorer]
    return {trial["agent"]: trial for trial in task["trials"]}


# --- adversaries -------------------------------------------------------------------------------------------------

BUNDLED = Path(__file__).parents[2] / "tasks"
LISTS = yaml.safe_load((Path(__file__).parent / "attack.yaml").read_text(encoding="utf-8"))


@pytest.mark.release
def test_every_adversary_passes_a_task_or_is_listed_as_harmless(make_task: Any, attack: Any) -> None:
    """Each adversary passes an unprotected task with the plain scorer, or is listed as harmless.

    None breaks on hidden files that are not Python.

    C01, C02, C03, C04, C05, C06, C07, C08, C09, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20, C21, C22,
    C23, C24, C25, C26, C27, C28, C29, C30, C31, C32.
    """
    make_task(
        files={**FILES, "checks/cases.json": "[1, 2]\n", "checks/data.bin": b"\0\xff"},
        hidden={**HIDDEN, "cases.json": '{"a": [1', "data.bin": b"\xff\0", "words.txt": "x"},
        patch=PATCH,
        environment={"timeout_sec": 60},
        validation={"failing_command": COMMAND, "passing_command": COMMAND, "protected_globs": []},
    )
    code, found = attack("--sandbox", "local", "--set", "scorer=plain")
    assert code == 1
    tried = trials(found, "plain")
    assert {name: trial["explanation"] for name, trial in tried.items() if trial["ended"] == "broken"} == {}
    controls = {name: trial["ended"] for name, trial in tried.items() if trial["control"]}
    assert controls == {"scripted": "passed", "idle": "failed"}
    adversaries = set(tried) - set(controls)
    assert len(adversaries) >= 30
    assert {name[:3] for name in adversaries} >= {f"c{number:02}" for number in range(1, 33)}
    assert {name for name in adversaries if tried[name]["ended"] != "passed"} == set(LISTS["harmless"])


OPEN = {"test_more.py": "import adding\n\n\ndef test_add():\n    assert adding.add(2, 3) == adding.double(2) + 1\n"}
"""The program computes both sides, so nothing can be blinded."""
BLINDED = {
    "test_more.py": (
        "import pytest\n\nimport adding\n\n\n"
        '@pytest.mark.parametrize(("left", "right", "expected"), [(70001, 21313, 91314), (66, 59999, 60065)])\n'
        "def test_add(left, right, expected):\n    assert adding.add(left, right) == expected\n\n\n"
        "def test_texts():\n    assert adding.add('sharp', 'turn') == 'sharpturn'\n"
    )
}
FORGERS = ("c25*", "c32-*", "c32[bcdefghijlm]-*")
"""Adversaries that forge the results of all tests but the canaries."""


@pytest.mark.release
@pytest.mark.parametrize("hidden", [OPEN, BLINDED])
def test_only_blinded_values_stop_forged_results(make_task: Any, attack: Any, hidden: dict[str, str]) -> None:
    """C25, C32: without blinded values, all forgers pass, and the verdict is labelled as weak.

    This shows that the attacks work. None passes if the expected values are compared on the host.
    """
    named = (
        ["test_add"] if hidden is OPEN else ["test_add[66-59999-60065]", "test_add[70001-21313-91314]", "test_texts"]
    )
    make_task(
        files=FILES,
        hidden=hidden,
        patch=PATCH,
        environment={"timeout_sec": 60},
        validation={
            "failing_command": COMMAND,
            "passing_command": COMMAND,
            "fail_to_pass": [f"checks/test_more.py::{name}" for name in named],
            "pass_to_pass": ["tests/test_sums.py::test_double", "tests/test_sums.py::test_nothing"],
        },
        agent={"editable_globs": ["adding/**"]},
    )
    flags = [word for glob in FORGERS for word in ("--adversary", glob)]
    code, found = attack("--sandbox", "local", "--adversary", "c12-*", *flags)
    tried = trials(found)
    forgers = {name for name in tried if name.startswith(("c25", "c32"))}
    assert len(forgers) == 16
    ended = "passed" if hidden is OPEN else "failed"
    assert code == (1 if hidden is OPEN else 0)
    assert {name: tried[name]["ended"] for name in forgers} == dict.fromkeys(forgers, ended)
    labels = {name: {label["name"] for label in trial["labels"]} for name, trial in tried.items()}
    assert {name for name in forgers if "weak_verdict" in labels[name]} == (forgers if hidden is OPEN else set())
    assert not any("tamper_confirmed" in labels[name] for name in forgers)
    assert (tried["c12-patch-reports"]["ended"], tried["c12-patch-reports"]["integrity"]) == (
        "failed",
        "tamper_confirmed",
    )


@pytest.mark.long
def test_line_without_the_key_is_confirmed_tampering(make_task: Any, attack: Any) -> None:
    """C32: a line without the session key is proof of tampering."""
    make_task(
        files=FILES,
        hidden=BLINDED,
        patch=PATCH,
        environment={"timeout_sec": 60},
        validation={"failing_command": COMMAND, "passing_command": COMMAND},
    )
    code, found = attack("--sandbox", "local", "--adversary", "c32[nopq]*")
    tried = trials(found)
    assert code == 0
    assert {name: tried[name]["ended"] for name in tried if name not in ("scripted", "idle")} == dict.fromkeys(
        {*tried} - {"scripted", "idle"}, "failed"
    )
    assert tried["c32q-wrong-key"]["integrity"] == "tamper_confirmed"


@pytest.mark.release
def test_adversaries_that_pass_without_isolation(attack: Any) -> None:
    """Each adversary on one bundled task in the sandbox `local`: only those listed in attack.yaml pass.

    `make attack` tries all pairs.

    C01, C02, C03, C04, C05, C06, C07, C08, C09, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20, C21, C22,
    C23, C24, C25, C26, C27, C28, C29, C30, C31, C32, I03, I04, I05, I07, I12.
    """
    tasks = ("packlist-*", "spotlight-*")  # their tests are fast; each task needs a calibration
    flags = ["--sample", "1", "--seed", "7", *(word for glob in tasks for word in ("--task", glob))]
    code, found = attack("--tasks", str(BUNDLED), "--sandbox", "local", *flags, suite="custom-dev")
    tried = [trial for task in found["tasks"] for trial in task["trials"]]
    assert {trial["agent"] for trial in tried if trial["ended"] == "broken"} == set()
    assert {int(number) for trial in tried for number in re.findall(r"^c(\d+)", trial["agent"])} == set(range(1, 33))
    assert {trial["agent"] for trial in tried if trial["ended"] == "passed"} - {"scripted"} == set(LISTS["local"])
    solved = [trial for trial in tried if trial["agent"] == "scripted"]
    assert [(trial["ended"], trial["labels"]) for trial in solved] == [("passed", [])]
    assert code == (1 if LISTS["local"] else 0)


# --- verdicts on tasks -------------------------------------------------------------------------------------------


def test_robust_task(make_task: Any, agentbench: Any) -> None:
    """Controls end as expected, and adversaries that do not apply are shown as skipped."""
    make_task()
    done = agentbench("tasks", "attack", "--suite", "mini", "--adversary", "c0[12]-*", "--adversary", "c12*")
    assert done.code == 0
    assert re.search(r"^one +robust +[67] +0 +[67] +0 +[\d.]+$", done.out, re.MULTILINE)
    assert "1 of 1 task robust with the `tests` scorer" in done.out
    assert "one  scripted  passed" in done.err
    assert "one  c12-patch-reports  skipped" in done.err
    assert "the task has no editable Python files" in done.err


def test_an_adversary_of_a_plugin(make_task: Any, attack: Any, plugin: Any) -> None:
    """I16: a passing adversary makes the task forgeable, and the remedy suggests how to protect it."""
    plugin(
        "mine",
        PLUGIN.format(body=SOLVES),
    )
    make_task()
    code, found = attack("--adversary", "mine")
    assert code == 1
    assert trials(found)["mine"]["ended"] == "passed"
    (task,) = found["tasks"]
    assert task["verdict"] == "forgeable"
    (problem,) = task["problems"]
    assert problem["agent"] == "mine"
    assert problem["reason"] == "mine passed: does what this test is about"
    for word in ("editable_globs", "fail_to_pass", "validation.files", "validation.isolation"):
        assert word in problem["remedy"]


@pytest.mark.parametrize(
    ("body", "ended", "words"),
    [
        ("raise ValueError('surely odd')", "broken", "ValueError: surely odd"),
        ("raise SystemExit(0)", "broken", "SystemExit"),
        ("raise ToolError('not_found', 'no such thing')", "broken", "no such thing"),
        ("return AgentResult(ended='tool_error', message='no such command')", "broken", "no such command"),
        ("return AgentResult(ended='gave_up', message='nothing here')", "skipped", "nothing here"),
    ],
)
def test_an_adversary_that_breaks(make_task: Any, attack: Any, plugin: Any, body: str, ended: str, words: str) -> None:
    """A broken adversary makes the verdict inconclusive; one that does not apply gives up and is skipped."""
    plugin("mine", PLUGIN.format(body=body))
    make_task()
    code, found = attack("--adversary", "mine")
    trial = trials(found)["mine"]
    assert (trial["ended"], code) == (ended, int(ended == "broken"))
    assert words in trial["explanation"]
    assert found["tasks"][0]["verdict"] == ("inconclusive" if ended == "broken" else "robust")


@pytest.mark.parametrize(
    ("source", "ended", "words"),
    [
        ("nothing_to_do('no tests here')", "gave_up", "no tests here"),
        ("raise KeyError('surely odd')", "tool_error", "KeyError: 'surely odd'"),
        ("sys.exit(3)", "tool_error", "exit code 3"),
        ("import time; time.sleep(60)", "tool_error", "timed out"),
    ],
)
def test_failed_attack_script_is_reported(source: str, ended: str, words: str) -> None:
    """Its result differs from that of an attack that the scorer withstood."""
    facts = TaskFacts(editable=(), passing_command="false", hidden=())
    with make_context(task_facts=facts, tool_timeout_sec=1.0 if words == "timed out" else 60.0) as attempt:
        result = ScriptedAdversary(Script("mine", "does nothing", source)).solve(attempt.context)
        assert result.ended == ended
        assert words in result.message


def test_the_facts_of_a_task_with_very_many_hidden_tests_arrive() -> None:
    """Linux limits a command to 128 KiB, and quoting makes names longer."""
    hidden = tuple(f"checks/{n:04}-{filler * 80}.json" for n in range(400) for filler in ("x", "'", "\u00e9"))
    facts = TaskFacts(editable=(), passing_command="false", hidden=hidden)
    with make_context(task_facts=facts) as attempt:
        script = Script("mine", "", "write('copy.json', json.dumps(facts['hidden']))")
        assert ScriptedAdversary(script).solve(attempt.context).ended == "completed"
        assert json.loads(attempt.sandbox.read_file("copy.json", limit=1 << 20)) == list(hidden)


ODD: Files = {
    "top.py": b"# -*- coding: latin-1 -*-\nNAME = '\xe9'\n\n\ndef add(left, right):\n    return left - right\n",
    "pkg/__init__.py": "",
    "pkg/old.py": "print 'no Python of today'\n",
    "test_top.py": "import top\n\n\ndef test_add():\n    assert top.add(2, 2) == 4\n",
    "tests/data/test_template.py": "{% no Python %}\n",
    "tests/data/test_bytes.py": b"x = '\xff\xfe'\n\0",
    "tests/data/test_directory.py/x.txt": "x",
    "checks/cases.json": '{"a": [1, 2',
    "checks/data.bin": b"\0\xff\xfe",
}
ODD_HIDDEN = ("checks/cases.json", "checks/data.bin", "checks/sub/test_x.py", "checks/words.txt", "test_hidden.py")
SCRIPTS = [script for room in battery._MODULES for script in room.SCRIPTS]


@pytest.fixture(scope="module")
def workbench() -> Iterator[Workbench]:
    """Creates workspaces for scripts."""
    with open_workbench() as made:
        yield made


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_tolerate_unusual_files(script: Script, workbench: Workbench) -> None:
    """Hidden data files, invalid Python, other encodings and modules without package are all tolerated."""
    facts = TaskFacts(
        editable=("pkg/__init__.py", "pkg/old.py", "top.py"),
        passing_command="false",
        hidden=(*ODD_HIDDEN, *(f"checks/{n:04}-{'x' * 80}.json" for n in range(1500))),
    )
    with workbench.context(files=ODD, task_facts=facts) as attempt:
        result = ScriptedAdversary(script).solve(attempt.context)
        assert result.ended in ("completed", "gave_up"), result.message
    assert not [path for path in ("/.git", "/conftest.py", "/_reports.py", "/__pycache__") if Path(path).exists()]


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        ("import json\n", ""),
        ("", ""),
        ('"""Says what it is.\n\nIn lines."""; X = 1\nimport json\n', '"""Says what it is.\n\nIn lines."""; X = 1\n'),
        (f"{CODING}X = '\u00e9'\n", CODING),
        (f"{FUTURE}import json\n", FUTURE),
        ("x = 1\n'no docstring'\r\nimport json", ""),
    ],
    ids=["imports", "empty", "docstring", "encoding", "future", "other ends"],
)
def test_code_is_inserted_at_the_start_of_a_module(head: str, kept: str) -> None:
    """Code is inserted after docstring, encoding and future imports; the module still works."""
    script = Script("mine", "", "everywhere('module[\"FIRST\"] = dict(module)', front=True)")
    facts = TaskFacts(editable=("one.py",), passing_command="false", hidden=())
    with make_context(files={"one.py": head.encode("latin-1")}, task_facts=facts) as attempt:
        assert ScriptedAdversary(script).solve(attempt.context).ended == "completed"
        text = attempt.sandbox.read_file("one.py", limit=10_000).decode("latin-1")
        assert text.startswith(f"{kept}\n\nimport sys as _sys\n")
        assert text.endswith(head.removeprefix(kept))
        said = "import one; print('json' in one.FIRST, '_sys' in one.FIRST)"
        done = attempt.sandbox.exec(["python", "-c", said], deadline=Deadline(60.0))
        assert done.stdout.text == "False True\n", done.stderr.text


@pytest.mark.parametrize(
    ("sections", "control"),
    [
        ({"validation": {"passing_command": "true"}}, "idle"),
        ({"validation": {"passing_command": "false"}}, "scripted"),
        ({"agent": {"editable_globs": ["src/**"]}}, "scripted"),
    ],
)
def test_unexpected_result_of_a_control(make_task: Any, agentbench: Any, sections: Any, control: str) -> None:
    """The task is not robust, whatever the adversaries did."""
    make_task(**sections)
    done = agentbench("tasks", "attack", "--suite", "mini", "--adversary", "c27-*")
    assert done.code == 1
    assert control in done.out
    assert "0 of 1 task robust" in done.out


def test_contrast_with_the_plain_scorer(make_task: Any, agentbench: Any, attack: Any) -> None:
    """Each agent has one row, with its results for the configured and the plain scorer."""
    make_task()
    flags = ("--adversary", "c31-*", "--contrast")
    done = agentbench("tasks", "attack", "--suite", "mini", *flags)
    assert done.code == 0
    assert re.search(r"^agent +tests +plain +what it does$", done.out, re.MULTILINE)
    assert re.search(r"^scripted +1 of 1 +1 of 1 +applies", done.out, re.MULTILINE)
    assert "one  scripted  tests: passed, plain: passed" in done.err
    markdown = agentbench("tasks", "attack", "--suite", "mini", *flags, "--format", "md").out
    assert markdown.startswith("| agent | what it does | tests | plain |\n|---|---|---|---|\n")
    code, found = attack(*flags)
    assert code == 0
    assert found["scorers"] == ["tests", "plain"]
    assert {task["scorer"]: task["verdict"] for task in found["tasks"]} == dict.fromkeys(found["scorers"], "robust")
    again = agentbench("tasks", "attack", "--suite", "mini", *flags, "--set", "scorer=plain")
    assert again.code == 2
    assert "--contrast requires a scorer other than plain" in again.err


def test_unknown_adversary_is_an_error(make_task: Any, agentbench: Any) -> None:
    """A glob without matches is an error."""
    make_task()
    done = agentbench("tasks", "attack", "--suite", "mini", "--adversary", "c99*")
    assert done.code == 2
    assert "no adversary matches 'c99*'" in done.err


def test_a_task_that_cannot_be_set_up(make_task: Any, attack: Any) -> None:
    """Without any attempt the verdict is inconclusive."""
    make_task(setup={"commands": ["exit 3"]})
    code, found = attack("--adversary", "c31-*")
    assert code == 1
    assert {trial["ended"] for trial in trials(found).values()} == {"broken"}
    assert found["tasks"][0]["verdict"] == "inconclusive"


# --- samples -----------------------------------------------------------------------------------------------------


@given(left=st.integers(1, 30), right=st.integers(1, 30), partners=st.integers(1, 5), seed=st.integers(0, 1000))
def test_a_sample(left: int, right: int, partners: int, seed: int) -> None:
    """Each task and agent has as many partners as requested, or all; pairs are unique, and none is superfluous."""
    tasks, agents = [f"t{n}" for n in range(left)], [f"c{n}" for n in range(right)]
    pairs = sampled_pairs(tasks, agents, partners, seed)
    assert pairs == sampled_pairs(tasks, agents, partners, seed)
    assert len(set(pairs)) == len(pairs)
    assert [tasks.index(task) for task, _ in pairs] == sorted(tasks.index(task) for task, _ in pairs)
    of_task, of_agent = Counter(task for task, _ in pairs), Counter(agent for _, agent in pairs)
    assert all(of_task[task] >= min(partners, right) for task in tasks)
    assert all(of_agent[agent] >= min(partners, left) for agent in agents)
    assert len(pairs) == max(left * min(partners, right), right * min(partners, left))


def test_other_seeds_give_other_samples() -> None:
    """Different seeds cover all pairs."""
    tasks, agents = list(range(4)), list(range(10))
    seen = {pair for seed in range(100) for pair in sampled_pairs(tasks, agents, 1, seed)}
    assert seen == set(itertools.product(tasks, agents))


@given(items=st.integers(0, 80), size=st.integers(1, 90), seed=st.text(max_size=5))
def test_a_sample_of_agents_for_one_task(items: int, size: int, seed: str) -> None:
    """It has the requested size, or all items, keeps their order, and takes items from all parts of the list."""
    numbers = list(range(items))
    chosen = spread_sample(numbers, size, seed)
    assert chosen == spread_sample(numbers, size, seed)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(items, size)
    assert all(after - before < 2 * (items / size + 1) for before, after in itertools.pairwise(chosen))


def test_a_sampled_attack(make_task: Any, attack: Any) -> None:
    """With a sample of 1, each agent runs once in total."""
    make_task("one")
    make_task("two")
    code, found = attack("--adversary", "c3[01]*", "--adversary", "c27*", "--sample", "1", "--seed", "7")
    assert code == 0
    assert (found["sample"], found["seed"]) == (1, 7)
    names = [trial["agent"] for task in found["tasks"] for trial in task["trials"]]
    assert sorted(names) == ["c27-stop-the-clock", "c30-only-when-judged", "c31-words-to-a-judge", "idle", "scripted"]
    assert {task["task"] for task in found["tasks"]} == {"one", "two"}
