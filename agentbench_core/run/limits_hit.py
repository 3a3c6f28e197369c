"""Which limits of the sandbox an attempt ran into, and what slowed it down: counted where commands are run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from agentbench_core.plugin.contracts import Environment, Sandbox
from agentbench_core.run.load import Watch
from agentbench_core.values.execution import Command, ExecResult
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Label


class LimitsHit:
    """Counts commands by the limit that they ran into."""

    def __init__(self, watch: Watch | None = None) -> None:
        """``watch`` is told of each command, too."""
        self._commands: Counter[str] = Counter()
        self._watch = watch or Watch()

    def note(self, result: ExecResult) -> None:
        """Take in what came of one command."""
        self._commands.update(set(result.limits_hit))
        self._watch.note(result)

    def labels(self, phase: str) -> tuple[Label, ...]:
        """One label per limit; its evidence says in which phase, and how often."""
        return tuple(
            Label(name=name, evidence=f"{phase}: {count} command{'s' if count > 1 else ''}")
            for name, count in sorted(self._commands.items())
        )


@attrs.frozen
class CountingSandbox:
    """Implements ``Sandbox``: another one, whose results are counted."""

    inner: Sandbox
    limits_hit: LimitsHit

    def exec(
        self,
        command: str | Sequence[str],
        *,
        deadline: Deadline,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecResult:
        """Run a command; see the contract."""
        result = self.inner.exec(command, deadline=deadline, env=env, cwd=cwd)
        self.limits_hit.note(result)
        return result

    def read_file(self, path: str, *, limit: int) -> bytes:
        """See the contract."""
        return self.inner.read_file(path, limit=limit)

    def write_file(self, path: str, data: bytes) -> None:
        """See the contract."""
        self.inner.write_file(path, data)

    def close(self) -> None:
        """See the contract."""
        self.inner.close()


@attrs.frozen
class CountingEnvironment:
    """Implements ``Environment``: another one, whose results are counted."""

    inner: Environment
    limits_hit: LimitsHit

    @property
    def digest(self) -> str:
        """See the contract."""
        return self.inner.digest

    @property
    def workspace(self) -> Path:
        """See the contract."""
        return self.inner.workspace

    @property
    def facts(self) -> Mapping[str, str]:
        """See the contract."""
        return self.inner.facts

    def start(self, workspace: Path, *, read_only: bool, network: bool, deadline: Deadline) -> Sandbox:
        """Start it; see the contract."""
        sandbox = self.inner.start(workspace, read_only=read_only, network=network, deadline=deadline)
        return CountingSandbox(sandbox, self.limits_hit)

    def run_once(self, command: Command, workspace: Path, deadline: Deadline) -> ExecResult:
        """Run one command in a start of its own; see the contract."""
        result = self.inner.run_once(command, workspace, deadline)
        self.limits_hit.note(result)
        return result
