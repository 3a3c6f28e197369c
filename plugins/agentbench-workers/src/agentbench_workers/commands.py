"""``agentbench executor`` and ``agentbench worker``."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench_core import quantity
from agentbench_core.harness import App, json_flag, names_of, print_table, say


@click.group()
def executor() -> None:
    """Prepare several machines to share the attempts of a run."""


@executor.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Host name or IP address that workers use to connect to the coordinator. Repeatable.",
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
    "--days", type=int, metavar="N", default=30, show_default=True, help="Validity of new certificates, in days."
)
def certs(directory: Path, hosts: tuple[str, ...], workers: int, days: int) -> None:
    """Create certificates for a coordinator and its workers.

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
    say(f"Copy these files from {directory} to each machine, readable only by the user who runs agentbench there.")
    say(f"Keep {made.key(CA)} offline: with it, anyone can connect as a worker or as the coordinator.")


@click.group()
def worker() -> None:
    """Run another machine's attempts on this one."""


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

    Shows the versions of the harness and its plugins, which must match the coordinator's; CPUs, memory and disk; and
    sandboxes and agents' programs, each with a remedy if it cannot be used. Changes nothing.

    Exit code: 1 if no sandbox can be used, or one given with --sandbox cannot.
    """
    from agentbench_workers.doctor import show

    return show(app, names, as_json=as_json)


@worker.command()
@click.option("--connect", metavar="HOST:PORT", help="Address of the coordinator.")
@click.option(
    "--places", type=click.IntRange(1, 1000), default=1, show_default=True, help="Number of concurrent attempts."
)
@click.option("--name", default="", help="Name of this worker. [default: host name and process id]")
@click.option(
    "--sandbox",
    "names",
    metavar="NAME",
    multiple=True,
    shell_complete=names_of("sandbox"),
    help="Offer only this sandbox. Repeatable. [default: all installed ones]",
)
@click.option(
    "--allow-unisolated", is_flag=True, help="Allow agents that use a model to run in a sandbox that is not isolated."
)
@click.option("--ca", metavar="FILE", default="", help="Certificate of the authority.")
@click.option("--certificate", metavar="FILE", default="", help="Certificate of this worker.")
@click.option("--key", metavar="FILE", default="", help="Key of this worker.")
@click.option("--stdin", "from_input", is_flag=True, hidden=True, help="Read these options from standard input.")
@click.pass_obj
def run(
    app: App,
    connect: str | None,
    places: int,
    name: str,
    names: tuple[str, ...],
    allow_unisolated: bool,
    ca: str,
    certificate: str,
    key: str,
    from_input: bool,
) -> int:
    """Run a coordinator's attempts until none are left.

    \b
    agentbench worker run --connect head.example:7000 --places 4 --sandbox docker
      --ca certs/ca.pem --certificate certs/worker-1.pem --key certs/worker-1.key

    The coordinator is `agentbench run --executor workers --set executor.listen=HOST:PORT`. This machine needs the same
    versions of agentbench and its plugins, but no keys of model providers. The coordinator can run any command on it.

    Ctrl-C and SIGTERM shut the worker down gracefully: other workers repeat its attempts in progress.

    Exit code: 3 if the coordinator refuses this worker or cannot be reached; 130 if the worker was interrupted.
    """
    from agentbench_core import Deadline
    from agentbench_workers.process import FOR_EVER, Place, ended_by_signals, from_stdin, work

    if from_input:
        from_stdin(app)
        return 0
    if not connect:
        raise click.UsageError("pass the address of the coordinator: --connect HOST:PORT")
    place = Place(
        connect=connect,
        name=name,
        places=places,
        sandboxes=names,
        allow_unisolated=allow_unisolated,
        ca=ca,
        certificate=certificate,
        key=key,
    )
    stop = Deadline(FOR_EVER)
    with ended_by_signals(stop):
        attempts = work(app, place, stop, lambda message: say(message, err=True))
    done = f"this worker ran {quantity(attempts, 'attempt')}"
    if stop.expired:
        say(f"interrupted; {done}", err=True)
        return 130
    say(f"no attempts are left; {done}")
    return 0
