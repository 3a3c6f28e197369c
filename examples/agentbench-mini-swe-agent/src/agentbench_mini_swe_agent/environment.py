"""mini-swe-agent's interface for environments, implemented with AgentBench's ``run`` tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from minisweagent.exceptions import Submitted

from agentbench_core import Toolbox, ToolCall, ToolResult

_SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SYSTEM = {"system": "-s", "node": "-n", "release": "-r", "version": "-v", "machine": "-m"}
"""Template variables that describe the machine, with their ``uname`` options."""


@attrs.frozen
class SandboxEnvironment:
    """Runs commands in the sandbox of an attempt. Errors that end the attempt propagate unchanged."""

    tools: Toolbox
    env: Mapping[str, str]
    """Environment variables for every command."""
    timeout_sec: float | None
    system: Mapping[str, str] = attrs.field(init=False)
    """Template variables that describe the sandbox. Host variables are excluded, since they may contain API keys."""

    @system.default
    def _uname(self) -> Mapping[str, str]:
        command = "; ".join(f"uname {option}" for option in _SYSTEM.values())
        lines = str(self._run(command).fields.get("stdout", "")).splitlines()
        known = lines if len(lines) == len(_SYSTEM) else [""] * len(_SYSTEM)
        return dict(zip(_SYSTEM, known, strict=True))

    def execute(self, action: Mapping[str, Any], cwd: str = "") -> dict[str, Any]:
        """Run a command. Raises Submitted if it is the command that submits the result."""
        result = self._run(action["command"])
        code, output = result.fields.get("exit_code"), str(result.fields.get("stdout", ""))
        if not result.ok:
            message = f"An error occurred while executing the command: {result.error_type}: {result.error_message}"
            return {"output": output, "returncode": -1, "exception_info": message}
        first, _, rest = output.lstrip().partition("\n")
        if code == 0 and first.strip() == _SUBMIT:
            extra = {"exit_status": "Submitted", "submission": rest}
            raise Submitted({"role": "exit", "content": rest, "extra": extra})
        return {"output": output, "returncode": code, "exception_info": ""}

    def _run(self, command: object) -> ToolResult:
        # mini-swe-agent shows both streams as one. If the command is not a string, the tool refuses it.
        merged = f"exec 2>&1\n{command}" if isinstance(command, str) else command
        arguments: dict[str, Any] = {"command": merged, "env": dict(self.env)}
        if self.timeout_sec is not None:
            arguments["timeout_sec"] = self.timeout_sec
        return self.tools.call(ToolCall(tool="run", arguments=arguments))

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Variables for templates."""
        return {**self.system, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """Empty: AgentBench records the evidence."""
        return {}
