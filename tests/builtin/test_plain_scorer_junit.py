"""Results that pytest wrote itself, in the plain mode: ids are those that pytest uses."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from agentbench_core.builtin import plain_scorer
from agentbench_core.builtin.plain_scorer import outcomes

BASE = "class TestBase:\n    def test_a(self): pass\n"
MORE = "from test_base import TestBase\nclass TestMore(TestBase):\n    def test_b(self): assert 0\n"
ONLY = "from test_base import TestBase\n"
ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Plugins of this environment take five times as long to load as pytest itself."""


def test_inherited_tests(tmp_path: Path) -> None:
    """They are defined in one file, and belong to the one in which they were collected."""
    (tmp_path / "test_base.py").write_text(BASE)
    (tmp_path / "test_more.py").write_text(MORE)
    (tmp_path / "test_only.py").write_text(ONLY)
    command = [sys.executable, "-m", "pytest", "-v", "--junitxml=x.xml", "-o", "junit_family=xunit1"]
    said = subprocess.run(command, cwd=tmp_path, env=ALONE, capture_output=True, text=True).stdout
    found = outcomes((tmp_path / "x.xml").read_bytes(), {"test_only.py"})
    assert found == {
        "test_base.py::TestBase::test_a": "passed",
        "test_more.py::TestBase::test_a": "passed",
        "test_more.py::TestMore::test_a": "passed",
        "test_more.py::TestMore::test_b": "failed",
        "test_only.py::TestBase::test_a": "passed",
    }
    assert all(f"{name} " in said for name in found)


@pytest.mark.parametrize("encoding", ["nothing-of-that-name", "utf-7", "utf-32", ""])
def test_an_encoding_that_nobody_knows(encoding: str) -> None:
    """The code under test can write the file, too: nothing in it breaks the scorer."""
    assert outcomes(f'<?xml version="1.0" encoding="{encoding}"?><testsuite/>'.encode()) == {}


def test_as_many_files_as_tests() -> None:
    """Each is looked up, and not held against all others: that would take hours for a file of the largest size."""
    cases = "".join(f'<testcase file="t{n}.py" classname="t{n}.TestX" name="test_a"/>' for n in range(20_000))
    found = outcomes(f"<testsuite>{cases}</testsuite>".encode())
    assert len(found) == 20_000
    assert found["t19999.py::TestX::test_a"] == "passed"
    assert outcomes(f'<t><testcase classname="{"a." * 100_000}" name="b"/></t>'.encode())


def test_a_report_of_too_many_tests_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is hostile; and only as much of it is read as takes little memory."""
    most = plain_scorer.MOST_TESTS // 20
    monkeypatch.setattr(plain_scorer, "MOST_TESTS", most)
    case = b'<testcase classname="a.b" name="t"/>'
    data = b"<testsuites>" + case * (most * 8) + b"</testsuites>"
    tracemalloc.start()
    try:
        assert outcomes(data) == {}
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()
