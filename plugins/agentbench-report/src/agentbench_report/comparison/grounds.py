"""Why two runs must not be compared as they are, and the flags that override it."""

from __future__ import annotations

import enum


class Ground(enum.StrEnum):
    """A ground for refusing a comparison. ``--allow-`` and the value is the flag that overrides it."""

    SAME_RUN = "same-run"
    """The one that no flag overrides: nothing can be inferred from one set of results held against itself."""
    TASKS = "different-tasks"
    LIMITS = "different-limits"
    HARNESS = "different-harness"
    ENVIRONMENTS = "different-environments"
    REPLAYED = "replayed"
    TAMPERED = "tampered"

    @property
    def flag(self) -> str | None:
        """The flag that overrides it; ``None`` when nothing does."""
        return None if self is Ground.SAME_RUN else f"--allow-{self}"


FLAGS = {
    Ground.TASKS: "Compare the tasks that all runs have, and leave the others out.",
    Ground.LIMITS: "Compare runs of different time and step limits.",
    Ground.HARNESS: "Compare runs of different versions of AgentBench.",
    Ground.ENVIRONMENTS: "Compare runs in different environments.",
    Ground.REPLAYED: "Compare attempts whose model answers were played back.",
    Ground.TAMPERED: "Compare runs with confirmed tampering.",
}
"""What each flag does, for its help."""
