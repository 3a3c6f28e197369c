"""``agentbench executor`` and ``agentbench worker``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_core.harness import App, json_flag, names_of, print_table, say


@click.group()
def executor() -> None:
    """Prepare machines that run attempts together."""


@executor.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Host name or IP address by which workers connect to the coordinator. Repeatable.",
)
@click.option(
    "--workers",
    type=int,
    metavar="N",
    default=1,
    show_default=True,
    help="Number of workers, including those that already have a certificate in DIR.",
)
@click.option(
    "--days", type=int, metavar="N", default=30, show_default=True, help="Days for which new certificates are valid."
)
def certs(directory: Path, hosts: tuple[str, ...], workers: int, days: int) -> None:
    """Make certificates for a coordinator and its workers.

    \b
    agentbench executor certs certs --host head.example --workers 2

    Writes an authority, a certificate for the coordinator and one for each worker to DIR, and prints which machine
    needs which files. Files in DIR are never replaced: to add workers, run the command again with a larger --workers.
    """
    from agentbench_workers.certificates import CA, COORDINATOR, make_certificates
    from agentbench_workers.tls import valid_until

    made = make_certificates(directory, hosts, workers, days)
    rows = []
    for name in (COORDINATOR, *made.workers):
        ends = valid_until(made.certificate(CA), made.certificate(name))
        files = " ".join(path.name for path in (made.certificate(CA), made.certificate(name), made.key(name)))
        rows.append((name, "new" if name in made.new else "kept", f"{ends:%Y-%m-%d}", files))
    print_table(("MACHINE", "STATE", "VALID UNTIL", "FILES"), rows)
    say()
    say(f"Copy these files from {directory} to each machine, readable only for the user that runs agentbench there.")
    say(f"Keep {made.key(CA)} offline: with it, anyone can connect as a worker or as the coordinator.")


@click.group()
def worker() -> None:
    """Run attempts of another machine on this one."""


@worker.command()
@click.option(
    "--sandbox",
    "names",
    metavar="NAME",
    multiple=True,
    shell_complete=names_of("sandbox"),
    help="Check only this sandbox. Repeatable. [default: all installed ones]",
)
@json_flag
@click.pass_obj
def doctor(app: App, names: tuple[str, ...], as_json: bool) -> int:
    """Show what this machine can do as a worker.

    Versions of the harness and of its plugins, which must be those of the coordinator; CPUs, memory and disk; sandboxes
    and programs of agents, each with a remedy if it cannot be used. Nothing is changed.

    Exit code: 1 if no sandbox can be used, or one given by --sandbox cannot.
    """
    from agentbench_workers.doctor import show

    return show(app, names, as_json=as_json)
