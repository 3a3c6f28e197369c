"""The flags of ``tasks mine``, bad input, and names that try to break it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench_testing.fixtures import Ended
from tests.histories import FIXES, TEST_COMMAND, History, calculator

FLAGS = ("--sandbox", "local", "--allow-unisolated", "--times", "1", "--test-command", TEST_COMMAND)
LEDGER = Path("tasks/calc/mining.jsonl")


@pytest.fixture
def history(tmp_path: Path) -> History:
    return calculator(tmp_path / "calculator")


@pytest.fixture
def mine(agentbench: Callable[..., Ended]) -> Callable[..., Ended]:
    """Run ``tasks mine`` in this process; later flags replace earlier ones."""

    def run(*flags: str) -> Ended:
        return agentbench("tasks", "mine", "--repo", "calculator", "--suite", "calc", *FLAGS, *flags)

    return run


@pytest.fixture
def mined(mine: Callable[..., Ended]) -> Callable[..., Any]:
    """The result of ``tasks mine --json``."""

    def run(*flags: str) -> Any:
        done = mine("--json", *flags)
        assert done.code == 0, done.err
        return json.loads(done.out)

    return run


def tasks() -> list[Path]:
    """The directories of the tasks."""
    return sorted(path for path in Path("tasks/calc").iterdir() if path.is_dir())


@pytest.mark.long
def test_a_dry_run_shows_the_plan_and_changes_nothing(history: History, mine: Callable[..., Ended]) -> None:
    """The estimate has its basis: a guess, or what earlier commits took."""
    fixes = [history.fix(name) for name in ("add", "double")]
    done = mine("--dry-run", "--limit", "1")
    assert done.code == 0, done.err
    assert "also change tests" in done.out
    assert all(f"{fix[:10]}  2024-03-0" in done.out for fix in fixes)
    assert "candidates without a result: 2 of 2" in done.out
    assert "a guess until commits" in done.out
    assert "--limit 1" in done.out
    plain = json.loads(mine("--dry-run", "--json").out)
    assert {each["commit"] for each in plain["new"]} == set(fixes)
    assert plain["estimated_seconds"] == 60
    assert not Path("tasks").exists()
    assert mine("--limit", "1").code == 0
    before = LEDGER.read_bytes()
    LEDGER.write_bytes(before + b'{"type": "com')  # another process is writing
    later = mine("--dry-run")
    assert "candidates without a result: 1 of 2" in later.out
    assert "the mean of 1 commit tried before" in later.out
    assert mine("--explain", fixes[0]).code == 0
    assert LEDGER.read_bytes() == before + b'{"type": "com'
    assert "candidates without a result: 2 of 2" in mine("--dry-run", "--suite", "other").out


def test_submodules_are_left_out(
    history: History, mine: Callable[..., Ended], agentbench: Callable[..., Ended]
) -> None:
    """The submodule's repository is never read; the task is valid without its files, or it is none."""
    (history.path / "vendor/data").mkdir(parents=True)
    history.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/data")
    history.commit("Data of others", {".gitmodules": '[submodule "x"]\n\tpath = vendor/data\n\turl = ext::touch ran\n'})
    history.fix("add")
    done = mine()
    assert done.code == 0, done.err
    (task,) = tasks()
    assert yaml.safe_load((task / "task.yaml").read_text())["repo"]["submodules"] == "omitted"
    assert agentbench("run-task", "--task", str(task), "--agent", "scripted", "--sandbox", "local").code == 0
    (run,) = Path("artifacts/runs").iterdir()
    assert json.loads((run / "attempts.jsonl").read_text())["result"]["passed"]
    assert not list(history.path.parent.rglob("ran"))


def test_explanations(history: History, mine: Callable[..., Ended]) -> None:
    """The story of a commit that is a task, was rejected early or late, or was not tried."""
    readme = history.commit("Describe the calculator", {"README.md": "It adds.\n"})
    task = history.fix("add")
    _, program, test = FIXES["double"]
    late = history.commit(
        "Twice a number is too small", {"lib/double.sh": program, "tests/check_double.sh": test + "false\n"}
    )
    assert "candidate: not tried yet" in mine("--explain", task).out
    assert not Path("tasks").exists()
    mine()
    story = mine("--explain", "HEAD~1").out
    assert "  source  lib/add.sh (+1 -1)\n  test    tests/check_add.sh (+1 -0)\n" in story
    assert "- public command: sh tests/all.sh\n" in story
    assert "task sums-of-two-numbers-are-wrong: valid in 1 of 1 check\n" in story
    assert "NO_SOURCE_CHANGE: It changes no source files, only README.md." in mine("--explain", readme).out
    assert "FIX_FAILS: no test passes with the fix: exit code 1, no output\n" in mine("--explain", late).out
    plain = json.loads(mine("--explain", task, "--json").out)
    assert (plain["commit"]["id"], plain["rejected"], plain["entry"]["commit"]) == (task, None, task)
    history.git("revert", "--no-edit", task)
    reverted = mine("--explain", task).out
    assert "REVERT: " in reverted
    assert "task sums-of-two-numbers-are-wrong" in reverted
    unknown = mine("--explain", "1234567")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no commit '1234567' in " in unknown.err
    assert "is not on the main line" in mine("--explain", task, "--since", "2024-04-01").err


@pytest.mark.long
def test_a_limit_counts_new_tasks_and_the_next_call_goes_on(history: History, mined: Callable[..., Any]) -> None:
    """There are never more, however many workers there are; and later commits are the only ones that are tried."""
    fixes = {history.fix(name) for name in ("add", "double", "negate")}
    first = mined("--limit", "1", "--workers", "4")
    assert len(tasks()) == 1
    assert len(first["new"]) == 1
    second = mined("--limit", "5", "--workers", "4")
    assert set(first["new"] + second["new"]) == fixes
    later = history.fix("square")
    assert mined()["new"] == [later]
    assert mined("--since", "2024-04-01")["candidates"] == []
    nothing = mined()
    assert nothing["new"] == []
    assert len([entry for entry in nothing["candidates"] if entry["task"]]) == len(tasks()) == 4


def test_dates_and_paths_select_commits(history: History, mine: Callable[..., Ended]) -> None:
    """Both ends of a range are included."""
    fixes = [history.fix(name) for name in ("add", "double", "negate")]

    def selected(*flags: str) -> list[int]:
        found = json.loads(mine("--dry-run", "--json", *flags).out)["new"]
        return sorted(fixes.index(each["commit"]) for each in found)

    assert selected("--since", "2024-03-03") == [1, 2]
    assert selected("--since", "2024-03-03", "--until", "2024-03-03") == [1]
    assert selected("--paths", "lib/a*") == [0]
    assert selected("--paths", "lib/a*", "--paths", "**/negate.sh") == [0, 2]
    wrong = mine("--since", "yesterday")
    assert wrong.code == 2
    assert wrong.err == "error: 'yesterday' is not a valid date; examples: 2024-05-01, 2024-05-01T12:00:00Z\n"


@pytest.mark.long
def test_issues_and_settings_retry_rejected_commits(
    history: History, mine: Callable[..., Ended], mined: Callable[..., Any], tmp_path: Path
) -> None:
    """Tasks are never tried again, and commits that the tests reject are not affected by new texts."""
    task = history.fix("add")
    _, program, test = FIXES["double"]
    vague = history.commit("fix #7", {"lib/double.sh": program, "tests/check_double.sh": test})
    message = "Signs of numbers must change"
    broken = history.commit(message, {"lib/negate.sh": "echo 3\n", "tests/check_negate.sh": FIXES["negate"][2]})
    codes = {entry["commit"]: entry["code"] for entry in mined()["candidates"]}
    assert codes == {task: "", vague: "NO_DESCRIPTION", broken: "FIX_FAILS"}
    assert mined()["new"] == []
    text = {"title": "Twice four is six", "body": "Doubles of numbers are too small by far."}
    issue = {"number": 7, "createdAt": "2024-03-01T00:00:00Z", **text}
    (tmp_path / "issues.json").write_text(json.dumps([issue]))
    with_issues = mined("--issues", "issues.json")
    assert with_issues["new"] == [vague]
    (task_id,) = [entry["task"] for entry in with_issues["candidates"] if entry["commit"] == vague]
    spec = yaml.safe_load(Path("tasks/calc", task_id, "task.yaml").read_text())
    assert spec["provenance"]["text"] == "issue"
    assert "too small by far" in spec["description"]
    assert mined("--timeout", "200")["new"] == [broken]
    (tmp_path / "issues.json").write_text("[{}]")
    before = LEDGER.read_bytes()
    refused = mine("--issues", "issues.json")
    assert refused.code == 2
    assert "issues.json: item 1: title: expected text, found nothing" in refused.err
    assert LEDGER.read_bytes() == before


def test_names_that_only_the_fix_introduces(history: History, mined: Callable[..., Any]) -> None:
    """With ``--strict-names``, tests that need them are rejected; else the task is labeled, and its text has them."""
    test = "import sys\n\nsys.path.insert(0, '.')\nfrom lib.doubling import twice\n\nassert twice(2) == 4\n"
    files = {"lib/doubling.py": "def twice(number):\n    return 2 * number\n", "tests/test_doubling.py": test}
    fix = history.commit("Numbers can be multiplied by two in Python", files)
    command = ("--test-command", "sh tests/all.sh && for test in tests/*.py; do python $test || exit 1; done")
    history.commit("A test in Python", {"tests/test_nothing.py": ""})
    (strict,) = mined(*command, "--strict-names")["candidates"]
    assert (strict["commit"], strict["code"]) == (fix, "NEW_NAMES")
    assert "twice" in strict["reason"]
    (entry,) = mined(*command)["candidates"]
    assert (entry["code"], set(entry["labels"])) == ("", {"new_names", "weak_verdict"})
    assert "twice" in Path("tasks/calc", entry["task"], "task.yaml").read_text()


def test_a_project_with_a_junit_report(
    history: History, mined: Callable[..., Any], agentbench: Callable[..., Ended]
) -> None:
    """Tests are counted, verdicts are weak, and the task runs with scripted and idle."""
    script = (
        "echo '<testsuite>' > report.xml\ncode=0\n"
        "for t in tests/check_*.sh; do\n"
        "  echo \"<testcase classname='tests' name='$t'>\" >> report.xml\n"
        "  sh $t || { code=1; echo '<failure/>' >> report.xml; }\n"
        "  echo '</testcase>' >> report.xml\n"
        "done\necho '</testsuite>' >> report.xml\nexit $code\n"
    )
    history.commit("Write a report", {"tests/report.sh": script})
    fix = history.fix("add")
    result = mined("--test-command", "sh tests/report.sh", "--junit", "report.xml")
    (entry,) = result["candidates"]
    assert (entry["commit"], entry["code"], entry["reason"]) == (fix, "", "valid in 1 of 1 check")
    assert (entry["fail_to_pass"], entry["pass_to_pass"]) == (1, 1)
    assert entry["labels"] == ["weak_verdict"]
    run = agentbench("run", "--suite", "calc", "--sandbox", "local", "--variant", "scripted", "--variant", "idle")
    assert "variant scripted: 1 of 1" in run.out, run.err
    assert "variant idle: 0 of 1" in run.out, run.err


def test_bad_input(history: History, mine: Callable[..., Ended], agentbench: Callable[..., Ended]) -> None:
    """Each is a code and a sentence, and nothing is created."""
    Path("plain").mkdir()
    History(Path("empty"))
    untested = History(Path("untested"))
    untested.commit("First version", {"a.py": "1\n"})
    untested.commit("Second version", {"a.py": "2\n"})
    history.fix("add")
    subprocess.run(["git", "clone", "-q", "--depth", "1", history.path.as_uri(), "shallow"], check=True)
    for repo, message in (
        ("plain", "NOT_A_REPOSITORY: "),
        ("nowhere", "NOT_A_REPOSITORY: "),
        ("empty", "EMPTY_REPOSITORY: "),
        ("shallow", "SHALLOW_CLONE: "),
        ("untested", "NO_TESTS: no commit changes both source and tests (commits searched: 1)\n"),
    ):
        done = mine("--repo", repo)
        assert (done.code, done.out) == (2, ""), done.err
        assert done.err.startswith(f"error: {message}")
        assert len(done.err.splitlines()) <= 3
    for suite in ("../calc", "a/b", "UPPER", ""):
        assert mine("--suite", suite).err.startswith(f"error: {suite!r} is not a valid suite: ")
    refused = agentbench("tasks", "mine", "--repo", "calculator", "--suite", "calc", "--sandbox", "local")
    assert (refused.code, refused.out) == (2, "")
    assert "refusing to run code from the repository" in refused.err
    assert mine("--repo", "https://localhost:1/shop.git").code == 3
    assert not Path("tasks").exists()


def test_a_suite_that_cannot_be_used(history: History, mine: Callable[..., Ended]) -> None:
    """Another process holds it, its results are damaged, or it is a file."""
    history.fix("add")
    Path("tasks/calc").mkdir(parents=True)
    handle = os.open("tasks/calc", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        held = mine()
    finally:
        os.close(handle)
    assert held.code == 2
    assert held.err.endswith(
        "error: another process is changing tasks/calc\n"
        "Wait for the other process to finish, or use a different suite.\n"
    )
    assert list(Path("tasks/calc").iterdir()) == []
    damaged = (
        b'{"type": "environment", "key": "k", "date": "d", "python": "3.11", "pins": []}\n' + b"[" * 100_000 + b"\n"
    )
    for line in (b"nonsense", b"null", b"\xff", b"[" * 100_000):
        LEDGER.write_bytes(damaged.splitlines()[0] + b"\n" + line + b"\n")
        done = mine()
        assert done.code == 2
        assert "error: tasks/calc/mining.jsonl:2 is not a JSON object\nRemove this line" in done.err
    LEDGER.write_text('{"type": "commit", "commit": 1}\n')
    assert "mining.jsonl:1" in mine().err
    shutil.rmtree("tasks/calc")
    Path("tasks/calc").write_text("")
    assert "tasks/calc cannot be created: " in mine().err


@pytest.mark.release
def test_an_interrupt_shows_the_results_and_the_next_call_goes_on(
    history: History, mined: Callable[..., Any], tmp_path: Path
) -> None:
    """The exit code is 130, and the task of the interrupted commit leaves nothing behind."""
    fix = history.fix("add")
    _, program, test = FIXES["double"]
    waits = f"touch {tmp_path}/waiting; while [ -e {tmp_path}/wait ]; do sleep 0.1; done\n"
    older = {"lib/double.sh": program, "tests/check_double.sh": waits + test}
    slow = history.commit(FIXES["double"][0], older)
    (tmp_path / "wait").touch()
    command = [str(Path(sys.executable).parent / "agentbench"), "tasks", "mine", "--repo", "calculator"]
    process = subprocess.Popen(
        [*command, "--suite", "calc", *FLAGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (LEDGER.exists() and fix in LEDGER.read_text() and (tmp_path / "waiting").exists()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after 1 of 2 commits; run the command again to continue\n" in err
    assert f"{fix[:10]}  2024-03-02  task" in out
    assert "Traceback" not in err
    assert [path.name for path in tasks()] == ["sums-of-two-numbers-are-wrong"]
    (tmp_path / "wait").unlink()
    assert mined()["new"] == [slow]


@pytest.mark.release
@pytest.mark.mounts
def test_a_full_disk_loses_nothing(history: History, mined: Callable[..., Any], tmp_path: Path) -> None:
    """The error is a sentence, and the next call does the rest."""
    fixes = {history.fix(name) for name in ("add", "double")}
    agentbench = Path(sys.executable).parent / "agentbench"
    mine = f"{agentbench} tasks mine --repo calculator --suite calc {' '.join(FLAGS[:-1])} '{TEST_COMMAND}'"
    script = f"""
        mkdir tasks
        mount -t tmpfs -o size=64k none tasks
        mkdir tasks/calc
        head -c 60k /dev/zero > tasks/filler
        {mine} --workers 1 2> errors
        echo ended=$?
        rm tasks/filler
        {mine} --workers 1 --json > result.json
        echo ended=$?
        ls -A tasks/calc
    """
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *as_root, "--mount", "sh", "-uc", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    errors = Path("errors").read_text()
    assert done.stdout.splitlines()[0] == "ended=3", errors
    assert (
        "cannot be written: No space left on device\nFree some space and run the command again to continue.\n" in errors
    )
    assert "Traceback" not in errors
    assert "internal error" not in errors
    assert "ended=0" in done.stdout, done.stderr
    result = json.loads(Path("result.json").read_text())
    assert {entry["commit"] for entry in result["candidates"] if entry["task"]} == fixes
    assert ".mining" not in done.stdout


def test_unusual_names_and_messages_are_handled(
    history: History, mine: Callable[..., Ended], agentbench: Callable[..., Ended]
) -> None:
    """Files, branches and messages with special characters, and names that are taken."""
    history.git("checkout", "-q", "-b", "topic")
    history.git("update-ref", "refs/heads/--help", "HEAD")
    history.git("symbolic-ref", "HEAD", "refs/heads/--help")
    subject = "Sums of two numbers \x1b[31mare\x1b[0m wrong"
    _, program, test = FIXES["add"]
    name = 'tests/check_it\'s "odd"\n$(touch escaped).sh'
    files = {"lib/add.sh": program, name: test, "mining.jsonl": "not ours\n", "task.yaml": "id: theirs\n"}
    fix = history.commit(subject, files)
    taken = Path("tasks/calc/sums-of-two-numbers-are-wrong")
    taken.mkdir(parents=True)
    (taken / "task.yaml").write_text("by hand\n")
    for flags in (("--dry-run",), (), ("--explain", fix)):
        done = mine(*flags)
        assert done.code == 0, done.err
        assert "\x1b" not in done.out + done.err
    names = {entry["commit"]: entry for entry in map(json.loads, LEDGER.read_text().splitlines())}
    entry = names[fix]
    assert entry["task"] == "sums-of-two-numbers-are-wrong-2"
    assert (taken / "task.yaml").read_text() == "by hand\n"
    shutil.rmtree(taken)
    run = agentbench("run", "--suite", "calc", "--sandbox", "local", "--variant", "scripted", "--variant", "idle")
    assert "variant scripted: 1 of 1" in run.out, run.err
    assert "variant idle: 0 of 1" in run.out, run.err
    assert not list(Path().rglob("escaped"))
