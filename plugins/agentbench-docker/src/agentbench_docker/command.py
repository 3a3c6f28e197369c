"""``agentbench docker ...``."""

from __future__ import annotations

import json
import os

import click

from agentbench_core import Deadline, dump
from agentbench_docker.engine import EngineFacts, look
from agentbench_docker.runc import weaknesses

ANSWER_WITHIN_SEC = 10.0
"""How long an engine may take to say what it is."""


@click.group()
def docker() -> None:
    """Look at the Docker engine."""


@docker.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def status(as_json: bool) -> None:
    """Say which engine answers, and what is wrong with it.

    Exit code 3 when none answers within 10 seconds.
    """
    facts = look(os.environ, Deadline(ANSWER_WITHIN_SEC))
    warnings = weaknesses(facts.runc)
    if as_json:
        click.echo(json.dumps({**dump(facts), "warnings": warnings}, indent=2))
        return
    for name, value in _lines(facts):
        click.echo(f"{name:<18}{value}")
    for warning in warnings:
        click.echo(f"warning: {warning}")


def _lines(facts: EngineFacts) -> list[tuple[str, str]]:
    runc = f"{facts.runc} ({facts.runc_package})" if facts.runc_package else facts.runc
    shown = [
        ("engine", facts.version),
        ("at", f"{facts.host} ({facts.location})"),
        ("client", facts.client),
        ("runc", runc),
        ("default runtime", facts.default_runtime),
        ("storage driver", facts.storage_driver),
        ("cgroup", f"version {facts.cgroup_version}" if facts.cgroup_version else ""),
        ("security options", "; ".join(facts.security_options)),
        ("system", f"{facts.system}, kernel {facts.kernel}"),
    ]
    return [(name, value or "unknown") for name, value in shown]
