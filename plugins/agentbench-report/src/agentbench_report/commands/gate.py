"""``agentbench report gate``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench_report.commands.options import RUN_DIRECTORY, allow_flags, allowed, format_option
from agentbench_report.comparison.grounds import Ground

if TYPE_CHECKING:
    from agentbench_report.gate.report import GateReport

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--baseline", required=True, type=RUN_DIRECTORY, help="Run directory of what is in use.")
@click.option("--candidate", required=True, type=RUN_DIRECTORY, help="Run directory of what is to replace it.")
@click.option("--config", required=True, type=_FILE, help="The gate file: margin, pairs and more, per suite.")
@click.option("--junit", type=_FILE, help="Write JUnit XML to this file, a test case per check.")
@click.option("--markdown", type=_FILE, help="Write the page to this file, too.")
@format_option("md", "json", says="What is printed: Markdown or JSON.")
@click.option("--inconclusive-ok", is_flag=True, help="Exit with 0 when the gate is inconclusive.")
@allow_flags(Ground.TAMPERED)  # no refusal here: the gate file says what it means
@click.pass_context
def gate(
    ctx: click.Context,
    /,
    baseline: Path,
    candidate: Path,
    config: Path,
    junit: Path | None,
    markdown: Path | None,
    style: str,
    inconclusive_ok: bool,
    **flags: bool,
) -> None:
    """Decide whether a candidate may replace a baseline: it must be shown to be worse by less than a margin.

    Exit codes: 0 pass; 1 fail, and inconclusive unless told otherwise; 2 refused: there is no verdict.
    """
    from agentbench_core import InputError
    from agentbench_report.gate.junit import junit_xml, refused_junit
    from agentbench_report.gate.text import gate_markdown, refused_markdown
    from agentbench_report.text import json_text

    try:
        said = _judge(baseline, candidate, config, allowed({**flags, "allow_tampered": True}))
    except InputError as error:
        _write(junit, refused_junit(str(error)))
        _write(markdown, refused_markdown(str(error)).encode())
        raise
    harmless = inconclusive_ok or said.rules.inconclusive == "pass"
    page = gate_markdown(said, inconclusive_ok=harmless)
    _write(junit, junit_xml(said, inconclusive_ok=harmless))
    _write(markdown, page.encode())
    click.echo(page if style == "md" else json_text(said), nl=False)
    ctx.exit(said.exit_code(inconclusive_ok=harmless))


def _judge(baseline: Path, candidate: Path, config: Path, allowed: Collection[Ground]) -> GateReport:
    from agentbench_report.comparison.comparable import check, require
    from agentbench_report.gate.config import read_gate_config
    from agentbench_report.gate.decision import decide
    from agentbench_report.reading import read

    gates = read_gate_config(config)
    a, b = read(baseline), read(candidate)
    rules = gates.rules(b.manifest.suite)
    found = check(a, b, allowed)
    require(("Baseline (A) and candidate (B)", found))
    overridden = [
        f"{item.reason} A: {item.a}; B: {item.b}" for item in found.overridden if item.ground is not Ground.TAMPERED
    ]
    return decide(a, b, rules, overridden=overridden, warnings=found.warnings)


def _write(path: Path | None, data: bytes) -> None:
    from agentbench_core import InputError

    if path is None:
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
