"""Checks from the versions that a Dask cluster's processes report whether tickets can run there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentbench_core import UnavailableError, quantity

PACKAGE = "agentbench-dask"
OLDEST = (2024, 12)
"""Oldest version of distributed with which the tests pass."""
UPDATE = f"Install the same versions of {PACKAGE} and distributed on this machine and on all Dask workers."


def check_versions(found: Mapping[str, Any]) -> Sequence[str]:
    """Check the result of ``Client.get_versions``, and return notes about differences that may be harmless.

    Raises:
        UnavailableError: a version is too old, or no worker can run tickets.
    """
    here, workers = packages_of(found["client"]), _workers(found)
    everywhere = {"the Dask scheduler": packages_of(found["scheduler"]), **workers}
    for where, packages in {"this machine": here, **everywhere}.items():
        version = packages.get("distributed", "")
        if version and _numbers(version) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise UnavailableError(f"{where} has distributed {version}; {oldest} or newer is required", remedy=UPDATE)
    lacking = unable(found)
    if workers and len(lacking) == len(workers):
        raise UnavailableError(f"{PACKAGE} is not installed on {lacking[0]} or on any other Dask worker", remedy=UPDATE)
    notes = [f"{PACKAGE} is not installed on {worker}, so it runs no attempts" for worker in lacking[:1]]
    others = len(lacking) - 1
    notes += [f"{quantity(others, 'more Dask worker')} without {PACKAGE}"] if others > 0 else []
    for name in ("distributed", PACKAGE):
        differing = {where: packages[name] for where, packages in everywhere.items() if packages.get(name)}
        differing = {where: version for where, version in differing.items() if version != here.get(name)}
        for where, version in list(differing.items())[:1]:
            more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
            notes.append(f"{where} has {name} {version}, but this machine has {here.get(name)}{more}. {UPDATE}")
    return notes


def unable(found: Mapping[str, Any]) -> Sequence[str]:
    """Workers without this package; empty if this version of distributed never reports it."""
    if not packages_of(found["client"]).get(PACKAGE):
        return []
    return [worker for worker, packages in _workers(found).items() if not packages.get(PACKAGE)]


def _workers(found: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    return {str(address): packages_of(answer) for address, answer in found["workers"].items()}


def packages_of(answer: object) -> dict[str, str]:
    """The versions that one process reported. It may be hostile."""
    found = answer.get("packages") if isinstance(answer, Mapping) else None
    names = ("distributed", "python", PACKAGE)
    return {name: str(found[name])[:100] for name in names if found.get(name)} if isinstance(found, Mapping) else {}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
