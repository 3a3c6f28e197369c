"""Check whether the cost of a run is known. Unknown costs are recorded as 0."""

from __future__ import annotations

from agentbench_report.counts import RunCounts

_TOLERANCE = 1.1
"""The maximum ratio of a run's spending to the sum of its records. It is above 1 since killed attempts have no
record."""


def unknown_cost(run: RunCounts) -> str | None:
    """Why the cost of a run's attempts is unknown, as text; ``None`` if it is known.

    Reads the records again.
    """
    if run.replayed:
        return f"{run.replayed} attempt{' was' if run.replayed == 1 else 's were'} replayed at no cost"
    recorded, free = 0.0, 0
    for row, _ in run.view.all_rows():
        recorded += row.usage.cost_usd
        free += row.scored and row.usage.llm_calls > 0 and not row.usage.cost_usd
    if free:
        return f"{free} attempt{'' if free == 1 else 's'} called a model but recorded a cost of 0"
    spent = run.view.spent_usd()
    if spent > _TOLERANCE * recorded:
        return f"its records add up to {recorded:.4g} USD, but its calls may have cost up to {spent:.4g} USD"
    return None
