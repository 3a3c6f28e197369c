"""Registers nothing yet: the executor ``dask`` needs its contract in the core."""

from __future__ import annotations

AGENTBENCH_API = 1
