"""``agentbench agents``: install, list and remove the programs of agents."""

from __future__ import annotations

import json

import click

from agentbench_bridge.programs import registry, store
from agentbench_bridge.programs.versions import known_programs, names, parse
from agentbench_core import dump
from agentbench_core.harness import print_table


@click.group()
def agents() -> None:
    """Install, list and remove agent programs."""


@agents.command()
@click.argument("program", metavar="NAME[@VERSION]")
def install(program: str) -> None:
    """Download a program to your cache with your npm or pip and check its hash.

    No code of the program is run. NAME is claude-code, codex, opencode or mini-swe-agent. NAME@VERSION-musl selects the
    build for images with musl.
    """
    wanted = parse(program)
    done = store.add(wanted, lambda into: registry.fetch(wanted, into))
    click.echo(f"installed {wanted.shown} ({_mib(done)} MiB) in {done.directory}")


@agents.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def list_(as_json: bool) -> None:
    """List installed programs."""
    programs = store.installed()
    if as_json:
        rows = [{**dump(p.manifest), "directory": str(p.directory), "default": _is_default(p)} for p in programs]
        click.echo(json.dumps({"programs": rows}, indent=2))
        return
    if not programs:
        click.echo(f"no programs are installed; run: agentbench agents install {'|'.join(names())}")
        return
    print_table(
        ("NAME", "VERSION", "DEFAULT", "MIB", "NEEDS", "DIGEST", "DIRECTORY"),
        [
            (
                p.manifest.name,
                p.manifest.version,
                "yes" if _is_default(p) else "",
                _mib(p),
                _needs(p.manifest),
                p.manifest.digest.removeprefix("sha256:")[:12],
                str(p.directory),
            )
            for p in programs
        ],
    )


@agents.command()
@click.argument("program", metavar="NAME[@VERSION]")
def remove(program: str) -> None:
    """Remove an installed program."""
    wanted = parse(program)
    store.remove(wanted)
    click.echo(f"removed {wanted.shown}")


def _is_default(program: store.Program) -> bool:
    known = known_programs().get(program.manifest.name)
    return known is not None and known.version == program.manifest.version


def _needs(manifest: store.Manifest) -> str:
    python = f"Python {manifest.python}" if manifest.python else ""
    return ", ".join(need for need in (manifest.libc.replace("static", ""), python) if need)


def _mib(program: store.Program) -> str:
    size = sum(path.lstat().st_size for path in program.directory.rglob("*") if path.is_file())
    return f"{size / (1 << 20):.0f}"
