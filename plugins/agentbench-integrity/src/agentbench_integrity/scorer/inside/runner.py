"""Run pytest in the sandbox with canary tests and a recorder. The only requirement is pytest 7 or newer.

The code under test shares this process and can read everything in it, so no expected values are stored here. The
runner, recorder and plan are read-only in the sandbox. pytest is imported before any workspace code. This file must
work with Python 3.8, which rules out pathlib and newer typing features.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
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
_NOT_DUMPABLE = 4, 0  # prctl(PR_SET_DUMPABLE, 0): other processes cannot read memory and descriptors
_MAX_MESSAGE = 2000  # characters


class Checks:
    """A pytest plugin that adds the canaries to the session and writes the outcome of every test."""

    def __init__(self, canaries: str, channel: Any, recorder: Any) -> None:
        self.canaries = canaries
        self.channel = channel
        self.recorder = recorder
        self.test = ""
        self.problem = ""
        recorder.overflow = self.record

    def say(self, **line: Any) -> None:
        """Write one line to the result file."""
        self.channel.write(json.dumps(line, separators=(",", ":")))

    def record(self, records: Any) -> None:
        """Write the records of a test, which are already JSON."""
        if records:
            self.channel.write('{"test":%s,"records":[%s]}' % (json.dumps(self.test), ",".join(records)))

    def is_ours(self, nodeid: str) -> bool:
        """Whether a test is a canary."""
        return nodeid.partition("::")[0] == self.canaries

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: Any) -> None:
        """Add the canaries, and make sure that no failure ends the session before they run."""
        canaries = os.path.abspath(self.canaries)
        paths = [os.path.abspath(argument.partition("::")[0]) for argument in config.args]
        if not any(canaries.startswith(path + os.sep) for path in paths):
            config.args = [*config.args, self.canaries]  # pytest 8 would otherwise drop a parent directory
        config.option.maxfail = 0
        config.option.tbstyle = "native"  # canaries fail, and other styles are slow
        config.option.continue_on_collection_errors = True
        if config.pluginmanager.hasplugin("cacheprovider") and hasattr(config, "_inicache"):
            # The workspace is read-only. An option would be rejected if the plugin is disabled.
            config._inicache["cache_dir"] = os.path.join(tempfile.gettempdir(), "agentbench-pytest-cache")

    def pytest_collect_file(self, parent: Any, file_path: Any) -> Any:
        """Collect the canary file even if it does not match the project's file patterns."""
        path = os.path.relpath(str(file_path), str(parent.config.rootpath))
        return pytest.Module.from_parent(parent, path=file_path) if path == self.canaries else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Any, config: Any) -> bool | None:
        """Collect the canary file even if the project's ``collect_ignore`` excludes it."""
        return False if os.path.relpath(str(collection_path), str(config.rootpath)) == self.canaries else None

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_collection_modifyitems(self, items: Any) -> Generator[None, None, None]:
        """Run each canary exactly once, after all other tests, regardless of test selection."""
        self.say(collected=[item.nodeid for item in items])
        ours = {item.nodeid: item for item in items if self.is_ours(item.nodeid)}
        yield
        items[:] = [item for item in items if not self.is_ours(item.nodeid)] + list(ours.values())

    def pytest_collectreport(self, report: Any) -> None:
        """Report files that cannot be collected."""
        if report.outcome == "failed":
            self.say(collect=report.nodeid, why=str(report.longrepr)[-_MAX_MESSAGE:])

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, None, None]:
        """Assign records to the running test."""
        self.recorder.take()
        self.test = item.nodeid
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Report one phase of a test."""
        self.record(self.recorder.take())
        if getattr(report, "context", None) is None or report.outcome == "failed":  # not a subtest
            why = {"why": str(report.longrepr)[-_MAX_MESSAGE:]} if report.outcome == "failed" else {}
            self.say(id=report.nodeid, when=report.when, outcome=report.outcome, sec=report.duration, **why)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Hide the canaries in the printed output."""
        return ("", "", "") if self.is_ours(report.nodeid) else None


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _refuse_workspace_code(allowed: Any, checks: Checks) -> None:
    """Refuse to run workspace code in this process, except for hidden tests, canaries and protected files.

    With ``isolation: process`` the program runs only in processes that tests start.
    """
    root = os.path.realpath(".") + os.sep
    allowed = {os.path.realpath(path) for path in allowed}
    path_arguments = {"import": 1, "ctypes.dlopen": 0, "open": 0}

    def refuse(path: str) -> None:
        if path.startswith(root) and path not in allowed:
            ran = os.path.relpath(path, root)
            checks.problem = checks.problem or f"validation.isolation is process, but the tests ran {ran}"
            raise RuntimeError(checks.problem)

    def hook(event: str, arguments: Any) -> None:
        """See https://docs.python.org/3/library/audit_events.html."""
        if event == "exec":
            name = getattr(arguments[0], "co_filename", "")
            if isinstance(name, str) and name[:1] not in ("", "<"):
                refuse(os.path.realpath(name))
        elif event in path_arguments and isinstance(arguments[path_arguments[event]], str):
            path = arguments[path_arguments[event]]
            if event != "open" or path.endswith(".pyc"):
                refuse(os.path.realpath(path))

    sys.addaudithook(hook)


def main() -> int:
    """Run pytest as described in ``plan.json``, and return its exit code."""
    # Exclude pytest's own modules from garbage collection: they are never freed anyway, and the collection at the end
    # would take a tenth of a short session.
    gc.freeze()
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
    if hasattr(_pytest_runner(), "_update_current_test_var"):
        _pytest_runner()._update_current_test_var = lambda item, when: None  # hide test names from child processes
    arguments = list(plan["arguments"])
    sys.argv = [pytest.__file__, *arguments]
    if plan["allowed"] is not None:
        sys.pycache_prefix = tempfile.mkdtemp(prefix="agentbench-")
        _refuse_workspace_code(plan["allowed"], checks)
    code = int(pytest.main(arguments, plugins=[checks]))
    checks.say(end=code, problem=checks.problem)
    return code


def _pytest_runner() -> Any:
    import _pytest.runner

    return _pytest.runner


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    _HARD_EXIT(exit_code)  # skips atexit handlers of the code under test
