"""Incompatible versions in a Dask cluster."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench_core import UnavailableError
from agentbench_dask.versions import PACKAGE, UPDATE, check_versions, unable


def reported(distributed: str | None = "2026.8.0", ours: str | None = "0.1.0") -> dict[str, Any]:
    return {"packages": {"distributed": distributed, PACKAGE: ours, "numpy": None}}


def found(scheduler: Any = None, **workers: Any) -> dict[str, Any]:
    return {"client": reported(), "scheduler": scheduler or reported(), "workers": workers}


@pytest.mark.parametrize("versions", [found(), found(w1=reported(), w2=reported())])
def test_equal_versions(versions: dict[str, Any]) -> None:
    """Equal versions are accepted, even without workers, which may join later."""
    assert check_versions(versions) == []


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        (found(reported("2023.1.0")), "the Dask scheduler has distributed 2023.1.0; 2024.12 or newer is required"),
        (found(w1=reported("2024.11.2")), "w1 has distributed 2024.11.2; 2024.12 or newer is required"),
        (found(w1=reported(ours=None)), "agentbench-dask is not installed on w1 or on any other Dask worker"),
        (found(w1="garbage"), "agentbench-dask is not installed on w1 or on any other Dask worker"),
    ],
)
def test_a_cluster_that_runs_no_tickets(versions: dict[str, Any], problem: str) -> None:
    """The cluster is refused before the run starts, with a remedy."""
    with pytest.raises(UnavailableError) as caught:
        check_versions(versions)
    assert (caught.value.message, caught.value.remedy) == (problem, UPDATE)


@pytest.mark.parametrize(
    ("versions", "notes"),
    [
        (found(reported(ours=None)), []),
        (
            found(w1=reported(), w2=reported(ours=None)),
            ["agentbench-dask is not installed on w2, so it runs no attempts"],
        ),
        (
            found(w1=reported("2026.7.1"), w2=reported("2026.7.1", "0.0.9")),
            [
                f"w1 has distributed 2026.7.1, but this machine has 2026.8.0 (and 1 more). {UPDATE}",
                f"w2 has agentbench-dask 0.0.9, but this machine has 0.1.0. {UPDATE}",
            ],
        ),
    ],
)
def test_differences_are_noted(versions: dict[str, Any], notes: list[str]) -> None:
    """Other workers can run tickets, or the difference is harmless. The scheduler does not need this package."""
    assert check_versions(versions) == notes


def test_workers_without_the_package() -> None:
    """They get no tickets, unless no versions are known: older versions of distributed do not report them."""
    assert unable(found(w1=reported(), w2=reported(ours=None))) == ["w2"]
    unknown = reported(ours=None)
    assert unable({"client": unknown, "scheduler": unknown, "workers": {"w1": unknown}}) == []
