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
from agentbench_docker.cache import Cache
from agentbench_docker.client import Client
from agentbench_docker.engine import EngineFacts, look
from agentbench_docker.runc import weaknesses

ANSWER_WITHIN_SEC = 10.0
"""How long an engine may take to say what it is."""
_DEFAULT_AGE = 30.0  # days


@click.group()
def docker() -> None:
    """The Docker engine, the image that tasks run in, and prepared environments."""


@docker.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def status(as_json: bool) -> None:
    """Say which engine answers, and what is wrong with it.

    Exit code 3 when none answers within 10 seconds.
    """
    with _client() as client:
        facts = look(client, Deadline(ANSWER_WITHIN_SEC))
    warnings = weaknesses(facts.runc)
    if as_json:
        click.echo(json.dumps({**dump(facts), "warnings": warnings}, indent=2))
        return
    for name, value in _lines(facts):
        click.echo(escape_control(f"{name:<18}{value}"))
    for warning in warnings:
        click.echo(escape_control(f"warning: {warning}"))


@docker.command()
@click.option("--base", default="", help="Image to build from, or `debootstrap`; default: the public Python image.")
@click.option("--ca-bundle", default="", metavar="FILE", help="Certificates that pip trusts in addition.")
def build(base: str, ca_bundle: str) -> None:
    """Build the image that tasks run in by default.

    `--base debootstrap` needs no registry of images: it makes a base of Debian's packages (as root). An image that is
    there stays as it is.
    """
    from agentbench_docker import building

    if ca_bundle and not Path(ca_bundle).is_file():
        raise UnavailableError(f"there is no file {ca_bundle!r}", remedy="Mend --ca-bundle.")
    with _client() as client:
        look(client, Deadline(ANSWER_WITHIN_SEC))
        built = building.build(client, base, ca_bundle, click.echo)
    click.echo(
        f"{built.tag} {'is built' if built.new else 'is here already'}, from {escape_control(built.base)}: {built.id}"
    )


@docker.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def list_(as_json: bool) -> None:
    """List prepared environments, and what they take on the disk."""
    from agentbench_docker import storage

    with _client() as client:
        kept = storage.kept(client, Cache())
    if as_json:
        shown = [{**dump(each), "bytes": each.bytes} for each in kept]
        click.echo(json.dumps({"environments": shown, "bytes": sum(each.bytes for each in kept)}, indent=2))
        return
    if not kept:
        click.echo("no environment is kept; every run keeps those that it prepares")
        return
    click.echo(f"{'environment':<14}{'MiB':>8}  {'last used':<11}{'commit':<12}image")
    for each in kept:
        day = "now" if each.in_use else time.strftime("%Y-%m-%d", time.localtime(each.used_at))
        name = each.entry.key.removeprefix("sha256:")[:12]
        line = f"{name:<14}{_mib(each.bytes):>8}  {day:<11}{each.entry.commit[:10]:<12}{each.entry.base}"
        click.echo(escape_control(line))
    click.echo(f"{'all':<14}{_mib(sum(each.bytes for each in kept)):>8}")


@docker.command()
@click.option("--older-than", type=float, metavar="DAYS", help="Remove what was not used for so many days.")
@click.option("--max-size", type=float, metavar="GIB", help="Remove what is longest unused until the rest fits.")
@click.option("--all", "everything", is_flag=True, help="Remove all that no run works with.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def prune(older_than: float | None, max_size: float | None, everything: bool, dry_run: bool) -> None:
    """Remove prepared environments, and what dead runs left behind.

    Without options: what was not used for 30 days. What a run works with stays.
    """
    from agentbench_docker import owner, storage

    cache = Cache()
    if everything:
        older_than, max_size = 0.0, None
    elif older_than is None and max_size is None:
        older_than = _DEFAULT_AGE
    max_bytes = None if max_size is None else int(max_size * (1 << 30))
    with _client() as client:
        going = storage.chosen(storage.kept(client, cache), older_than_days=older_than, max_bytes=max_bytes)
        freed = 0
        for each in going:
            if dry_run or storage.remove(client, cache, each):
                freed += each.bytes
                click.echo(f"{'would remove' if dry_run else 'removed'} {each.entry.key.removeprefix('sha256:')[:12]}")
        if not dry_run:
            for leftover in (*owner.sweep(client), *storage.sweep_images(client, cache)):
                click.echo(f"removed {leftover}")
    click.echo(f"{_mib(freed)} MiB {'would be' if dry_run else 'are'} free again")


@contextlib.contextmanager
def _client() -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="agentbench-client-") as place:
        yield Client(os.environ, Path(place))


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"


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
