"""Normalized output drops what varies between equal runs, keeps what is meaningful, and takes linear time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from agentbench_core.values.normalize import normalize_failure, normalize_output

PLACED = {
    "object": ("<app.Store object at 0x7f3a5c0d1e20>", "<app.Store object at 0x7fe2110a9b40>"),
    "small address": ("<Store at 0x55a1b2c3>", "<Store at 0x55a1b2d7>"),
    "id": ("id 140234234234234", "id 139876543210987"),
    "thread": ("<Thread(Thread-1, started 140012345678901)>", "<Thread(Thread-1, started 140099945678901)>"),
    "pid": ("pid=12 PID 3456: pid: 7", "pid=991 PID 8: pid: 12345"),
    "process": ("in process 1234: killed", "in process 77: killed"),
    "popen": ("subprocess 1234 is still running", "subprocess 777 is still running"),
    "valgrind": ("==1234==ERROR: heap", "==99==ERROR: heap"),
    "tempfile": ("open('/tmp/tmpab12cd34/a.txt')", "open('/tmp/tmpzz9_abcd/a.txt')"),
    "mktemp": ("in /tmp/tmp.aB3dE5fG7h", "in /tmp/tmp.Zz3dE5fG7h"),
    "escaped": ('"\\n/tmp/tmp.aB3dE5fG7h/x"', '"\\n/tmp/tmp.Zz3dE5fG7h/x"'),
    "bare name": ("['tmpab12cd34', 'b']", "['tmpzz12cd34', 'b']"),
    "pytest": ("/tmp/pytest-of-root/pytest-3/test_a0/f", "/tmp/pytest-of-root/pytest-12/test_a0/f"),
    "macos": ("/private/var/folders/x1/y_z0/T/tmpab12cd34/f", "/private/var/folders/x1/y_z0/T/tmpzz12cd34/f"),
    "ours": (
        "/tmp/agentbench-local-a1b2c3d4/fork-12/workspace/app.py",
        "/somewhere/else/agentbench-local-zzzzzzz1/fork-3/workspace/app.py",
    ),
    "our tmp": ("in /tmp/agentbench-local-a1b2c3d4/x-12/tmp/tmp.aB3dE5fG7h", "in /tmp/tmp.Zz3dE5fG7h"),
    "bare mktemp": ("/scratch/tmp.aB3dE5fG7h tmp.aB3dE5fG7h", "/scratch/tmp.Zz3dE5fG7h tmp.aB3dE5fG7z"),
    "flag": ("cc -I/tmp/tmpab12cd34/inc", "cc -I/tmp/tmpzz12cd34/inc"),
    "pytest line": ("===== 1 failed in 0.12s =====", "==== 1 failed in 10.12s ====="),
    "slow pytest": ("===== 2 failed, 1 passed in 61.12s (0:01:01) =====", "= 2 failed, 1 passed in 59.99s ="),
    "quiet pytest": ("1 failed in 0.12s", "1 failed in 3.40s"),
    "slowest": ("0.12s call     test_a.py::test_b", "1.50s call     test_a.py::test_b"),
    "unittest": ("Ran 3 tests in 0.001s", "Ran 3 tests in 1.201s"),
    "go": ("--- FAIL: TestA (0.00s)\nFAIL\tx/y\t0.003s", "--- FAIL: TestA (1.20s)\nFAIL\tx/y\t1.203s"),
    "cargo": ("test result: FAILED. 1 failed; finished in 0.00s", "test result: FAILED. 1 failed; finished in 0.31s"),
}
"""Removed by both normalizers."""

TIMED = {
    "ls": ("-rw-r--r-- 1 root root 12 Nov 22 08:46 app.py", "-rw-r--r-- 1 root root 12 Dec  2 19:51 app.py"),
    "old ls": ("-rw-r--r-- 1 root root 12 Nov 22  2024 app.py", "-rw-r--r-- 1 root root 12 Nov 22 09:51 app.py"),
    "date": ("Sun Nov 22 09:27:39 UTC 2026", "Mon Dec  3 19:07:41 UTC 2027"),
    "asctime": ("Sun Nov 22 09:27:39 2026", "Mon Nov 23 09:27:41 2026"),
    "mail": ("Date: Sun, 22 Nov 2026 09:27:39 +0000", "Date: Mon, 2 Nov 2026 09:27:39 GMT"),
    "iso": ("at 2025-12-15T18:05:12.123+01:00", "at 2025-12-16 19:05:12Z"),
    "compact": ("log-20251215T180512Z.txt", "log-20251216T080000Z.txt"),
    "clock": ("18:05:12 start", "8:05:13.5 start"),
    "epoch": ('"timestamp": 1763800000.12', '"timestamp": 1763800999.7712'),
    "duration": ("took 3 ms, 1.5 seconds", "took 12 ms, 0.5 s"),
    "time": ("real\t0m0.512s\nuser\t0m0.1s", "real\t1m0.412s\nuser\t0m0.2s"),
    "json": ('{"duration_ms": 12, "totalElapsed": 3}', '{"duration_ms": 9, "totalElapsed": 14}'),
    "repr": ("{'elapsed': 0.1234}", "{'elapsed': 2e-05}"),
    "pip": ("x.whl (12 kB) 1.2 MB/s eta 0:00:01", "x.whl (12 kB) 300 kB/s eta 0:00:07"),
    "port": ("127.0.0.1:43219 ('127.0.0.1', 43219) [::1]:50000", "127.0.0.1:51002 ('127.0.0.1', 51002) [::1]:50001"),
    "seed": ("Using --randomly-seed=3418220", "Using --randomly-seed=991"),
    "uuid": ("7f9c24e8-3b12-4f0a-9c1d-0a1b2c3d4e5f", "11111111-3B12-4f0a-9c1d-0a1b2c3d4e5f"),
    "ruler": ("______ test_a ______", "_____ test_a _____"),
    "temporary": ("/tmp/build/x.o", "/tmp/other/x.o"),
}
"""Removed for replay only: a change of the program could show in them."""

MEANT = {
    "numbers": ("assert 3 == 4", "assert 3 == 5"),
    "hex": ("assert 0xdeadbeef == 0xcafebabe", "assert 0xdeadbeee == 0xcafebabe"),
    "field": ('{"time": 5, "seconds": 3}', '{"time": 7, "seconds": 3}'),
    "path": ("FileNotFoundError: /srv/cache/a.txt", "FileNotFoundError: /srv/other/a.txt"),
    "file": ("FileNotFoundError: /tmp/x/a.txt", "FileNotFoundError: /tmp/x/b.txt"),
    "relative": ("see src/tmp/a1/x.py", "see src/tmp/b1/x.py"),
    "day": ("'2024-02-29' != '2024-03-01'", "'2024-03-01' != '2024-03-01'"),
    "port": ("localhost:8080", "localhost:9090"),
    "version": ("1.2.3", "1.2.4"),
}
"""Removed by neither normalizer."""


def cases(pairs: dict[str, tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("one", "other"), pairs.values(), ids=pairs.keys())


@cases(PLACED)
def test_values_that_vary_between_runs_are_removed(one: str, other: str) -> None:
    """Both normalizers remove it, alone and between other lines."""
    for read in (normalize_output, normalize_failure):
        assert read(one) == read(other)
        assert read(f"a\n{one}\nb") == read(f"a\n{other}\nb") != read("a\n\nb")


@cases(TIMED)
def test_normalize_output_removes_more_than_normalize_failure(one: str, other: str) -> None:
    """Times, ports and similar values are removed for replay, but kept in failures."""
    assert normalize_output(f"a\n{one}\nb") == normalize_output(f"a\n{other}\nb")
    assert normalize_failure(one) != normalize_failure(other)


@cases(MEANT)
def test_meaningful_differences_are_kept(one: str, other: str) -> None:
    """Texts with different meanings remain different."""
    assert normalize_output(one) != normalize_output(other)
    assert normalize_failure(one) != normalize_failure(other)


def test_failures_keep_computed_values() -> None:
    """Durations and dates that a program computes are part of its result."""
    for one, other in [
        ("AssertionError: 90 s != 5400 s", "AssertionError: 5400 s != 5400 s"),
        ("'2024-02-29 00:00' != '2024-03-01 00:00'", "'2024-03-01 00:00' != '2024-03-01 00:00'"),
        ("process 3 items failed", "process 4 items failed"),
        ("retry in 5s", "retry in 10s"),
        ("-----", "------"),
    ]:
        assert normalize_failure(one) != normalize_failure(other)


@pytest.mark.parametrize(
    "cut",
    [
        lambda text: f"{text[:3000]}\n[... {len(text) - 6000} characters left out ...]\n{text[-3000:]}",
        lambda text: f"Run it:\n\n{text[:2000]}\n[...]\n{text[-4000:]}",
    ],
    ids=["run", "loop"],
)
@pytest.mark.parametrize("line", ["a " * 9000, "some words that are said again\n" * 400], ids=["one line", "lines"])
def test_shifted_truncation_is_normalized(line: str, cut: Callable[[str], str]) -> None:
    """Longer durations before a cut shift it by a few characters."""
    texts = [cut(f"took {took} s\n{line}\ntook {took} s again\n") for took in ("1", "12.5", "10000")]
    assert len(set(map(normalize_output, texts))) == 1
    other = cut(f"took 1 s\n{line}\ntook 1 s, and once more\n")
    assert normalize_output(other) != normalize_output(texts[0])


ATOMS = [
    *("/a", "/", "/tmp/", "/tmp", "/agentbench-a", "/agentbench-aaaaaaaa", "a-", "-a/", "tmp", "tmp_", "pytest-1"),
    *("1", "1.", "1:", "1 ", "1m", "11:11:11.", "1e-", "0x", "0xf", "f", "139", "20251215T", "2025-12-15T18:05:12."),
    *('"_duration', '"a', "'a': ", '"time":', "Mon, ", "Nov  ", "Nov 22 08:46", "in 1.", "in 0.12s (", "pid ", "pid"),
    *(
        "thread=",
        "process 1",
        "(Thread-",
        "(Thread-a (",
        "started ",
        "seed",
        "seed=",
        "127.0.0.1",
        "::1",
        "1/s",
        "kB/s",
    ),
    *("=", "= ", "=\n", "== a", "--- FAIL: ", "--- FAIL: a", "ok  \t", "ok  \ta", "FAIL\t", "[", "[... 1 ", "[1 "),
    *("[... 1 bytes left out ...]", "[1 characters of output dropped", "\n[...]", "\\n", "\\n1", "\n", " ", "  ", "\t"),
    *("é", "٣", "\ud800", "a_", "a,", "]", "aaaaaaaa-"),
]


@pytest.mark.parametrize("atom", ATOMS, ids=ascii)
def test_time_is_linear_in_the_text(atom: str) -> None:
    """32 times the text takes about 32 times as long; a quadratic rule would take 1024 times."""
    ratios = (_cpu_seconds(atom, 64_000) / _cpu_seconds(atom, 2_000) for _ in range(5))
    assert any(ratio < 100 for ratio in ratios)


def _cpu_seconds(atom: str, size: int) -> float:
    """CPU seconds of this thread, to be independent of the load of the machine."""
    text = (atom * size)[:size]
    started = time.thread_time()
    normalize_output(text)
    return time.thread_time() - started


@given(st.lists(st.one_of(st.sampled_from(ATOMS), st.text(max_size=5)), max_size=30).map("".join))
def test_arbitrary_text_does_not_raise(text: str) -> None:
    """Odd text does not raise, and does not affect the lines after it."""
    assert isinstance(normalize_output(text), str)
    assert normalize_failure(f"{text}\nwords\n").endswith("\nwords\n")


@given(st.text(st.sampled_from("abcxyz .,:;()-_='\"\n")))
def test_words_are_unchanged(text: str) -> None:
    """Text without numbers and paths is unchanged."""
    assert normalize_failure(text) == text
