"""Runs pytest in the sandbox, with the checks of the verdict beside the tests. Needs nothing but pytest, 7 or newer.

Code under test shares this process, so nothing here can be kept from it: what it does has to be hard to forge. This
file and the plan beside it cannot be written from the sandbox. pytest is imported before anything of the workspace
can be. No pathlib and no typing beyond what Python 3.8 knows: a task may have an old Python.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Generator
from typing import Any

import pytest

RESULTS = "outcomes.jsonl"
_HARD_EXIT = os._exit


class Checks:
    """A plugin of pytest: adds the canaries to the session and writes down how every test ended."""

    def __init__(self, canaries: str, results: str) -> None:
        self.canaries = canaries
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.out = os.open(os.path.join(results, RESULTS), flags, 0o644)

    def say(self, **line: Any) -> None:
        """Write one line, at once."""
        os.write(self.out, json.dumps(line).encode() + b"\n")

    def is_ours(self, nodeid: str) -> bool:
        """Whether a test is a canary."""
        return nodeid.partition("::")[0] == self.canaries

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: Any) -> None:
        """Add the canaries; no failure may end the session before they were run."""
        canaries = os.path.abspath(self.canaries)
        places = [os.path.abspath(argument.partition("::")[0]) for argument in config.args]
        if not any(canaries.startswith(place + os.sep) for place in places):
            config.args = [*config.args, self.canaries]  # pytest 8 would now forget a directory that it lies in
        config.option.maxfail = 0
        config.option.tbstyle = "native"  # some tests must fail, and to tell why takes longer than to run them
        config.option.continue_on_collection_errors = True

    def pytest_collect_file(self, parent: Any, file_path: Any) -> Any:
        """Find them also below a directory that is looked through, whatever test files are called there."""
        path = os.path.relpath(str(file_path), str(parent.config.rootpath))
        return pytest.Module.from_parent(parent, path=file_path) if path == self.canaries else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Any, config: Any) -> bool | None:
        """Nor does a project's own ``collect_ignore`` keep them out."""
        return False if os.path.relpath(str(collection_path), str(config.rootpath)) == self.canaries else None

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_collection_modifyitems(self, items: Any) -> Generator[None, None, None]:
        """Whatever selects tests, the canaries are run, each once, and last."""
        ours = {item.nodeid: item for item in items if self.is_ours(item.nodeid)}
        yield
        items[:] = [item for item in items if not self.is_ours(item.nodeid)] + list(ours.values())

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported has no tests that could say so."""
        if report.outcome == "failed":
            self.say(collect=report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test."""
        if getattr(report, "context", None) is None or report.outcome == "failed":  # and not a part of a test
            self.say(id=report.nodeid, when=report.when, outcome=report.outcome, sec=report.duration)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """A canary is no failure that a reader of the output should look into."""
        return ("", "", "") if self.is_ours(report.nodeid) else None


def main() -> int:
    """Run what the plan beside this file says; pytest's exit code."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    with open(os.path.join(here, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    checks = Checks(plan["canaries"], os.environ.pop("AGENTBENCH_RESULTS"))
    for name in ("AGENTBENCH_INPUTS", "PYTHONSAFEPATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ.update(plan["variables"])
    sys.path[:0] = [os.path.abspath(part) for part in plan["path"]]
    cache = os.path.join(tempfile.gettempdir(), "agentbench-pytest-cache")  # the workspace cannot be written
    arguments = [*plan["arguments"], "-o", "cache_dir=" + cache]
    sys.argv = [pytest.__file__, *arguments]
    code = int(pytest.main(arguments, plugins=[checks]))
    checks.say(end=code)
    return code


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    sys.stderr.flush()
    _HARD_EXIT(ended)  # what was registered to be done at the end comes too late
