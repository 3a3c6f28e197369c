"""Runs pytest in the sandbox, with the checks of the verdict beside the tests. Needs nothing but pytest, 7 or newer.

Code under test shares this process, so nothing here can be kept from it: what tells a right value from a wrong one is
not here. Runner, recorder and plan cannot be written from the sandbox. pytest is imported before anything of the
workspace can be. No pathlib and no typing beyond what Python 3.8 knows: a task may have an old Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Generator
from typing import Any

import pytest

RESULTS = "outcomes.jsonl"
_HARD_EXIT = os._exit
_NOT_DUMPABLE = 4, 0  # prctl(PR_SET_DUMPABLE, 0): memory and descriptors are closed to other processes
_LONGEST = 2000  # characters of what is told of a failure


class Checks:
    """A plugin of pytest: adds the canaries to the session and writes down how every test ended."""

    def __init__(self, canaries: str, channel: Any, recorder: Any) -> None:
        self.canaries = canaries
        self.channel = channel
        self.recorder = recorder
        self.test = ""
        self.problem = ""
        recorder.overflow = self.record

    def say(self, **line: Any) -> None:
        """Write one line, at once."""
        self.channel.write(json.dumps(line, separators=(",", ":")))

    def record(self, records: Any) -> None:
        """Write down what a test has recorded, which is JSON already."""
        if records:
            self.channel.write('{"test":%s,"records":[%s]}' % (json.dumps(self.test), ",".join(records)))

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
        if config.pluginmanager.hasplugin("cacheprovider") and hasattr(config, "_inicache"):
            # The workspace cannot be written. As an option, it would be unknown where the plugin is switched off.
            config._inicache["cache_dir"] = os.path.join(tempfile.gettempdir(), "agentbench-pytest-cache")

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
        self.say(collected=[item.nodeid for item in items])
        ours = {item.nodeid: item for item in items if self.is_ours(item.nodeid)}
        yield
        items[:] = [item for item in items if not self.is_ours(item.nodeid)] + list(ours.values())

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported has no tests that could say so."""
        if report.outcome == "failed":
            self.say(collect=report.nodeid, why=str(report.longrepr)[-_LONGEST:])

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, None, None]:
        """Records are of the test that is run."""
        self.recorder.take()
        self.test = item.nodeid
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test."""
        self.record(self.recorder.take())
        if getattr(report, "context", None) is None or report.outcome == "failed":  # and not a part of a test
            why = {"why": str(report.longrepr)[-_LONGEST:]} if report.outcome == "failed" else {}
            self.say(id=report.nodeid, when=report.when, outcome=report.outcome, sec=report.duration, **why)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """A canary is no failure that a reader of the output should look into."""
        return ("", "", "") if self.is_ours(report.nodeid) else None


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _keep_out(allowed: Any, checks: Checks) -> None:
    """Refuse to run code of the workspace in this process, but for tests and what else is the task's.

    With ``isolation: process`` the program runs only in processes that tests start.
    """
    root = os.path.realpath(".") + os.sep
    allowed = {os.path.realpath(path) for path in allowed}
    loading = {"import": 1, "ctypes.dlopen": 0, "open": 0}

    def refuse(path: str) -> None:
        if path.startswith(root) and path not in allowed:
            checks.problem = checks.problem or "isolation: process, but the tests ran " + os.path.relpath(path, root)
            raise RuntimeError(checks.problem)

    def hook(event: str, arguments: Any) -> None:
        """See https://docs.python.org/3/library/audit_events.html."""
        if event == "exec":
            name = getattr(arguments[0], "co_filename", "")
            if isinstance(name, str) and name[:1] not in ("", "<"):
                refuse(os.path.realpath(name))
        elif event in loading and isinstance(arguments[loading[event]], str):
            path = arguments[loading[event]]
            if event != "open" or path.endswith(".pyc"):
                refuse(os.path.realpath(path))

    sys.addaudithook(hook)


def main() -> int:
    """Run what the plan beside this file says; pytest's exit code."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(*_NOT_DUMPABLE, 0, 0, 0)
    with open(os.path.join(here, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    recording = _load("_agentbench_recorder", os.path.join(here, "recorder.py"))
    recorder = recording.Recorder()
    sys.modules["_agentbench"] = recorder
    channel = recording.Channel(os.environ.pop("AGENTBENCH_RESULTS"), RESULTS)
    checks = Checks(plan["canaries"], channel, recorder)
    for name in ("AGENTBENCH_INPUTS", "PYTHONSAFEPATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ.update(plan["variables"])
    sys.path[:0] = [os.path.abspath(part) for part in plan["path"]]
    if hasattr(_runner(), "_update_current_test_var"):
        _runner()._update_current_test_var = lambda item, when: None  # children of tests need not know their name
    arguments = list(plan["arguments"])
    sys.argv = [pytest.__file__, *arguments]
    if plan["allowed"] is not None:
        sys.pycache_prefix = tempfile.mkdtemp(prefix="agentbench-")
        _keep_out(plan["allowed"], checks)
    code = int(pytest.main(arguments, plugins=[checks]))
    checks.say(end=code, problem=checks.problem)
    return code


def _runner() -> Any:
    import _pytest.runner

    return _pytest.runner


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    sys.stderr.flush()
    _HARD_EXIT(ended)  # what was registered to be done at the end comes too late
