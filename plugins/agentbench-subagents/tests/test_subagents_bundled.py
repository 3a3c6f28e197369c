"""Bundled tasks: the pack contains every file that the reference solution changes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbench_subagents.options import ContextPackerOptions
from agentbench_subagents.packer import ContextPacker

SUITE = Path(__file__).parents[3] / "tasks/custom-dev"
NAMES = ("durations-parse-units", "lintstack-profile-leak", "properties-backslash-roundtrip", "tillroll-credit-notes")


@pytest.mark.parametrize("name", NAMES)
def test_files_that_must_change_are_packed(name: str, workbench: Any, tmp_path: Path) -> None:
    """Three of the four fail with assertions, whose tracebacks only name a test."""
    task = SUITE / name
    repo = tmp_path / "repo"
    shutil.copytree(task / "repo", repo)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": "src", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout

    files = {str(path.relative_to(repo)): path.read_bytes() for path in repo.rglob("*.py")}
    with workbench.context(
        [], files=files, failing_command=f"printf %s '{done.stdout.replace(chr(39), '')}'"
    ) as double:
        made = ContextPacker(ContextPackerOptions()).packed(double.context)
        assert double.budget.steps <= 11
    changed = set(re.findall(r"^\+\+\+ b/(\S+)", (task / "solution.patch").read_text(), re.MULTILINE))
    assert changed
    assert changed <= {each.path for each in made.packed}
    assert made.tokens <= ContextPackerOptions().pack_tokens
