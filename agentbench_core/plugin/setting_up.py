"""What set-up means in every sandbox: commands in order, the version of Python, captures."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from agentbench_core.errors import SetupError
from agentbench_core.plugin.contracts import SetupLog
from agentbench_core.values.execution import ExecResult
from agentbench_core.values.task import EnvironmentSpec


@attrs.frozen(kw_only=True)
class SettingUp:
    """One set-up. ``run`` runs a shell command in the workspace, where the set-up happens."""

    spec: EnvironmentSpec
    run: Callable[[str], ExecResult]
    log: SetupLog

    def commands(self) -> None:
        """Run the set-up commands. Raises SetupError at the first one that fails."""
        for command in self.spec.setup.commands:
            result = self._logged(command, self.run)
            if not result.ok:
                how = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
                raise SetupError(f"the set-up command {command!r} {how}\n{result.last_lines()}".rstrip())

    def captures(self, run: Callable[[str], ExecResult] | None = None) -> dict[str, str]:
        """What the capture commands print, as facts; one that fails is a fact, too. ``run`` instead of the usual."""
        facts = {}
        for command in self.spec.setup.capture:
            result = self._logged(command, run or self.run)
            name = re.sub(r"[^a-z0-9]+", "_", command.lower()).strip("_")
            facts[name] = result.stdout.text.strip() if result.ok else f"failed: {result.last_lines()}"
        return facts

    def _logged(self, command: str, run: Callable[[str], ExecResult]) -> ExecResult:
        self.log.started(command)
        result = run(command)
        self.log.finished(command, result)
        return result


def python_fits(version: str, wanted: str) -> bool:
    """``3.11.7`` fits ``3.11``; ``3.1`` and ``3.110`` do not."""
    return f"{version}.".startswith(f"{wanted}.")
