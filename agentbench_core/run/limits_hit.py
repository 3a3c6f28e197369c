"""Which limits of the sandbox an attempt ran into, counted by those who see the results of commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from agentbench_core.plugin.contracts import Sandbox
from agentbench_core.values.execution import ExecResult
from agentbench_core.values.limits import Deadline
from agentbench_core.values.record import Label


class LimitsHit:
    """Counts commands by the limit that they ran into."""

    def __init__(self) -> None:
        self._commands: Counter[str] = Counter()

    def note(self, result: ExecResult) -> None:
        """Take in what came of one command."""
        self._commands.update(set(result.limits_hit))

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
