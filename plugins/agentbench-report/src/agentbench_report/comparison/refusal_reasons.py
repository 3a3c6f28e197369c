"""The reasons for refusing to compare two runs, and the flags that override them."""

from __future__ import annotations

import enum


class RefusalReason(enum.StrEnum):
    """A reason for refusing a comparison. The flag ``--allow-<value>`` overrides it."""

    SAME_RUN = "same-run"
    """Cannot be overridden: comparing a run with itself gives no information."""
    TASKS = "different-tasks"
    LIMITS = "different-limits"
    HARNESS = "different-harness"
    ENVIRONMENTS = "different-environments"
    REPLAYED = "replayed"
    TAMPERED = "tampered"

    @property
    def flag(self) -> str | None:
        """The flag that overrides this reason; ``None`` if it cannot be overridden."""
        return None if self is RefusalReason.SAME_RUN else f"--allow-{self}"


FLAGS = {
    RefusalReason.TASKS: "Compare only the tasks that all runs have.",
    RefusalReason.LIMITS: "Compare runs with different time and step limits.",
    RefusalReason.HARNESS: "Compare runs of different AgentBench versions.",
    RefusalReason.ENVIRONMENTS: "Compare runs in different environments.",
    RefusalReason.REPLAYED: "Compare runs with replayed attempts.",
    RefusalReason.TAMPERED: "Compare runs with confirmed tampering.",
}
"""The CLI help of each flag."""
