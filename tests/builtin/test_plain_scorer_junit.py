"""Results that pytest writes itself, as used by the plain scorer: ids are those of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from agentbench_core.builtin import plain_scorer
from agentbench_core.builtin.plain_scorer import junit_outcomes

BASE = "class TestBase:\n    def test_a(self): pass\n"
MORE = "from test_base import TestBase\nclass TestMore(TestBase):\n    def test_b(self): assert 0\n"
ONLY = "from test_base import TestBase\n"
ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the plugins of this environment, which take five times as long to load as pytest itself."""


def test_inherited_tests(tmp_path: Path) -> None:
    """They belong to the file in which they were collected, not to the one that defines them."""
    (tmp_path / "test_base.py").write_text(BASE)
    (tmp_path / "test_more.py").write_text(MORE)
    (tmp_path / "test_only.py").write_text(ONLY)
    command = [sys.executable, "-m", "pytest", "-v", "--junitxml=x.xml", "-o", "junit_family=xunit1"]
    said = subprocess.run(command, cwd=tmp_path, env=ALONE, capture_output=True, text=True).stdout
    found = junit_outcomes((tmp_path / "x.xml").read_bytes(), {"test_only.py"})
    assert found == {
        "test_base.py::TestBase::test_a": "passed",
        "test_more.py::TestBase::test_a": "passed",
        "test_more.py::TestMore::test_a": "passed",
        "test_more.py::TestMore::test_b": "failed",
        "test_only.py::TestBase::test_a": "passed",
    }
    assert all(f"{name} " in said for name in found)


@pytest.mark.parametrize("encoding", ["nothing-of-that-name", "utf-7", "utf-32", ""])
def test_unknown_encodings_give_no_results(encoding: str) -> None:
    """The code under test can write the file, too, so no content may break the scorer."""
    assert junit_outcomes(f'<?xml version="1.0" encoding="{encoding}"?><testsuite/>'.encode()) == {}


def test_many_files_are_processed_in_linear_time() -> None:
    """Files are looked up, not compared pairwise, which would take hours for the largest reports."""
    cases = "".join(f'<testcase file="t{n}.py" classname="t{n}.TestX" name="test_a"/>' for n in range(20_000))
    found = junit_outcomes(f"<testsuite>{cases}</testsuite>".encode())
    assert len(found) == 20_000
    assert found["t19999.py::TestX::test_a"] == "passed"
    assert junit_outcomes(f'<t><testcase classname="{"a." * 100_000}" name="b"/></t>'.encode())


def test_report_with_too_many_tests_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a report is hostile: it is ignored, and parsing it needs little memory."""
    most = plain_scorer.MOST_TESTS // 20
    monkeypatch.setattr(plain_scorer, "MOST_TESTS", most)
    case = b'<testcase classname="a.b" name="t"/>'
    data = b"<testsuites>" + case * (most * 8) + b"</testsuites>"
    tracemalloc.start()
    try:
        assert junit_outcomes(data) == {}
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()
