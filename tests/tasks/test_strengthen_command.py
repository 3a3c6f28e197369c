"""``agentbench tasks strengthen``: weak tasks, hostile programs, and failures that write nothing."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from agentbench_core.inputs.suite import read_task
from agentbench_tasks.strengthen import command, observing
from agentbench_tasks.strengthen.examining import Examined, examine
from agentbench_tasks.validation import validate

SIZES = '''\
"""Sizes of files for people."""


def rounded(size: int, block: int = 10) -> int:
    """The smallest multiple of `block` that is at least `size`, and one more block."""
    return size // block * block + block
'''
PATCH = (
    "--- a/sizes.py\n+++ b/sizes.py\n@@ -3,4 +3,4 @@\n \n def rounded(size: int, block: int = 10) -> int:\n"
    '     """The smallest multiple of `block` that is at least `size`, and one more block."""\n'
    "-    return size // block * block + block\n+    return -(-size // block) * block + block\n"
)
PUBLIC = "from sizes import rounded\n\n\ndef test_full() -> None:\n    assert rounded(20) == 30\n"
HIDDEN = f"# agentbench-canary: 5a0c\n{PUBLIC}\n\ndef test_rest() -> None:\n    assert rounded(32) == 50\n"
COMMAND = "python -m pytest -q tests/test_sizes.py"
MINED: Mapping[str, Any] = {
    "files": {"sizes.py": SIZES, "tests/test_sizes.py": PUBLIC, "tests/__init__.py": ""},
    "hidden": {"tests/test_sizes.py": HIDDEN},
    "patch": PATCH,
    "validation": {"failing_command": COMMAND, "passing_command": COMMAND, "files_at": "."},
}
"""A weak task in the layout of mined tasks: hidden tests replace public ones."""


@pytest.fixture
def weak(make_task: Any) -> Callable[..., Path]:
    """Make the weak task, with other sections."""

    def make(**changed: Any) -> Path:
        validation = {**MINED["validation"], **changed.pop("validation", {})}
        return Path(make_task(python=True, **{**MINED, **changed, "validation": validation}))

    return make


def contents(directory: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.release
def test_a_weak_task_becomes_strong(weak: Callable[..., Path], agentbench: Any) -> None:
    """Nothing is written before proposals are accepted; then tests, lists and the command fit together."""
    directory = weak()
    path = directory / "task.yaml"
    folded = f"passing_command: >-\n    {COMMAND}"
    path.write_text("# a comment\n" + path.read_text().replace(f"passing_command: {COMMAND}", folded))
    before = contents(directory)
    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2")
    assert done.code == 0, done.err
    assert (
        "one: weak_verdict: no test function compares a value that cannot be guessed (at least 2 required)" in done.out
    )
    first = "[1] repeats the assertion at tests/test_sizes.py:10 test_rest with different inputs"
    assert f"{first}\n    assert [\n        rounded(" in done.out
    assert "    unfixed program: " in done.out
    assert "Accept an assertion only if the description" in done.out
    assert "with all proposals (2):\n  witnesses: 3 (2 safe values in 2 test functions)" in done.out
    assert contents(directory) == before

    done = agentbench("tasks", "strengthen", str(directory), "--times", "2", "--accept", "2,1", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["accepted"] == [1, 2]
    assert (bool(result["before"]["weakness"]), result["after"]["weakness"]) == (True, "")
    new = directory / "checks/tests/test_strengthened_sizes.py"
    assert result["written"] == [str(new), str(path)]
    assert path.read_text().startswith("# a comment\n")
    text = new.read_text()
    assert text.startswith("# agentbench-canary: ")
    assert "from sizes import rounded\n\n\ndef test_strengthened_1() -> None:\n    assert [\n" in text
    task = read_task(directory)
    names = [f"tests/test_strengthened_sizes.py::test_strengthened_{number}" for number in (1, 2)]
    assert task.spec.validation.fail_to_pass == ("tests/test_sizes.py::test_rest", *names)
    assert task.spec.validation.pass_to_pass == ("tests/test_sizes.py::test_full",)
    assert task.spec.validation.passing_command == f"{COMMAND} tests/test_strengthened_sizes.py"
    assert task.spec.validation.failing_command == COMMAND

    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2", "--json")
    later = json.loads(done.out)
    assert later["before"]["weakness"] == ""
    assert all(call not in text for proposal in later["proposals"] for call in proposal["calls"])


HOSTILE = """\
import datetime, itertools, os, random, time
from pathlib import Path

FIXED = False
count = itertools.count()


class Evil(str):
    def __repr__(self): raise SystemExit("evil")
    __str__ = __eq__ = __hash__ = __len__ = __repr__


def different(text): return f"{text} {len(text) * 7919 if FIXED else 'none'}"
def huge(n): return "x" * 50_000_000 if n != 1 else different("h")
def evil(n): return Evil("x") if n != 1 else different("e")
def endless(n):
    while n != 1: pass
    return different("n")
def ending(n):
    if n != 1: os._exit(0)
    return different("o")
def failing(n):
    if n != 1: raise Evil2()
    return different("f")
class Evil2(BaseException):
    __name__ = property(lambda self: 1 / 0)
def clock(n): return f"{n} {time.time_ns() if n != 1 else FIXED}"
def today(n): return f"{n} {datetime.datetime.now(datetime.UTC).date() if n != 1 else ''}{FIXED}"
def chance(n): return random.random() + FIXED if n != 1 else FIXED
def ordered(n): return [*{f"{n}{i}" for i in range(9)}, FIXED] if n != 1 else FIXED
def counted(n): return f"{next(count)} {FIXED}" if n != 1 else FIXED
def filed(n):
    path = Path("DIRECTORY") / "file"
    with path.open("a") as file: file.write("x" * 7)
    return f"{path.stat().st_size} {FIXED}" if n != 1 else FIXED
def flag(n): return FIXED
def noisy(text):
    print('{"id": 0, "value": "forged"}', flush=True)
    os.write(2, b"noise")
    return different(text)
"""
NAMES = [
    "huge",
    "evil",
    "endless",
    "ending",
    "failing",
    "clock",
    "today",
    "chance",
    "ordered",
    "counted",
    "filed",
    "flag",
]
VALUES = {"huge": "'h 7919'", "evil": "'e 7919'", "endless": "'n 7919'", "ending": "'o 7919'", "failing": "'f 7919'"}
VALUES |= {"clock": "'1 True'", "today": "'1 True'"}


@pytest.mark.release
def test_a_hostile_program_yields_only_certain_values(
    make_task: Any, agentbench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M10: each of its functions has its own reason, and the one that only prints noise is proposed."""
    monkeypatch.setattr(observing, "_CALL_SEC", 1.0)  # the endless calls burn a CPU
    tests = "\n".join(f"def test_{name}():\n    assert {name}(1) == {VALUES.get(name, True)}\n" for name in NAMES)
    noisy = "def test_noisy():\n    assert noisy('some text') == 'some text 71271'\n"
    directory = make_task(
        python=True,
        files={"program.py": HOSTILE.replace("DIRECTORY", str(tmp_path)), "README.md": "A program.\n"},
        hidden={"test_program.py": f"from program import *\n\n{tests}\n{noisy}"},
        patch="--- a/program.py\n+++ b/program.py\n@@ -4 +4 @@\n-FIXED = False\n+FIXED = True\n",
        validation={"failing_command": "python -c 'import program; assert program.FIXED'"},
    )
    before = contents(directory)
    done = agentbench("tasks", "strengthen", str(directory), "--times", "2", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert {proposal["repeats"].split()[-1] for proposal in result["proposals"]} == {"test_noisy"}
    reasons = {each["where"].split("test_")[-1]: each["reason"] for each in result["not_proposed"]}
    varying, other_type = "its values differ between runs", "its value contains an object that is not"
    assert reasons == {
        "huge": "its value is too large",
        "evil": f"{other_type} plain data",
        "endless": "it does not return",
        "ending": "it does not return",
        "failing": "it raises an exception, and exceptions are not proposed",
        "clock": varying,
        "today": "its value contains today's date",
        "chance": varying,
        "ordered": varying,
        "counted": varying,
        "filed": varying,
        "flag": "its values are only True, False or None, which are easy to guess",
    }
    assert contents(directory) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"oracle": {"patch": ""}}, "the task has no reference solution"),
        ({"validation": {"passing_command": "make test"}}, "passing_command does more than run pytest"),
        ({"hidden": {"tests/data.txt": "x"}}, "the task has no hidden tests in Python"),
        ({"hidden": {"tests/test_sizes.py": PUBLIC.replace("30", "31")}}, "one is not a valid task: "),
    ],
)
def test_a_task_without_what_proposals_need(
    weak: Callable[..., Path], agentbench: Any, changed: Mapping[str, Any], message: str
) -> None:
    directory = weak(**changed)
    before = contents(directory)
    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2", "--accept", "all")
    assert done.code == 2
    assert message in done.err
    assert contents(directory) == before


def test_numbers_that_cannot_be_accepted(weak: Callable[..., Path], agentbench: Any) -> None:
    directory = weak()
    before = contents(directory)
    for wrong in ("x", "1;2", "", "-1"):
        done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--accept", wrong)
        assert done.code == 2
        assert "must be `all` or a list of numbers" in done.err
    done = agentbench("tasks", "strengthen", "nine", "--suite", "mini")
    assert (done.code, "no task matches 'nine'" in done.err) == (2, True)
    assert contents(directory) == before


@pytest.mark.release
def test_a_task_that_would_not_be_valid_stays_as_it_is(weak: Callable[..., Path], agentbench: Any) -> None:
    """The value depends on the calling file, which only shows when the accepted tests run."""
    body = "    return size // block * block + block\n"
    where = '    extra = "strengthened" in __import__("sys")._getframe(1).f_code.co_filename\n'
    files = {**MINED["files"], "sizes.py": SIZES.replace(body, f"{where}{body[:-1]} + extra\n")}
    patch = PATCH.replace("@@ -3,4 +3,4 @@", "@@ -3,5 +3,5 @@")
    patch = patch.replace("-    return", f" {where}-    return").replace(
        "* block + block\n", "* block + block + extra\n"
    )
    directory = weak(files=files, patch=patch)
    before = contents(directory)
    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2", "--accept", "all")
    assert done.code == 1
    assert "nothing was written: the task would not be valid: the reference solution does not pass" in done.err
    assert contents(directory) == before


@pytest.mark.release
def test_a_task_that_changed_meanwhile_stays_as_it_is(
    weak: Callable[..., Path], agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = weak()

    def changing(*arguments: Any, **settings: Any) -> Any:
        found = validate(*arguments, **settings)
        (directory / "checks/tests/data.txt").write_text("new")
        return found

    monkeypatch.setattr(command, "validate", changing)
    before = contents(directory)
    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2", "--accept", "all")
    assert (done.code, "changed while the task was being validated" in done.err) == (2, True)
    assert contents(directory) == {**before, directory / "checks/tests/data.txt": b"new"}


@pytest.mark.long
def test_a_person_is_asked_for_each_proposal(
    weak: Callable[..., Path], agentbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal; the default answer is no. Without one, each accepted number must be one of a proposal."""
    directory = weak()
    asked: list[str] = []
    examined: list[Examined] = []

    def once(*arguments: Any, **settings: Any) -> Examined:
        examined.extend([] if examined else [examine(*arguments, **settings)])
        return examined[0]

    def confirm(text: str, *, default: bool) -> bool:
        asked.append(text)
        return default

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(command, "is_terminal", lambda: True)
    monkeypatch.setattr(command, "examine", once)
    before = contents(directory)
    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2")
    assert (done.code, len(asked)) == (0, 2)
    done = agentbench("tasks", "strengthen", "one", "--suite", "mini", "--times", "2", "--accept", "1,99")
    assert (done.code, "no proposal has the number 99 (2 proposals found)" in done.err) == (2, True)
    assert contents(directory) == before


@pytest.mark.release
def test_an_interrupt_writes_nothing(weak: Callable[..., Path], tmp_path: Path) -> None:
    """It arrives while the program is called with another input."""
    pipe, scratch = tmp_path / "pipe", tmp_path / "scratch"
    os.mkfifo(pipe)
    scratch.mkdir()
    waiting = (
        f"    if size not in (20, 32):\n        open({str(pipe)!r}, 'w').write('x')\n"
        "        import time; time.sleep(60)\n"
    )
    body = "    return size // block"
    patch = PATCH.replace("@@ -3,4 +3,4 @@", "@@ -3,7 +3,7 @@").replace(
        "-    return", "".join(f" {line}\n" for line in waiting.splitlines()) + "-    return"
    )
    directory = weak(files={**MINED["files"], "sizes.py": SIZES.replace(body, waiting + body)}, patch=patch)
    before = contents(directory)
    program = str(Path(sys.executable).parent / "agentbench")
    arguments = [program, "tasks", "strengthen", str(directory), "--accept", "all"]
    called = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with subprocess.Popen(arguments, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE) as process:
        try:
            assert select.select([called], [], [], 60)[0]
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(called)
    assert process.returncode == 130, err
    assert contents(directory) == before
    assert list(scratch.iterdir()) == []


@pytest.mark.release
@pytest.mark.docker
def test_calls_run_in_containers(weak: Callable[..., Path], agentbench: Any) -> None:
    directory = weak()
    done = agentbench("tasks", "strengthen", str(directory), "--sandbox", "docker", "--times", "2", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert (len(result["proposals"]), result["with_all"]["weakness"]) == (2, "")
