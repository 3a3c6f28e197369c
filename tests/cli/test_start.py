"""The command starts fast: heavy modules are not imported, even with all plugins of this repository installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "httpx",
    "numpy",
    "scipy",
    "pydantic",
    "python_on_whales",
    "rich",
    "tabulate",
    "pytest",
    "jinja2",
    "requests",
    "detect_secrets",
)

PROBE = """
import sys
from agentbench_core.cli.main import main
try:
    main({arguments!r})
except SystemExit as stop:
    assert not stop.code, stop.code
heavy = sorted(set({heavy!r}) & {{name.partition(".")[0] for name in sys.modules}})
print("HEAVY", heavy)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["plugins", "list"], ["tasks", "schema"]])
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    """Checked in a separate process, since this one has imported everything."""
    code = PROBE.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_importing_the_core_has_no_side_effects() -> None:
    """No output, no file, no thread, no signal handler."""
    code = (
        "import sys, threading, signal; before = signal.getsignal(signal.SIGINT); import agentbench_core; "
        "assert threading.active_count() == 1; assert signal.getsignal(signal.SIGINT) is before; "
        "assert 'click' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
