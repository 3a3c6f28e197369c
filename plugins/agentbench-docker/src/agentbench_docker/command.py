"""``agentbench docker ...``."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from agentbench_core import Deadline, UnavailableError, dump, escape_control
from agentbench_docker.bundle_command import load, save
from agentbench_docker.cache import Cache
from agentbench_docker.client import Client
from agentbench_docker.engine import EngineFacts, inspect_engine
from agentbench_docker.runc import vulnerabilities

ANSWER_WITHIN_SEC = 10.0
"""Time limit for querying the engine."""
_DEFAULT_AGE = 30.0  # days


@click.group()
def docker() -> None:
    """Manage the Docker engine, the default task image, and prepared environments."""


@docker.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def status(as_json: bool) -> None:
    """Show the engine's properties and known vulnerabilities.

    Exit code: 3 if no engine answers within 10 seconds.
    """
    with _client() as client:
        facts = inspect_engine(client, Deadline(ANSWER_WITHIN_SEC))
    warnings = vulnerabilities(facts.runc)
    if as_json:
        click.echo(json.dumps({**dump(facts), "warnings": warnings}, indent=2))
        return
    for name, value in _lines(facts):
        click.echo(escape_control(f"{name:<18}{value}"))
    for warning in warnings:
        click.echo(escape_control(f"warning: {warning}"))


@docker.command()
@click.option("--base", default="", help="Base image, or `debootstrap`. [default: the public Python image]")
@click.option("--ca-bundle", default="", metavar="FILE", help="Additional CA certificates for pip.")
def build(base: str, ca_bundle: str) -> None:
    """Build the default task image.

    `--base debootstrap` builds the base image from Debian packages (requires root), without an image registry. An
    existing image is not rebuilt.
    """
    from agentbench_docker import building

    if ca_bundle and not Path(ca_bundle).is_file():
        raise UnavailableError(f"file {ca_bundle!r} does not exist", remedy="Correct --ca-bundle.")
    with _client() as client:
        inspect_engine(client, Deadline(ANSWER_WITHIN_SEC))
        built = building.build(client, base, ca_bundle, click.echo)
    action = f"built {built.tag}" if built.new else f"{built.tag} already exists, built"
    click.echo(f"{action} from {escape_control(built.base)}: {built.id}")


@docker.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def list_(as_json: bool) -> None:
    """List prepared environments and their disk usage."""
    from agentbench_docker import storage

    with _client() as client:
        environments = storage.stored_environments(client, Cache())
    if as_json:
        rows = [{**dump(item), "bytes": item.bytes} for item in environments]
        click.echo(json.dumps({"environments": rows, "bytes": sum(item.bytes for item in environments)}, indent=2))
        return
    if not environments:
        click.echo("no prepared environments")
        return
    click.echo(f"{'environment':<14}{'MiB':>8}  {'last used':<11}{'commit':<12}image")
    for item in environments:
        day = "in use" if item.in_use else time.strftime("%Y-%m-%d", time.localtime(item.used_at))
        name = item.entry.key.removeprefix("sha256:")[:12]
        commit = "layer" if item.entry.kind == "layer" else item.entry.commit[:10]
        line = f"{name:<14}{_mib(item.bytes):>8}  {day:<11}{commit:<12}{item.entry.base}"
        click.echo(escape_control(line))
    click.echo(f"{'total':<14}{_mib(sum(item.bytes for item in environments)):>8}")


@docker.command()
@click.option("--older-than", type=float, metavar="DAYS", help="Remove environments unused for DAYS days.")
@click.option(
    "--max-size",
    type=float,
    metavar="GIB",
    help="Remove the least recently used environments until the rest fit in GIB.",
)
@click.option("--all", "remove_all", is_flag=True, help="Remove all environments that are not in use.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
def prune(older_than: float | None, max_size: float | None, remove_all: bool, dry_run: bool) -> None:
    """Remove prepared environments and leftovers from crashed runs.

    Without options, removes environments unused for 30 days. Environments in use are never removed.
    """
    from agentbench_docker import owner, storage

    cache = Cache()
    if remove_all:
        older_than, max_size = 0.0, None
    elif older_than is None and max_size is None:
        older_than = _DEFAULT_AGE
    max_bytes = None if max_size is None else int(max_size * (1 << 30))
    with _client() as client:
        environments = storage.stored_environments(client, cache)
        selected = storage.select_for_removal(environments, older_than_days=older_than, max_bytes=max_bytes)
        freed = 0
        for item in selected:
            if dry_run or storage.remove(client, cache, item):
                freed += item.bytes
                click.echo(f"{'would remove' if dry_run else 'removed'} {item.entry.key.removeprefix('sha256:')[:12]}")
        if not dry_run:
            for leftover in (*owner.sweep(client), *storage.sweep_images(client, cache)):
                click.echo(f"removed {leftover}")
    click.echo(f"{'would free' if dry_run else 'freed'} {_mib(freed)} MiB")


docker.add_command(save)
docker.add_command(load)


@contextlib.contextmanager
def _client() -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="agentbench-client-") as directory:
        yield Client(os.environ, Path(directory))


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"


def _lines(facts: EngineFacts) -> list[tuple[str, str]]:
    runc = f"{facts.runc} ({facts.runc_package})" if facts.runc_package else facts.runc
    rows = [
        ("engine", facts.version),
        ("host", f"{facts.host} ({facts.location})"),
        ("client", facts.client),
        ("runc", runc),
        ("default runtime", facts.default_runtime),
        ("storage driver", facts.storage_driver),
        ("cgroup", f"version {facts.cgroup_version}" if facts.cgroup_version else ""),
        ("security options", "; ".join(facts.security_options)),
        ("system", f"{facts.system}, kernel {facts.kernel}"),
    ]
    return [(name, value or "unknown") for name, value in rows]
