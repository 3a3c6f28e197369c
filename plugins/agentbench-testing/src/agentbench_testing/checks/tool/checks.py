"""Checks: the spec of a tool, the results of its calls, and the files that it reads and writes."""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from agentbench_core import AttemptStop, Deadline, Interrupted, ToolResult
from agentbench_testing.checks.schemas import fits, invalid_values, patterns
from agentbench_testing.checks.tool.stage import LARGE, ToolHooks, ToolStage
from agentbench_testing.doubles.observing import at_once, contents, done_soon, in_thread, soon
from agentbench_testing.doubles.workbench import Workbench

_AT_ONCE = 4
_ODD_TEXT = ("\0", "\ud800", "a\nb", "größe", "-x", "$(exit 3)", "**", "x" * 100_000, "../" * 2000, "[")
_NAMES_OF_PATHS = re.compile(r"(.*_)?(path|file|filename|root|dir|directory|folder)")


class CallChecks(ToolHooks):
    """Results of calls, which must not leave any state in the tool."""

    def test_a_good_call(self, workbench: Workbench) -> None:
        """A call with good arguments succeeds, and the fields of the result are plain data."""
        with self.stage(workbench) as stage:
            result = stage.call(self.good_arguments())
        assert result.ok, result
        assert (result.error_type, result.error_message) == ("", "")
        assert json.loads(json.dumps(dict(result.fields))) is not None

    def test_a_command(self, workbench: Workbench) -> None:
        """A tool that runs the argument ``command`` uses a shell, and returns the exit code and both streams."""
        with self.stage(workbench) as stage:
            if not stage.tool.spec.runs_commands:
                return
            result = stage.call({"command": "echo out; echo err >&2; exit 3"})
        assert result.ok, result
        shown = {"exit_code": None, "stdout": "", "stderr": "", **result.fields}
        assert (shown["exit_code"], "out" in shown["stdout"], "err" in shown["stderr"]) == (3, True, True), result

    def test_nothing_stays_behind(self, workbench: Workbench) -> None:
        """In another workspace, after good and bad calls, the same tool returns the same result as a new one."""
        with self.stage(workbench) as stage:
            expected = stage.call(self.good_arguments())
        tool = self.make_tool()
        with self.stage(workbench, tool) as stage:
            stage.call({"no such argument": 1})
            stage.call(self.good_arguments())
        with self.stage(workbench, tool) as stage:
            assert self._comparable(stage.call(self.good_arguments())) == self._comparable(expected)

    def test_calls_at_once(self, workbench: Workbench) -> None:
        """Parallel calls to one tool, each in its own workspace, do not mix up their results."""
        tool = self.make_tool()
        with self.stage(workbench) as stage:
            expected = self._comparable(stage.call(self.good_arguments()))
        with ExitStack() as stack:
            stages = [stack.enter_context(self.stage(workbench, tool)) for _ in range(_AT_ONCE)]
            calls: list[Callable[[], ToolResult]] = [
                partial(tool_stage.call, self.good_arguments()) for tool_stage in stages
            ]
            results = at_once(calls, self.patience)
        assert [self._comparable(result) for result in results] == [expected] * _AT_ONCE

    def test_unknown_arguments(self, workbench: Workbench) -> None:
        """An unknown argument causes ``bad_arguments`` with its name, so that a model sees its mistake."""
        with self.stage(workbench) as stage:
            result = stage.call({**self.good_arguments(), "no_such_argument": 1})
        assert (result.ok, result.error_type) == (False, "bad_arguments"), result
        assert "no_such_argument" in result.error_message

    def test_missing_arguments(self, workbench: Workbench) -> None:
        """Each missing required argument causes ``bad_arguments``; if none is required, an empty call does not."""
        required = self.make_tool().spec.parameters.get("required", ())
        with self.stage(workbench) as stage:
            for name in required:
                rest = {key: value for key, value in self.good_arguments().items() if key != name}
                result = stage.call(rest)
                assert (result.ok, result.error_type) == (False, "bad_arguments"), (name, result)
                assert name in result.error_message
            if not required:
                assert stage.call({}).error_type != "bad_arguments"

    def test_arguments_of_another_type(self, workbench: Workbench) -> None:
        """Each value that the schema does not allow causes ``bad_arguments``."""
        with self.stage(workbench) as stage:
            for name, schema in stage.tool.spec.parameters["properties"].items():
                for value in invalid_values(schema):
                    result = stage.call({**self.good_arguments(), name: value})
                    assert (result.ok, result.error_type) == (False, "bad_arguments"), (name, value, result)

    def test_odd_text(self, workbench: Workbench) -> None:
        """With arbitrary text, a call succeeds or is refused, but is never an ``internal_error``."""
        with self.stage(workbench, tool_timeout_sec=self.patience) as stage:
            for name, schema in stage.tool.spec.parameters["properties"].items():
                if not _takes_text(schema):
                    continue
                for text in _ODD_TEXT:
                    call = partial(stage.call, {**self.good_arguments(), name: text})
                    result = soon(call, 2 * self.patience)
                    assert result.error_type != "internal_error", (name, text[:20], result)

    def test_no_time_left(self, workbench: Workbench) -> None:
        """A call without time left returns soon, with a result or with ``timeout``."""
        with self.stage(workbench, tool_timeout_sec=0.0) as stage:
            result = soon(lambda: stage.call(self.slow_arguments()), self.patience)
            assert result.ok or result.error_type == "timeout", result

    def test_a_call_that_takes_too_long(self, workbench: Workbench) -> None:
        """A call ends soon after its deadline, with a result or with ``timeout``."""
        with self.stage(workbench, tool_timeout_sec=0.3) as stage:
            result = soon(lambda: stage.call(self.slow_arguments()), self.patience)
            assert result.ok or result.error_type == "timeout", result

    def test_interrupting_a_call(self, workbench: Workbench) -> None:
        """If the attempt is ended, the call returns soon, and raises nothing but the reason."""
        deadline = Deadline(10 * self.patience)
        with self.stage(workbench, deadline=deadline, tool_timeout_sec=10 * self.patience) as stage:
            began = threading.Event()
            future = in_thread(partial(_begin, began, stage, self.slow_arguments()))
            assert began.wait(self.patience)
            deadline.end(Interrupted("stop it"))
            try:
                assert done_soon(future, self.patience).error_type != "internal_error"
            except AttemptStop as stop:
                assert "stop it" in str(stop)  # noqa: PT017 - not pytest.raises, since the call may return instead

    def _comparable(self, result: ToolResult) -> dict[str, Any]:
        """The parts of a result that must be equal."""
        fields = {key: value for key, value in result.fields.items() if key not in self.varying}
        return {"ok": result.ok, "error": result.error_type, "fields": fields}


class SpecChecks(ToolHooks):
    """Names, descriptions and schemas, as required by models and their servers."""

    def test_the_name(self) -> None:
        """The name consists of at most 64 letters, digits, ``_`` and ``-``, which every model server accepts."""
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", self.make_tool().spec.name)

    def test_the_description(self) -> None:
        """The tool and every argument have a description."""
        spec = self.make_tool().spec
        assert spec.description.strip()
        assert [name for name, each in spec.parameters["properties"].items() if not each.get("description")] == []

    def test_the_parameters(self) -> None:
        """The parameters are a serializable JSON Schema of an object; required properties exist."""
        parameters = json.loads(json.dumps(self.make_tool().spec.parameters))
        assert parameters["type"] == "object"
        assert set(parameters.get("required", ())) <= set(parameters["properties"])

    def test_the_effect(self) -> None:
        """The effect is declared: the tool ``reads``, ``edits`` or ``runs``. Agents and the harness rely on it."""
        assert self.make_tool().spec.effect in ("reads", "edits", "runs")

    def test_patterns_are_valid(self) -> None:
        """Servers compile patterns, and reject requests with invalid ones."""
        for pattern in patterns(self.make_tool().spec.parameters):
            assert not re.search(r"\(\?[aiLmsux]", pattern), f"{pattern!r} has flags, which some servers do not support"
            re.compile(pattern)

    def test_good_arguments_fit(self) -> None:
        """The good arguments match the schema."""
        assert fits(self.good_arguments(), self.make_tool().spec.parameters)

    def test_the_spec_stays(self, workbench: Workbench) -> None:
        """The spec is the same for all instances and after any call, since replays compare requests."""
        before = self.make_tool().spec
        with self.stage(workbench) as stage:
            stage.call(self.good_arguments())
            assert stage.tool.spec == before == self.make_tool().spec

    def test_paths_are_declared(self) -> None:
        """Arguments named like paths are in ``path_arguments``, which other checks use."""
        names = [name for name in self.make_tool().spec.parameters["properties"] if _NAMES_OF_PATHS.fullmatch(name)]
        assert [name for name in names if name not in self.path_arguments] == []


@attrs.frozen
class _Outside:
    """A directory next to the workspace, with a secret in it."""

    directory: Path
    secret: str

    def unchanged(self) -> bool:
        return contents(self.directory) == {"secret.txt": (0o644, self.secret.encode())}


class PathChecks(ToolHooks):
    """Access to the workspace, and none to its surroundings."""

    def test_paths_that_lead_out(self, workbench: Workbench) -> None:
        """Paths out of the workspace are refused, and nothing outside is read or written."""
        with self.stage(workbench) as stage, _outside(stage) as outside:
            near = f"{outside.directory.name}/secret.txt"
            for path in (f"../{near}", f"x/../../{near}", str(outside.directory / "secret.txt"), f"./../{near}"):
                self._is_refused(stage, path, outside)

    def test_links_that_lead_out(self, workbench: Workbench) -> None:
        """Links to files and directories outside the workspace are refused, since commands can create them."""
        with self.stage(workbench) as stage, _outside(stage) as outside:
            (stage.workspace / "link.txt").symlink_to(outside.directory / "secret.txt")
            (stage.workspace / "linked").symlink_to(outside.directory)
            for path in ("link.txt", "linked/secret.txt"):
                self._is_refused(stage, path, outside)

    def test_the_repository_of_the_workspace(self, workbench: Workbench) -> None:
        """Paths in ``.git`` are refused."""
        with self.stage(workbench) as stage, _outside(stage) as outside:
            (stage.workspace / ".git").mkdir()
            (stage.workspace / ".git/config").write_text(outside.secret)
            self._is_refused(stage, ".git/config", outside)
            assert (stage.workspace / ".git/config").read_text() == outside.secret

    def test_special_files(self, workbench: Workbench) -> None:
        """Named pipes never block a call, even if a search finds them."""
        with self.stage(workbench, tool_timeout_sec=self.patience / 2) as stage:
            os.mkfifo(stage.workspace / "pipe")
            for arguments in (self.good_arguments(), *self.with_path("pipe")):
                result = soon(partial(stage.call, arguments), self.patience)
                assert result.error_type not in ("internal_error", "timeout"), result

    def test_what_it_writes(self, workbench: Workbench) -> None:
        """Only a tool that edits changes the workspace, and it records a diff as evidence."""
        with self.stage(workbench) as stage:
            before = contents(stage.workspace)
            result = stage.call(self.good_arguments())
            after = contents(stage.workspace)
            diffs = "".join(str(diff) for diff in stage.diffs.values())
        assert result.ok, result
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        assert bool(changed) == (stage.tool.spec.effect == "edits"), f"changed: {changed}"
        assert [path for path in changed if path not in diffs] == [], "no diff was recorded"

    def test_what_may_not_be_edited(self, workbench: Workbench) -> None:
        """If the task forbids edits, a tool that edits refuses calls, and other tools work."""
        with self.stage(workbench, editable=lambda _: False) as stage:
            before = contents(stage.workspace)
            result = stage.call(self.good_arguments())
            assert contents(stage.workspace) == before
        assert result.ok != (stage.tool.spec.effect == "edits"), result
        assert result.error_type != "internal_error", result

    def test_results_are_bounded(self, workbench: Workbench) -> None:
        """Results for huge files, very long lines, binary files and many files are not larger than ``result_cap``."""
        with self.stage(workbench, files={**self.files, **LARGE}) as stage:
            for arguments in (self.good_arguments(), *self.greedy_arguments()):
                result = soon(partial(stage.call, arguments), 3 * self.patience)
                size = len(json.dumps(dict(result.fields))) + len(result.error_message)
                assert size <= self.result_cap, f"{size} bytes for {str(arguments)[:200]}"
                assert result.error_type != "internal_error", result

    def _is_refused(self, stage: ToolStage, path: str, outside: _Outside) -> None:
        for arguments in self.with_path(path):
            result = stage.call(arguments)
            assert not result.ok, (path, result)
            assert result.error_type != "internal_error", result
            assert outside.secret not in json.dumps([dict(result.fields), result.error_message])
            assert outside.unchanged(), f"{path} was changed"


def _begin(began: threading.Event, stage: ToolStage, arguments: Any) -> ToolResult:
    began.set()
    return stage.call(arguments)


def _takes_text(schema: Any) -> bool:
    return schema.get("type") == "string" or any(_takes_text(choice) for choice in schema.get("anyOf", ()))


@contextmanager
def _outside(stage: ToolStage) -> Iterator[_Outside]:
    directory = stage.workspace.with_name(f"outside-{secrets.token_hex(4)}")
    directory.mkdir()
    outside = _Outside(directory, secrets.token_hex(8))
    (directory / "secret.txt").write_text(outside.secret)
    (directory / "secret.txt").chmod(0o644)
    yield outside
