"""The ``run`` tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentbench_core import ToolContext, ToolResult, ToolSpec, load, option
from agentbench_core.builtin.options import RunOptions


@attrs.frozen(kw_only=True)
class _Run:
    command: str = option(help="shell command, run in the repository", pattern=r"[\s\S]+")
    timeout_sec: float | None = option(None, help="shorter than the task's limit for one call", minimum=0.1)
    env: Mapping[str, str] | None = option(None, help="environment variables to add")


@attrs.frozen
class Run:
    """Runs a shell command in the sandbox. A non-zero exit code is a result, not an error."""

    options: RunOptions

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        return ToolSpec.of("run", "Run a shell command in the repository.", _Run, "runs")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``exit_code``, ``stdout`` and ``stderr``. After a timeout, ``exit_code`` is ``None``."""
        wanted = load(arguments, _Run, where="run")
        deadline = context.deadline.within(wanted.timeout_sec) if wanted.timeout_sec else context.deadline
        result = context.sandbox.exec(wanted.command, deadline=deadline, env=wanted.env or {})
        fields = {
            "exit_code": result.exit_code,
            "stdout": self._cut(result.stdout.text),
            "stderr": self._cut(result.stderr.text),
        }
        if result.timed_out:
            message = f"killed after {result.duration_sec:.1f} s, together with everything that it started"
            return ToolResult(ok=False, fields=fields, error_type="timeout", error_message=message)
        return ToolResult.success(**fields)

    def _cut(self, text: str) -> str:
        cap = self.options.max_chars
        if len(text) <= cap:
            return text
        half = cap // 2
        return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
