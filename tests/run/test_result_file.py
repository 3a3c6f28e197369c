"""The file in which tests say how they ended: the code under test can write to its directory."""

from __future__ import annotations

import os
from pathlib import Path

from agentbench_core.builtin.tests_scorer.results import read_result

REPORT = b"<testsuites/>"


def test_a_report(tmp_path: Path) -> None:
    """Read where it is a file."""
    (tmp_path / "junit.xml").write_bytes(REPORT)
    assert read_result(tmp_path / "junit.xml") == REPORT
    assert read_result(tmp_path / "junit.xml", at_most=3) == REPORT[:3]
    assert read_result(tmp_path / "absent.xml") is None


def test_something_else_in_its_place(tmp_path: Path) -> None:
    """H01, H06: a pipe would hang us, a link lead elsewhere; a directory or a socket is no report."""
    (tmp_path / "elsewhere.xml").write_bytes(REPORT)
    (tmp_path / "link.xml").symlink_to(tmp_path / "elsewhere.xml")
    os.mkfifo(tmp_path / "pipe.xml")
    (tmp_path / "directory.xml").mkdir()
    for name in ("link.xml", "pipe.xml", "directory.xml"):
        assert read_result(tmp_path / name) is None
