"""``agentbench executor`` and ``agentbench worker``."""

from __future__ import annotations

import click


@click.group()
def executor() -> None:
    """Prepare machines that run attempts together."""


@click.group()
def worker() -> None:
    """Run attempts of another machine on this one."""
