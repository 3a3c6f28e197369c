"""``tasks mine`` on a repository whose commits end in every way: as tasks, and with every code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench_testing.fixtures import Ended
from tests.histories import History

FIRST = {
    "shop/__init__.py": "",
    "shop/totals.py": """\
        def total(prices, discount=0):
            return sum(prices) - discount
        """,
    "shop/dates.py": """\
        def days(weeks):
            return weeks * 6
        """,
    "shop/labels.py": """\
        def label(name):
            return name.upper()
        """,
    "tests/test_totals.py": """\
        from shop.totals import total


        def test_sum():
            assert total([1, 2]) == 3
        """,
    "tests/test_labels.py": """\
        from shop.labels import label


        def test_upper():
            assert label("a") == "A"
        """,
}
DISCOUNT = """\
    def total(prices, discount=0):
        return max(0, round(sum(prices) * (100 - discount) / 100, 2))
    """
TEST_DISCOUNT = (
    FIRST["tests/test_totals.py"]
    + """

        def test_discount():
            assert [total([n * 7.25, n], 15) for n in range(1, 9)] == [
                7.01, 14.03, 21.04, 28.05, 35.06, 42.08, 49.09, 56.1,
            ]


        def test_discount_of_many():
            assert [total(range(n * 3), n) for n in range(2, 9)] == [14.7, 34.92, 63.36, 99.75, 143.82, 195.3, 253.92]
        """
)


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(tmp_path / "shop")
    made.commit("The first version of the shop", FIRST)
    return made


@pytest.fixture
def mine(agentbench: Callable[..., Ended], tmp_path: Path) -> Callable[..., Any]:
    """Run ``tasks mine`` in this process, in the ``local`` sandbox, with the packages that are there."""

    def run(*flags: str, code: int = 0) -> Any:
        fixed = ("--repo", str(tmp_path / "shop"), "--suite", "mined", "--sandbox", "local", "--allow-unisolated")
        done = agentbench("tasks", "mine", *fixed, "--setup", "true", "--times", "1", "--json", *flags)
        assert done.code == code, done.err
        return json.loads(done.out) if code == 0 else done

    return run


@pytest.mark.long
def test_a_fix_becomes_a_task_that_runs(
    history: History, mine: Callable[..., Any], agentbench: Callable[..., Ended], tmp_path: Path
) -> None:
    """The task has the tests of the fix, a public command that passes, and a place in the history."""
    base = history.commit("Add nothing of interest", {"README.md": "A shop.\n"})
    message = "Discounts are percentages, not amounts\n\nA discount of 15 must take 15 % off the sum of the prices."
    fix = history.commit(message, {"shop/totals.py": DISCOUNT, "tests/test_totals.py": TEST_DISCOUNT})
    result = mine()
    (entry,) = [each for each in result["candidates"] if each["task"]]
    assert (entry["commit"], entry["fail_to_pass"], entry["pass_to_pass"]) == (fix, 2, 1)
    directory = tmp_path / "tasks/mined" / entry["task"]
    spec = yaml.safe_load((directory / "task.yaml").read_text())
    assert spec["repo"] == {"url": str(tmp_path / "shop"), "commit": base}
    assert spec["validation"]["fail_to_pass"] == [
        "tests/test_totals.py::test_discount",
        "tests/test_totals.py::test_discount_of_many",
    ]
    assert spec["validation"]["pass_to_pass"] == ["tests/test_totals.py::test_sum"]
    assert spec["validation"]["failing_command"] == "python -m pytest -q tests/test_totals.py"
    assert "15 % off" in spec["description"]
    assert "idden tests" in spec["description"]
    assert (spec["provenance"]["commit"], spec["provenance"]["date"]) == (fix, "2024-03-03T12:00:00Z")
    assert "agentbench-canary" in (directory / "checks/tests/test_totals.py").read_text()
    assert "agentbench-canary" in (directory / "solution.patch").read_text()
    flags = ("--suite", "mined", "--sandbox", "local", "--variant", "scripted", "--variant", "idle")
    run = agentbench("run", *flags)
    assert "variant scripted: 1 of 1" in run.out, run.err
    assert "variant idle: 0 of 1" in run.out, run.err


@pytest.mark.release
def test_a_file_that_cannot_be_collected_does_not_hide_the_others(
    history: History, mine: Callable[..., Any], tmp_path: Path
) -> None:
    """Neither one that needs a missing package with the fix, nor one that needs a new name without it."""
    parcels = "from shop.totals import parcels\n\n\ndef test_parcels():\n    assert parcels(7) == 3\n"
    fix = history.commit(
        "Discounts are percentages\n\nAlso, `parcels` is the number of parcels for some items.",
        {
            "shop/totals.py": textwrap.dedent(DISCOUNT) + "\n\ndef parcels(items):\n    return -(-items // 3)\n",
            "tests/test_totals.py": TEST_DISCOUNT,
            "tests/test_parcels.py": parcels,
            "tests/typing_example.py": "import checker\n\n\nclass TestTypes(checker.Case):\n    pass\n",
        },
    )
    (entry,) = [each for each in mine("--times", "1")["candidates"] if each["commit"] == fix]
    spec = yaml.safe_load((tmp_path / "tasks/mined" / entry["task"] / "task.yaml").read_text())["validation"]
    assert spec["fail_to_pass"] == [
        "tests/test_parcels.py::test_parcels",
        "tests/test_totals.py::test_discount",
        "tests/test_totals.py::test_discount_of_many",
    ]
    assert spec["pass_to_pass"] == ["tests/test_totals.py::test_sum"]
    assert spec["passing_command"] == "python -m pytest -q tests/test_parcels.py tests/test_totals.py"


@pytest.mark.release
def test_every_commit_gets_its_code(history: History, mine: Callable[..., Any], tmp_path: Path) -> None:
    """Each way to fail has a code of its own, and one failure does not affect the others."""
    counter = tmp_path / "counter"
    test = "from shop.{module} import {name}\n\n\ndef test_{name}_{number}():\n    assert {check}\n"

    def tested(number: int, check: str, module: str = "dates", name: str = "days") -> dict[str, str]:
        return {f"tests/test_{module}_{number}.py": test.format(module=module, name=name, number=number, check=check)}

    days = "def days(weeks):\n    return {value}\n"
    counted = f"open({str(counter)!r}, 'a').write('x') and len(open({str(counter)!r}).read()) != 11"
    expected = {
        history.commit("Describe what the shop is for", {"README.md": "A shop.\n"}): "NO_SOURCE_CHANGE",
        history.commit(
            "Labels have no spaces around them",
            {"shop/labels.py": "def label(name):\n    return name.strip().upper()\n"},
        ): "NO_TEST_CHANGE",
        history.commit(
            "Weeks of seven days are computed in one place",
            {"shop/dates.py": days.format(value="6 * weeks"), **tested(1, "days(2) == 12")},
        ): "TESTS_PASS_BEFORE",
        history.commit(
            "Weeks have eight days in this calendar",
            {"shop/dates.py": days.format(value="8 * weeks"), **tested(2, "days(2) == 17")},
        ): "FIX_FAILS",
        history.commit(
            "fix", {"shop/dates.py": days.format(value="9 * weeks"), **tested(3, "days(2) == 18")}
        ): "NO_DESCRIPTION",
        history.commit(
            "Negative weeks are no days at all\n\nThe body is now:\n\n    return max(0, weeks) * 10 if weeks else 0\n",
            {"shop/dates.py": days.format(value="max(0, weeks) * 10 if weeks else 0"), **tested(4, "days(2) == 20")},
        ): "DESCRIPTION_REVEALS_FIX",
        history.commit(
            "Weeks are long again in every country",
            {
                "shop/dates.py": days.format(value="12 * weeks"),
                **tested(6, f"{counted} and days(2) == 24"),
            },
        ): "FLAKY",
        history.commit(
            "Fixtures for the tests of weeks with holidays",
            {"shop/dates.py": days.format(value="13 * weeks"), "tests/conftest.py": "WEEKS = 2\n"},
        ): "NO_TESTS_FOUND",
        history.commit(
            "Holidays can be subtracted from weeks of work",
            {
                "shop/dates.py": days.format(value="13 * weeks")
                + "\n\ndef workdays(weeks):\n    return 5 * weeks\n",
                **tested(7, "workdays(3) == 15", name="workdays"),
            },
        ): "NEW_NAMES",
        history.commit(
            "Weeks of work are checked against an almanac",
            {
                "shop/dates.py": "def days(weeks):\n    return 7 * weeks\n",
                "tests/test_almanac.py": "import almanac\n\n\ndef test_days():\n    assert almanac.days(2) == 14\n",
            },
        ): "ENVIRONMENT_FAILED",
        history.commit(
            "Bump the version",
            {
                "shop/labels.py": "def label(name):\n    return name.lower()\n",
                **tested(8, "label('A') == 'a'", "labels", "label"),
            },
            author="release[bot] <bot@example.com>",
        ): "BOT",
        history.commit(
            "Weeks without an end are never counted",
            {
                "shop/loops.py": "def days(weeks):\n    while True:\n        pass\n",
                **tested(5, "days(2) == 22", "loops"),
            },
        ): "TIMEOUT",
        history.commit(
            "Options that only a plugin knows", {"pytest.ini": "[pytest]\naddopts = --unknown-option\n"}
        ): "NO_SOURCE_CHANGE",
        history.commit(
            "Weeks are counted differently from now on",
            {"shop/dates.py": days.format(value="14 * weeks"), **tested(9, "days(2) == 28")},
        ): "ENVIRONMENT_FAILED",
    }  # fmt: skip
    result = mine("--strict-names", "--timeout", "12", "--workers", "4", "--times", "2")
    lines = [json.loads(line) for line in (tmp_path / "tasks/mined/mining.jsonl").read_text().splitlines()]
    found = {line["commit"]: line["code"] for line in lines if line["type"] == "commit"}
    reasons = {line["commit"]: line["reason"] for line in lines if line["type"] == "commit"}
    assert {commit: found.get(commit) for commit in expected} == expected, reasons
    assert all(reasons[commit] for commit in expected)
    assert result["new"]
    assert not (tmp_path / "tasks/mined/.mining").exists()
    again = mine("--strict-names", "--timeout", "12", "--workers", "4", "--times", "2")
    assert again["new"] == []


@pytest.mark.release
def test_a_killed_command_loses_nothing(history: History, mine: Callable[..., Any], tmp_path: Path) -> None:
    """After kill -9 in the middle of a commit, the next call keeps earlier results and does the rest."""
    fixes = []
    for number in range(3):
        source = f"def days(weeks):\n    return weeks * {7 + number} + 100 * weeks\n"
        check = f"from shop.dates import days\n\n\ndef test_{number}():\n    assert days(3) == {321 + 3 * number}\n"
        message = f"Weeks have {7 + number} days in calendar {'abc'[number]}\n"
        fixes.append(history.commit(message, {"shop/dates.py": source, f"tests/test_{number}.py": check}))
    ledger = tmp_path / "tasks/mined/mining.jsonl"
    command = [str(Path(sys.executable).parent / "agentbench"), "tasks", "mine", "--repo", str(tmp_path / "shop")]
    flags = [
        "--suite",
        "mined",
        "--sandbox",
        "local",
        "--allow-unisolated",
        "--setup",
        "true",
        "--times",
        "1",
        "--workers",
        "1",
    ]
    process = subprocess.Popen([*command, *flags], cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    while not (ledger.exists() and '"task": "weeks' in ledger.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with ledger.open("a") as file:
        file.write('{"type": "commit", "comm')
    before = {path.name for path in (tmp_path / "tasks/mined").iterdir() if path.name != "mining.jsonl"}
    result = mine("--workers", "1")
    assert {entry["commit"] for entry in result["candidates"] if entry["task"]} == set(fixes)
    assert len(result["new"]) < 3
    tasks = [path for path in (tmp_path / "tasks/mined").iterdir() if path.is_dir()]
    assert len(tasks) == 3, (before, tasks)
    # Between the creation of a task and its line in the ledger, kill -9 leaves a task without a line.
    lines = [line for line in ledger.read_text().splitlines(keepends=True) if fixes[1] not in line]
    ledger.write_text("".join(lines))
    again = mine("--workers", "1")
    assert (again["new"], len(again["candidates"])) == ([], 3)


@pytest.mark.release
def test_the_failing_tests_of_a_fix_are_found_whatever_the_project_does(
    history: History, mine: Callable[..., Any], tmp_path: Path
) -> None:
    """Other tests fail, cannot be collected, write files, or end the session; the report has ids of the root."""
    history.commit(
        "Settings of the tests",
        {
            "tests/pytest.ini": "[pytest]\naddopts = -x\n",
            "tests/test_dates.py": """\
                import pathlib
                from shop.dates import days


                def test_none():
                    pathlib.Path("written").write_text("x")
                    assert days(0) == 0
                """,
            "tests/test_totals_of_shops.py": "import not_installed\n",
        },
    )
    fix = history.commit(
        "Weeks have seven days, and labels can be padded to a width",
        {
            "shop/dates.py": "def days(weeks):\n    return weeks * 7\n",
            "shop/labels.py": "def label(name):\n    return name.upper()\n\n\n"
            "def padded(name):\n    return name.ljust(9)\n",
            "tests/test_dates.py": """\
                import pathlib
                import pytest
                from shop.dates import days


                def test_none():
                    pathlib.Path("written").write_text("x")
                    assert days(0) == 0


                @pytest.mark.parametrize("weeks", [1, 2], ids=["één", "a::b/c"])
                def test_weeks(weeks):
                    assert days(weeks) == 7 * weeks


                class TestYears:
                    def test_year(self):
                        pathlib.Path("written").write_text("x")
                        assert days(52) == 364

                    def test_no_year(self):
                        assert days(0) == 0
                """,
            "tests/test_padded.py": "from shop.labels import padded\n\n\n"
            "def test_padded():\n    assert padded('a') == 'a        '\n",
            "tests/test_never.py": "import not_installed\n\n\ndef test_never():\n    assert True\n",
        },
    )  # fmt: skip
    (entry,) = [each for each in mine("--times", "1")["candidates"] if each["commit"] == fix]
    assert entry["task"], entry["reason"]
    spec = yaml.safe_load((tmp_path / "tasks/mined" / entry["task"] / "task.yaml").read_text())
    assert spec["validation"]["fail_to_pass"] == [
        r"tests/test_dates.py::test_weeks[\xe9\xe9n]",
        "tests/test_dates.py::test_weeks[a::b/c]",
        "tests/test_dates.py::TestYears::test_year",
        "tests/test_padded.py::test_padded",
    ]
    assert set(spec["validation"]["pass_to_pass"]) == {
        "tests/test_dates.py::test_none",
        "tests/test_dates.py::TestYears::test_no_year",
        "tests/test_labels.py::test_upper",
    }
    assert spec["validation"]["failing_command"] == "python -m pytest -q tests/test_dates.py"


@pytest.mark.release
def test_a_fix_whose_tests_are_data_becomes_a_task(history: History, mine: Callable[..., Any], tmp_path: Path) -> None:
    """A public test reads them, and the changed file looks like a test, but is not valid."""
    reads = """\
        import pathlib
        import pytest
        from shop.labels import label

        CASES = sorted(pathlib.Path(__file__).with_name("cases").glob("*.py"))


        @pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
        def test_case(case):
            given, expected = case.read_text().splitlines()[:2]
            assert label(given) == expected
        """
    history.commit("Cases", {"tests/test_cases.py": reads, "tests/cases/upper.py": "ab\nAB\n"})
    fix = history.commit(
        "Labels have no spaces at their ends",
        {
            "shop/labels.py": "def label(name):\n    return name.strip().upper()\n",
            "tests/cases/spaces.py": " ab \nAB\ndef test it\n",
        },
    )
    (entry,) = [each for each in mine("--times", "1")["candidates"] if each["commit"] == fix]
    assert entry["task"], entry["reason"]
    spec = yaml.safe_load((tmp_path / "tasks/mined" / entry["task"] / "task.yaml").read_text())
    assert spec["validation"]["fail_to_pass"] == ["tests/test_cases.py::test_case[spaces]"]
    assert "tests/test_cases.py::test_case[upper]" in spec["validation"]["pass_to_pass"]
    assert spec["validation"]["passing_command"] == "python -m pytest -q tests"
    assert spec["validation"]["failing_command"] == "python -m pytest -q tests/test_cases.py"


@pytest.mark.release
def test_a_public_test_that_does_not_always_pass_is_left_out(
    history: History, mine: Callable[..., Any], tmp_path: Path
) -> None:
    """It does not decide about a fix that it has nothing to do with."""
    counter = tmp_path / "counter"
    unsteady = (
        f"\n\ndef test_unsteady():\n    with open({str(counter)!r}, 'a') as file:\n"
        "        assert file.tell() < 4 and file.write('x')\n"
    )
    tests = FIRST["tests/test_totals.py"]
    history.commit("A test of the weather", {"tests/test_totals.py": textwrap.dedent(tests) + unsteady})
    changed = textwrap.dedent(TEST_DISCOUNT) + unsteady
    fix = history.commit(
        "Discounts are percentages, not amounts", {"shop/totals.py": DISCOUNT, "tests/test_totals.py": changed}
    )
    (entry,) = [each for each in mine()["candidates"] if each["commit"] == fix]
    assert entry["task"], (entry["reason"], entry["steps"])
    spec = yaml.safe_load((tmp_path / "tasks/mined" / entry["task"] / "task.yaml").read_text())
    assert spec["validation"]["pass_to_pass"] == ["tests/test_totals.py::test_sum"]
    assert any("do not always pass: tests/test_totals.py::test_unsteady" in step for step in entry["steps"])
