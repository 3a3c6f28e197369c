"""The channel of the test recorder: which lines are accepted, and which processes can write them."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_core.plugin.scorer import read_result
from agentbench_docker.options import DockerOptions
from agentbench_docker.provider import DockerProvider
from agentbench_integrity.scorer import results as reading
from agentbench_integrity.scorer.inside import recorder as recording
from agentbench_integrity.scorer.results import Results, parse_results
from tests.integrity.benches import Bench

KEY = bytes(range(32))
INSIDE = Path(recording.__file__).parent
A, B = "checks/test_a.py::test_one", "checks/test_a.py::test_two"


def line(number: int, key: bytes = KEY, **said: Any) -> bytes:
    """A line as the recorder writes it."""
    text = b"%d %s" % (number, json.dumps(said).encode())
    return hmac.digest(key, text, "sha256").hex()[:32].encode() + b" " + text + b"\n"


def passed(number: int, test: str) -> bytes:
    return line(number, id=test, when="call", outcome="passed", sec=0.5)


HONEST = [line(0, test=A, records=[[3, "x"], [4, True, True]]), passed(1, A), passed(2, B), line(3, end=1, problem="")]


def read(*lines: bytes) -> Results:
    return parse_results(b"".join(lines), KEY)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_valid_session() -> None:
    found = read(*HONEST)
    assert found.tests == {A: "passed", B: "passed"}
    assert found.records == {A: [[3, "x"], [4, True, True]]}
    assert found.seconds == {A: 0.5, B: 0.5}
    assert (found.end, found.forged, found.damaged, found.problem) == (1, False, "", "")


@pytest.mark.parametrize("order", [each for each in itertools.permutations(range(4)) if each != (0, 1, 2, 3)])
def test_another_order(order: tuple[int, ...]) -> None:
    """Reordered lines are reported as damaged."""
    assert read(*(HONEST[index] for index in order)).damaged


@pytest.mark.parametrize("gone", range(3))
def test_a_missing_line(gone: int) -> None:
    assert "missing" in read(*HONEST[:gone], *HONEST[gone + 1 :]).damaged


@pytest.mark.parametrize("again", range(4))
def test_a_replayed_line(again: int) -> None:
    found = read(*HONEST, HONEST[again])
    assert "duplicated" in found.damaged
    assert found.tests == {A: "passed", B: "passed"}


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace(b'"x"', b'"y"'),
        lambda text: b"0" * 32 + text[32:],
        lambda text: text[:33] + b"7" + text[34:],
        lambda text: line(0, bytes(32), test=A, records=[]),
    ],
)
def test_a_line_without_the_key(edit: Callable[[bytes], bytes]) -> None:
    """An edited or forged line is ignored and marks the session as forged."""
    found = read(edit(HONEST[0]), *HONEST[1:])
    assert found.forged
    assert not found.records


@pytest.mark.parametrize(
    "text", [b"hello\n", b"\n", b"\0\n", b"0" * 32 + b" 0 {}x\n", b"0" * 31 + b" 0 {}\n", b" " * 99 + b"\n"]
)
def test_malformed_line_is_damage(text: bytes) -> None:
    """Stray output is damage, but no proof of forgery."""
    found = read(HONEST[0], text, *HONEST[1:])
    assert (found.forged, found.damaged) == (False, "a line is incomplete")
    assert found.end == 1


@pytest.mark.parametrize("length", [1, 20, 40, len(HONEST[3]) - 1])
def test_a_last_line_that_is_not_complete(length: int) -> None:
    found = read(*HONEST[:3], HONEST[3][:length])
    assert (found.forged, found.damaged) == (False, "the last line is incomplete")
    assert found.end is None


@pytest.mark.parametrize(
    "said",
    [
        {"id": 3, "when": "call", "outcome": "passed"},
        {"id": A, "when": "call", "outcome": ["passed"]},
        {"test": A, "records": {"a": 1}},
        {"test": A, "records": [1, [], ["x", 1], [True, 1], [1], [1, 2, 3, 4]]},
        {"end": "1"},
        {"end": True},
        {"collect": 5},
        {},
    ],
)
def test_invalid_content_is_ignored(said: dict[str, Any]) -> None:
    """The program shares the process, so it may write such a line with the key."""
    found = read(line(0, **said))
    assert not found.tests
    assert not any(found.records.values())
    assert (found.end, found.forged) == (None, False)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_arbitrary_bytes_add_no_results(data: bytes, place: int) -> None:
    """Arbitrary bytes do not raise, and add no result without the key."""
    whole = b"".join(HONEST)
    found = parse_results(whole[:place] + data + whole[place:], KEY)
    assert set(found.tests) <= {A, B}
    assert set(found.records) <= {A}


def test_large_and_deep_lines() -> None:
    deep = b'{"test": "a", "records": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    huge = b'{"end": ' + b"9" * 10_000 + b"}"
    found = b"".join(
        hmac.digest(KEY, text, "sha256").hex()[:32].encode() + b" " + text + b"\n"
        for text in (b"0 " + deep, b"1 " + huge, b"2 {}")
    )
    assert parse_results(found, KEY).damaged == ""


@pytest.mark.parametrize("kind", ["link", "directory", "pipe", "missing"])
def test_result_that_is_not_a_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    (tmp_path / "other").write_text("x")
    if kind == "link":
        path.symlink_to("other")
    elif kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    assert read_result(path, at_most=10) is None


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    (tmp_path / "results").write_bytes(b"x" * 100)
    assert read_result(tmp_path / "results", at_most=10) == b"x" * 10


# --- writing ----------------------------------------------------------------------------------------------------------

PROLOGUE = f"""
import json, multiprocessing, os, subprocess, sys, threading
sys.path.insert(0, {str(INSIDE)!r})
import recorder
from recorder import Recorder


class Channel(recorder.Channel):
    def write(self, line):
        super().write(json.dumps(line))


def child(channel, number):
    channel.write({{"child": number}})


if __name__ == "__main__":
    channel = Channel(".", "out")
"""


def written(tmp_path: Path, body: str) -> tuple[list[Any], Results]:
    """The lines that a program writes to its channel, and the parsed results."""
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "program.py").write_text(PROLOGUE + "".join(f"    {text}\n" for text in dedent(body).splitlines()))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    data = (tmp_path / "out").read_bytes()
    found = parse_results(data, KEY)
    assert not found.forged
    assert not found.damaged
    return [json.loads(text.split(b" ", 2)[2]) for text in data.splitlines()], found


def test_lines_are_written_at_once_and_in_order(tmp_path: Path) -> None:
    lines, _ = written(tmp_path, "for n in range(3): channel.write({'n': n, 'text': 'é\\ud800'})\nos._exit(0)")
    assert lines == [{"n": number, "text": "é\ud800"} for number in range(3)]


@pytest.mark.parametrize(
    "body",
    [
        "pid = os.fork()\nif not pid:\n    channel.write({'child': 1})\n    os._exit(0)\nos.waitpid(pid, 0)",
        "if not os.fork():\n    if not os.fork():\n        channel.write({'child': 1})\n    os._exit(0)\nos.wait()",
        "pid, fd = os.forkpty()\nif not pid:\n    channel.write({'child': 1})\n    os._exit(0)\nos.waitpid(pid, 0)",
        "started = multiprocessing.get_context('fork').Process(target=child, args=(channel, 1))\n"
        "started.start()\nstarted.join()\nassert started.exitcode == 0",
        "subprocess.run([sys.executable, '-c', ''], preexec_fn=lambda: channel.write({'child': 1}), check=True)",
    ],
)
def test_a_forked_child_writes_nothing(body: str, tmp_path: Path) -> None:
    """The parent can still write."""
    lines, _ = written(tmp_path, f"channel.write({{'n': 1}})\n{body}\nchannel.write({{'n': 2}})")
    assert lines == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_started_process_cannot_be_given_the_channel(method: str, tmp_path: Path) -> None:
    body = f"""
    try:
        multiprocessing.get_context({method!r}).Process(target=child, args=(channel, 1)).start()
    except TypeError:
        channel.write({{"refused": 1}})
    """
    assert written(tmp_path, body)[0] == [{"refused": 1}]


def test_a_child_has_neither_key_nor_descriptor(tmp_path: Path) -> None:
    """Neither a forked nor a started child has a descriptor of the results, and the key is wiped."""
    body = """
    def look():
        files = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]
        return any(each.endswith("/out") for each in files), any(channel._key), channel._out
    assert look() == (True, True, channel._out)
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, json.dumps(look()).encode())
        os._exit(0)
    os.wait()
    channel.write({"forked": json.loads(os.read(reader, 99))})
    command = "import os; print([os.path.realpath('/proc/self/fd/' + each) for each in os.listdir('/proc/self/fd')])"
    started = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, close_fds=False)
    channel.write({"started": "/out" in started.stdout})
    channel.write({"key": os.path.exists("key")})
    """
    lines, _ = written(tmp_path, body)
    assert lines == [{"forked": [False, False, -1]}, {"started": False}, {"key": False}]


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    """This holds even while another thread forks."""
    body = """
    def work(number):
        for turn in range(50):
            channel.write({"n": [number, turn, "x" * 5000]})
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads: thread.start()
    for _ in range(10):
        pid = os.fork()
        if not pid:
            channel.write({"child": 1})
            os._exit(0)
        os.waitpid(pid, 0)
    for thread in threads: thread.join()
    """
    lines, _ = written(tmp_path, body)
    assert sorted(each["n"][:2] for each in lines) == [[number, turn] for number in range(4) for turn in range(50)]


def test_nothing_is_written_after_an_incomplete_line(tmp_path: Path) -> None:
    """Nothing follows an incomplete line, so the host detects it."""
    body = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    body += "for _ in range(99): channel.write({'x': 'y' * 90})"
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "program.py").write_text(PROLOGUE + "".join(f"    {text}\n" for text in body.splitlines()))
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=60)
    found = parse_results((tmp_path / "out").read_bytes(), KEY)
    assert (found.forged, found.damaged) == (False, "the last line is incomplete")


# --- a session of pytest ----------------------------------------------------------------------------------------------

TESTS = """
import multiprocessing, os, subprocess, sys, threading

import _agentbench
import early
import pytest

_agentbench.value(90, "while it is collected")


def key_of(pid="self"):
    return [open(f"/proc/{pid}/{name}", "rb").read() for name in ("environ", "cmdline")]


def test_the_key_is_nowhere(key_digest):
    import hashlib
    assert early.RESULTS == [None, None]
    said = [*key_of(), *map(os.fsencode, os.environ.values()), *map(os.fsencode, sys.argv)]
    inputs = os.path.dirname(open("/proc/self/cmdline").read().split(chr(0))[-2])
    said += [open(os.path.join(inputs, name), "rb").read() for name in os.listdir(inputs)]
    for data in said:
        windows = {data[i : i + 32] for i in range(len(data))}
        assert not any(hashlib.sha256(each).hexdigest() == key_digest for each in windows)
    assert not [name for name in os.environ if "AGENTBENCH" in name]
    assert sys.argv[1:] == ["checks", "-p", "no:cacheprovider"]


def test_the_name_of_the_test_is_not_told():
    assert "PYTEST_CURRENT_TEST" not in os.environ
    assert b"PYTEST_CURRENT_TEST" not in subprocess.run(["env"], capture_output=True).stdout


def test_children():
    _agentbench.value(1, "before")
    if not os.fork():
        _agentbench.value(2, "child")
        sys.modules["_agentbench"].overflow([[2, "child"]])
        os._exit(0)
    os.wait()
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=early.record)
        process.start()
        process.join()
    subprocess.run([sys.executable, "-c", "import early; early.record()"], capture_output=True)
    _agentbench.value(3, "after")


def test_a_forked_child_that_goes_on():
    if not os.fork():
        _agentbench.value(2, "child")
        pytest.exit("in the child")
    os.wait()


def test_threads():
    threads = [threading.Thread(target=_agentbench.value, args=(4, "x" * 9000)) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestPhases:
    @pytest.fixture(autouse=True)
    def around(self):
        _agentbench.value(5, "set-up")
        yield
        _agentbench.value(7, "teardown")

    def test_it(self):
        _agentbench.value(6, "call")


def test_an_odd_text():
    raise ValueError("\\udc80 \\0 \\ud800")
"""
EARLY = """
import os, sys

def place():
    # the directory of the results, which an open file leads to
    found = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]
    return next(os.path.dirname(each) for each in found if each.endswith("/outcomes.jsonl"))

def record():
    import _agentbench
    _agentbench.value(2, "child")

RESULTS = []
if "pytest" in sys.modules and "_agentbench" in sys.modules:
    RESULTS = [os.environ.get("AGENTBENCH_RESULTS"), os.path.exists(place() + "/key") or None]
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, Any], Results]:
    """Run the runner on a small project; return its output and results."""
    root = tmp_path_factory.mktemp("session")
    for name in ("inputs", "taken", "work/checks"):
        (root / name).mkdir(parents=True)
    key = secrets.token_bytes(32)
    (root / "taken/key").write_bytes(key)
    for name in ("runner.py", "recorder.py"):
        (root / "inputs" / name).write_bytes((INSIDE / name).read_bytes())
    plan = {"arguments": ["checks", "-p", "no:cacheprovider"], "canaries": "checks/test_canaries.py", "path": [""]}
    (root / "inputs/plan.json").write_text(json.dumps({**plan, "variables": {}, "allowed": None}))
    (root / "work/early.py").write_text(EARLY)
    (root / "work/conftest.py").write_text(
        f"import early, pytest\n@pytest.fixture\ndef key_digest():\n    return {hashlib.sha256(key).hexdigest()!r}\n"
    )
    (root / "work/checks/test_it.py").write_text(TESTS)
    (root / "work/checks/test_canaries.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    done = subprocess.run(
        [sys.executable, "-s", "-B", str(root / "inputs/runner.py")],
        cwd=root / "work",
        env={
            "PATH": "/usr/bin:/bin",
            "AGENTBENCH_RESULTS": str(root / "taken"),
            "AGENTBENCH_INPUTS": str(root / "inputs"),
            "PYTHONSAFEPATH": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert sorted(path.name for path in (root / "taken").iterdir()) == ["outcomes.jsonl"]
    return {"out": done.stdout, "code": done.returncode}, parse_results(
        (root / "taken/outcomes.jsonl").read_bytes(), key
    )


def records_of(found: Results, test: str) -> list[Any]:
    return [record for name, each in found.records.items() if name.endswith(f"::{test}") for record in each]


@pytest.mark.long
def test_session_does_not_expose_the_key_or_test_name(session: tuple[Mapping[str, Any], Results]) -> None:
    """The key is deleted before the project is imported and is not exposed elsewhere; nor is the test's name."""
    said, found = session
    for test in ("test_the_key_is_nowhere", "test_the_name_of_the_test_is_not_told"):
        assert found.tests[f"checks/test_it.py::{test}"] == "passed", said["out"]


def test_child_processes_record_nothing(session: tuple[Mapping[str, Any], Results]) -> None:
    """Child processes record nothing, however they were started."""
    said, found = session
    assert found.tests["checks/test_it.py::test_children"] == "passed", said["out"]
    assert records_of(found, "test_children") == [[1, "before"], [3, "after"]]
    assert records_of(found, "test_a_forked_child_that_goes_on") == []
    assert (found.forged, found.damaged, found.end, said["code"]) == (False, "", 1, 1)


def test_records_of_threads_and_phases(session: tuple[Mapping[str, Any], Results]) -> None:
    _, found = session
    assert records_of(found, "test_threads") == [[4, "x" * 9000]] * 60
    assert records_of(found, "test_it") == [[5, "set-up"], [6, "call"], [7, "teardown"]]
    assert not any(record[0] == 90 for each in found.records.values() for record in each)


def test_texts_of_failures(session: tuple[Mapping[str, Any], Results]) -> None:
    _, found = session
    assert found.tracebacks["checks/test_it.py::test_an_odd_text"].encode("utf-8", "backslashreplace")
    assert found.tests["checks/test_canaries.py::test_bad"] == "failed"
    assert found.tests["checks/test_canaries.py::test_good"] == "passed"


# --- in a container ---------------------------------------------------------------------------------------------------

CURIOUS = """
import ctypes, os


def denied(act):
    try:
        act()
    except OSError:
        return True
    return False


def attached(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
        if libc.ptrace(request, pid, 0, 0) == 0:
            return
    raise OSError


def look():
    parent = os.getppid()
    looks = [
        lambda: open(f"/proc/{parent}/mem", "rb"),
        lambda: open(f"/proc/{parent}/environ", "rb").read(),
        lambda: os.listdir(f"/proc/{parent}/fd"),
        lambda: open(f"/proc/{parent}/maps").read(),
        lambda: attached(parent),
        *[lambda fd=fd: open(f"/proc/{parent}/fd/{fd}", "ab") for fd in range(30)],
        lambda: os.close(os.pidfd_open(parent)) or getfd(parent),
    ]
    return [number for number, act in enumerate(looks) if not denied(act)]


def getfd(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(438, os.pidfd_open(pid), 3, 0) < 0:
        raise OSError


def test_children_cannot_look_into_the_tests(tmp_path):
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, repr(look()).encode())
        os._exit(0)
    os.wait()
    assert os.read(reader, 999) == b"[]"
"""


@pytest.mark.long
@pytest.mark.docker
def test_a_child_cannot_look_into_the_process_of_the_tests(tmp_path: Path) -> None:
    """It can neither read memory or descriptors, nor attach to the process."""
    provider = DockerProvider(DockerOptions())
    with contextlib.closing(provider):
        bench = Bench(tmp_path, provider, files={"adding.py": ""}, hidden={"checks/test_curious.py": CURIOUS})
        session = bench.session(solved=True)
    assert session.results is not None
    assert session.results.tests["checks/test_curious.py::test_children_cannot_look_into_the_tests"] == "passed", (
        session.result.stdout.text
    )


def test_too_many_tests_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real projects have some ten thousand tests, and each parsed line takes many times its size in memory."""
    monkeypatch.setattr(reading, "MAX_TESTS", 50)
    lines = [line(number, id=f"t{number}", when="call", outcome="passed", sec=0.1) for number in range(52)]
    assert "too many tests" not in read(*lines[:51]).damaged
    assert "too many tests" in read(*lines).damaged
