"""The scorer ``tests`` on real pytest sessions: common project setups work under its checks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import SandboxProvider, open_run
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_integrity.scorer.blinding.expectations import Expectations
from agentbench_local.plugin import LocalOptions
from agentbench_local.provider import LocalProvider
from tests.conftest import Ended
from tests.integrity.benches import Bench, Scored

BEFORE, AFTER = "    return left\n", "    return left + right\n"
HEAD = 'def add(left, right):\n    """The sum."""\n'
PATCH = f"--- a/adding.py\n+++ b/adding.py\n@@ -3 +3 @@\n-{BEFORE}+{AFTER}"
PUBLIC = "from adding import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
HIDDEN = """\
import pytest

from adding import add


@pytest.mark.parametrize(("left", "right", "total"), [(1, 1, 2), (20391, 48217, 68608)])
def test_sums(left, right, total):
    assert add(left, right) == total


def test_refuses():
    with pytest.raises(TypeError):
        add(1, "a")
    assert add(901233, -55) == 901178
"""
AUTOUSE = """\
import pytest


@pytest.fixture(autouse=True)
def _near(tmp_path):
    (tmp_path / "x").touch()
"""
IDS = {
    "fail_to_pass": [
        "checks/test_sums.py::test_sums[1-1-2]",
        "checks/test_sums.py::test_sums[20391-48217-68608]",
        "checks/test_sums.py::test_refuses",
    ],
    "pass_to_pass": ["tests/test_zero.py::test_zero"],
}
QUICK = "python -c 'from adding import add; assert add(1, 1) == 2'"
LISTED = {"failing_command": QUICK, "passing_command": "python -m pytest -q", **IDS}

FILES = {"adding.py": HEAD + BEFORE, "tests/test_zero.py": PUBLIC}
SOLVED = {"adding.py": HEAD + AFTER}

NAMED = [*IDS["fail_to_pass"], *IDS["pass_to_pass"]]

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def attempt(
    make_task: Callable[..., Path], agentbench: Callable[..., Ended], records: Callable[..., list[dict[str, Any]]]
) -> Run:
    """Create the task, run an agent on it, and return the record."""

    def run(
        files: Mapping[str, str] | None = None,
        *flags: str,
        agent: str = "scripted",
        patch: str = PATCH,
        hidden: str = HIDDEN,
        **said: Any,
    ) -> dict[str, Any]:
        make_task(
            files={**FILES, **(files or {})},
            hidden={"test_sums.py": hidden},
            patch=patch,
            validation={**LISTED, **said},
        )
        ended = agentbench("run", "--suite", "mini", "--agent", agent, *flags)
        assert ended.code == 0, ended.err
        (record,) = records()
        return record

    return run


Judge = Callable[..., Scored]


def make_bench(
    root: Path, provider: SandboxProvider, files: Mapping[str, str], command: str = "python -m pytest -q", **said: Any
) -> Bench:
    """The same task without a run: its tests are calibrated and scored directly."""
    root.mkdir(exist_ok=True)
    said |= {name: tuple(tests) for name, tests in IDS.items()}
    hidden = {"checks/test_sums.py": HIDDEN}
    return Bench(root, provider, files=files, hidden=hidden, solution=SOLVED, command=command, **said)


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with contextlib.closing(LocalProvider(LocalOptions())) as provider:
        yield provider


@pytest.fixture(scope="module")
def expectations(provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> Expectations:
    """The values of the hidden tests, which depend neither on options of pytest nor on other files."""
    return make_bench(tmp_path_factory.mktemp("calibrated"), provider, FILES).calibrate()


@pytest.fixture
def scored(provider: LocalProvider, expectations: Expectations, tmp_path: Path) -> Judge:
    """Score a change to the task with more files, by default the reference solution."""

    def run(
        files: Mapping[str, str] | None = None,
        command: str = "python -m pytest -q",
        change: Mapping[str, str] = SOLVED,
    ) -> Scored:
        return make_bench(tmp_path, provider, {**FILES, **(files or {})}, command).score(expectations, change)

    return run


def names(record: dict[str, Any]) -> set[str]:
    return {label["name"] for label in record["labels"]} - {"oracle"}


def explained(record: dict[str, Any]) -> str:
    (directory,) = Path().glob("artifacts/runs/*")
    return open_run(directory).explanations()[record["attempt_id"]]


def printed(record: dict[str, Any]) -> str:
    (path,) = Path().glob(f"artifacts/runs/*/tasks/{record['task_id']}/logs/passing_stdout.txt")
    return path.read_text()


def page_of(record: dict[str, Any]) -> dict[str, Any]:
    (path,) = Path().glob(f"artifacts/runs/*/tasks/{record['task_id']}/logs/tests.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_correct_fix_passes(attempt: Run) -> None:
    """It passes without labels, and the output shows only the task's tests, all passed."""
    record = attempt()
    assert (record["result"], names(record)) == ({"passed": True, "exit_code": 0, "failure_reason": None}, set())
    assert record["integrity"] == "clean"
    output = printed(record)
    assert "4 passed in " in output
    assert " failed in " not in output
    assert "agentbench: 4 of 4 expected tests passed\n" in output
    assert "2 of 3 assertions compared on the host, must-fail test failed, must-pass test passed\n" in output
    page = page_of(record)
    assert [(test["id"], test["outcome"]) for test in page["tests"]] == [(name, "passed") for name in NAMED]
    assert page["checks"]["problems"] == []


PATCHER = """
    import pathlib, attrs
    from agentbench_core import AgentResult, ToolCall, hookimpl

    class Patcher:
        def solve(self, context):
            patch = pathlib.Path("agent.patch").read_text()
            context.tools.call(ToolCall(tool="apply_patch", arguments={"unified_diff": patch}))
            return AgentResult()

    @attrs.frozen
    class Options:
        pass

    @hookimpl
    def agentbench_register_agents(register):
        register("patcher", lambda options: Patcher(), Options, summary="applies agent.patch")
"""


def test_wrong_fix_fails(attempt: Run, plugin: Callable[..., Path]) -> None:
    """It fails with an explanation and without labels."""
    plugin("patcher", PATCHER)
    Path("agent.patch").write_text(PATCH.replace(AFTER, "    return left - right\n"))
    record = attempt(agent="patcher")
    assert record["result"] == {"passed": False, "exit_code": 1, "failure_reason": "TESTS_FAILED"}
    assert names(record) == set()
    assert "checks/test_sums.py::test_sums[1-1-2] (failed: line 8: expected 2, got 0" in explained(record)
    told = {test["id"]: test["differences"] for test in page_of(record)["tests"]}
    assert told["checks/test_sums.py::test_refuses"] == [
        {
            "line": 14,
            "assertion": "add(901233, -55) == 901178",
            "expected": "901178",
            "got": "901288",
            "difference": "",
        }
    ]


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, "python -m pytest -x --maxfail=1"),
        ({}, "python -m pytest -q checks tests"),
        ({}, "python -m pytest -q tests checks/test_sums.py::test_sums checks/test_sums.py::test_refuses"),
        ({}, "python -m pytest -k 'sums or zero or refuses'"),
        ({}, "PYTHONPATH=. pytest"),
        ({"pytest.ini": "[pytest]\naddopts = --strict-markers -p no:cacheprovider\ntestpaths = checks tests\n"}, ""),
        ({"pyproject.toml": '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\npythonpath = ["."]\n'}, "pytest"),
        ({"conftest.py": "def pytest_collection_modifyitems(items): items.reverse()\n"}, ""),
        ({"checks_plugin.py": "def pytest_configure(config): config.x = 1\n"}, "python -m pytest -p checks_plugin"),
        ({"conftest.py": AUTOUSE}, ""),
        ({"ci/pytest.ini": "[pytest]\naddopts = --strict-markers\n"}, "python -m pytest -c ci/pytest.ini checks tests"),
        ({"ci/x": ""}, "python -m pytest --rootdir=ci checks tests"),
        (
            {"setup.cfg": "[tool:pytest]\npython_files = *.py\npython_functions = test_*\n"},
            "python -m pytest checks tests",
        ),
    ],
)
def test_pytest_options_of_tasks_are_kept(files: dict[str, str], command: str, scored: Judge) -> None:
    """A task's pytest options, settings, conftest files and plugins work as they do without checks."""
    found = scored(files, command or "python -m pytest -q")
    assert (found.score.passed, found.score.labels) == (True, ()), found.printed


def test_a_fix_whose_exception_is_of_two_classes(scored: Judge) -> None:
    """Such an exception, like io.UnsupportedOperation, is no sign of tampering."""
    both = "    if isinstance(right, str):\n        raise type('Both', (TypeError, ValueError), {})('no')\n"
    found = scored(change={"adding.py": HEAD + both + AFTER})
    assert (found.score.passed, found.score.labels) == (True, ()), found.printed


def test_collect_ignore_does_not_affect_canary_tests(scored: Judge) -> None:
    """Ignore rules of the project do not affect the canary tests, whose file is named after the hidden tests."""
    command = "python -m pytest --deselect=checks/test_sums.py::test_that_is_named"
    found = scored({"conftest.py": "collect_ignore_glob = ['*/test_sums_*.py']\n"}, command)
    assert (found.score.passed, found.score.labels) == (True, ()), found.printed


def test_unlisted_tests_do_not_count(scored: Judge) -> None:
    """Tests that are not listed may fail, or fail to import, even if pytest would stop at the first failure."""
    more = {"tests/test_odd.py": "import nothing_of_that_name\n", "tests/test_red.py": "def test_it(): assert 0\n"}
    found = scored(more, "python -m pytest -x tests checks")
    assert (found.score.passed, found.score.exit_code, found.score.labels) == (True, 1, ()), found.printed


@pytest.mark.parametrize(
    ("said", "evidence"),
    [
        ({"fail_to_pass": [], "pass_to_pass": []}, "lists no expected tests"),
        (
            {"fail_to_pass": [], "pass_to_pass": [], "passing_command": "python -m pytest -q && true"},
            "does more than run pytest",
        ),
    ],
)
def test_weak_verdicts(said: dict[str, Any], evidence: str, attempt: Run) -> None:
    """The attempt passes, and the record explains why the verdict is weak."""
    record = attempt(**said)
    assert (record["result"]["passed"], names(record)) == (True, {"weak_verdict"})
    assert record["integrity"] == "weak_verdict"
    assert evidence in next(label["evidence"] for label in record["labels"] if label["name"] == "weak_verdict")


def test_without_checks(attempt: Run) -> None:
    """The plain scorer labels its verdicts as weak."""
    record = attempt({}, "--set", "scorer=plain")
    assert (record["result"]["passed"], names(record)) == (True, {"weak_verdict"})
    assert "agentbench:" not in printed(record)


def test_values_that_are_easily_guessed(attempt: Run) -> None:
    """The verdict is weak, and the evidence lists the assertions to change."""
    guessed = HIDDEN.replace("20391, 48217, 68608", "2, 3, 5").replace("add(901233, -55) == 901178", "add(5, -5) == 0")
    named = {"fail_to_pass": [*IDS["fail_to_pass"][:1], "checks/test_sums.py::test_sums[2-3-5]", NAMED[2]]}
    record = attempt(hidden=guessed, **named)
    assert (record["result"]["passed"], names(record)) == (True, {"weak_verdict"})
    (label,) = [label for label in record["labels"] if label["name"] == "weak_verdict"]
    assert "no test function compares a value that cannot be guessed (at least 2 required)" in label["evidence"]
    assert "checks/test_sums.py:8: add(left, right) == total" in label["evidence"]


def test_files_of_listed_tests_are_restored(attempt: Run) -> None:
    """C01, I05, I06: files of listed tests are restored, wherever they are; changes to them are labelled."""
    files = {"adding_checks/test_more.py": PUBLIC.replace("test_zero", "test_more")}
    patch = f"{PATCH}--- a/adding_checks/test_more.py\n+++ /dev/null\n@@ -1,5 +0,0 @@\n" + "".join(
        f"-{line}\n" for line in files["adding_checks/test_more.py"].splitlines()
    )
    more = [*IDS["pass_to_pass"], "adding_checks/test_more.py::test_more"]
    record = attempt(files, patch=patch, pass_to_pass=more)
    assert (record["result"]["passed"], names(record)) == (True, {"touched_protected"})


@pytest.mark.long
@pytest.mark.docker
def test_tests_write_to_the_workspace_only_if_allowed(tmp_path: Path) -> None:
    """The workspace is read-only while tests run, unless the task allows writing."""
    writing = {**FILES, "tests/test_zero.py": PUBLIC + "    open('left-behind', 'w').close()\n"}
    with contextlib.closing(DockerProvider(DockerOptions())) as provider:
        for writable in (False, True):
            bench = make_bench(tmp_path / str(writable), provider, writing, writable=writable)
            found = bench.score(None, SOLVED)
            assert (found.score.passed, found.score.labels) == (writable, ()), found.printed
