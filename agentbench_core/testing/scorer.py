"""What every scorer must do."""

from __future__ import annotations

from agentbench_core.testing.scorer_endings import EndingChecks
from agentbench_core.testing.scorer_traces import TraceChecks
from agentbench_core.testing.scorer_verdicts import VerdictChecks


class ScorerConformance(VerdictChecks, EndingChecks, TraceChecks):
    """Checks for every scorer, on a small program in each of ``sandboxes``."""
