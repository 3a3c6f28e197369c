"""Whether the recorded cost of a run is what it cost. A cost that nobody knows is recorded as none."""

from __future__ import annotations

from agentbench_report.counts import RunCounts

_WELL_ABOVE = 1.1
"""What was spent may be a little more than the records say: of an attempt that was killed there is none."""


def unknown_cost(run: RunCounts) -> str | None:
    """Why it is not known what the attempts of a run cost, in words; ``None`` when it is.

    Reads the records once more.
    """
    if run.replayed:
        return f"{run.replayed} attempts were replayed, which costs nothing"
    recorded, free = 0.0, 0
    for row, _ in run.view.all_rows():
        recorded += row.usage.cost_usd
        free += row.scored and row.usage.llm_calls > 0 and not row.usage.cost_usd
    if free:
        return f"{free} attempts called a model and have a recorded cost of 0"
    spent = run.view.spent_usd()
    if spent > _WELL_ABOVE * recorded:
        return f"its records add up to {recorded:.4g} USD, and its calls may have cost {spent:.4g}"
    return None
