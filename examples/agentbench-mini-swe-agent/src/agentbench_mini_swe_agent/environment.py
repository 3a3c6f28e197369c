"""mini-swe-agent's contract for environments, kept by AgentBench's tool ``run``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from minisweagent.exceptions import Submitted

from agentbench_core import Toolbox, ToolCall, ToolResult

_SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_SYSTEM = {"system": "-s", "node": "-n", "release": "-r", "version": "-v", "machine": "-m"}
"""What prompts may ask of a machine, and the option of uname that tells it."""


@attrs.frozen
class SandboxEnvironment:
    """Runs commands in the sandbox of an attempt. What stops the attempt passes through."""

    tools: Toolbox
    env: Mapping[str, str]
    """Variables that every command gets."""
    timeout_sec: float | None
    system: Mapping[str, str] = attrs.field(init=False)
    """For prompts: the machine inside. Nothing of the host, whose variables hold keys."""

    @system.default
    def _uname(self) -> Mapping[str, str]:
        asked = "; ".join(f"uname {option}" for option in _SYSTEM.values())
        lines = str(self._run(asked).fields.get("stdout", "")).splitlines()
        known = lines if len(lines) == len(_SYSTEM) else [""] * len(_SYSTEM)
        return dict(zip(_SYSTEM, known, strict=True))

    def execute(self, action: Mapping[str, Any], cwd: str = "") -> dict[str, Any]:
        """Run a command. Raises Submitted when that is how the agent says that it is done."""
        result = self._run(action["command"])
        code, output = result.fields.get("exit_code"), str(result.fields.get("stdout", ""))
        if not result.ok:
            said = f"An error occurred while executing the command: {result.error_type}: {result.error_message}"
            return {"output": output, "returncode": -1, "exception_info": said}
        first, _, rest = output.lstrip().partition("\n")
        if code == 0 and first.strip() == _SUBMIT:
            ended = {"exit_status": "Submitted", "submission": rest}
            raise Submitted({"role": "exit", "content": rest, "extra": ended})
        return {"output": output, "returncode": code, "exception_info": ""}

    def _run(self, command: object) -> ToolResult:
        # mini-swe-agent shows both streams as one. What is no text is for the tool to refuse.
        both = f"exec 2>&1\n{command}" if isinstance(command, str) else command
        arguments: dict[str, Any] = {"command": both, "env": dict(self.env)}
        if self.timeout_sec is not None:
            arguments["timeout_sec"] = self.timeout_sec
        return self.tools.call(ToolCall(tool="run", arguments=arguments))

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """What prompts may name."""
        return {**self.system, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """Nothing: AgentBench keeps the evidence."""
        return {}
