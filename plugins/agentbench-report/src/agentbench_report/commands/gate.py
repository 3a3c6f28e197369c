"""``agentbench report gate``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench_report.commands.options import allow_flags, allowed, format_option
from agentbench_report.comparison.grounds import Ground

if TYPE_CHECKING:
    from agentbench_report.gate.report import GateReport

_PATH = click.Path(readable=False, path_type=Path)
"""Looked at by us and not by click: also where a path is wrong, no report of last time may be left."""


@click.command(short_help="Decide whether a candidate may replace a baseline.")
@click.option("--baseline", required=True, type=_PATH, help="Run directory of what is in use.")
@click.option("--candidate", type=_PATH, help="Run directory of what is to replace it.")
@click.option("--config", required=True, type=_PATH, help="The gate file: margin, pairs and more, per suite.")
@click.option("--plan", "planning", is_flag=True, help="Say whether any candidate could pass; before there is one.")
@click.option("--junit", type=_PATH, help="Write JUnit XML to this file, a test case per check.")
@click.option("--markdown", type=_PATH, help="Write the page to this file, too.")
@format_option("md", "json", says="What is printed: Markdown or JSON.")
@click.option("--inconclusive-ok", is_flag=True, help="Exit with 0 when the gate is inconclusive.")
@allow_flags(Ground.TAMPERED)  # no refusal here: the gate file says what it means
@click.pass_context
def gate(
    ctx: click.Context,
    /,
    baseline: Path,
    candidate: Path | None,
    config: Path,
    planning: bool,
    junit: Path | None,
    markdown: Path | None,
    style: str,
    inconclusive_ok: bool,
    **flags: bool,
) -> None:
    """Decide whether a candidate may replace a baseline: it must be shown to be worse by less than a margin.

    Exit codes: 0 pass; 1 fail, and inconclusive unless told otherwise; 2 refused: there is no verdict. With --plan: 0
    if a candidate as good as the baseline would pass, otherwise 1.
    """
    from agentbench_core import InputError
    from agentbench_report.gate.junit import junit_xml, refused_junit
    from agentbench_report.gate.text import gate_markdown, refused_markdown
    from agentbench_report.text import json_text

    if planning:
        meant_for_a_verdict = {"--candidate": candidate, "--junit": junit, "--markdown": markdown}
        for name, value in meant_for_a_verdict.items():
            if value is not None:
                raise click.UsageError(f"{name} has no meaning with --plan, which looks at the baseline alone.")
        ctx.exit(_plan(baseline, config, style))
    if candidate is None:
        raise click.UsageError("Missing option '--candidate'. To ask before there is one: --plan.")

    def refused(message: str) -> Mapping[Path | None, bytes]:
        return {junit: refused_junit(message), markdown: refused_markdown(message).encode()}

    _write(refused("The gate did not get as far as a verdict."), again=True)
    try:
        said = _judge(baseline, candidate, config, allowed({**flags, "allow_tampered": True}))
    except InputError as error:
        for problem in _write(refused(str(error))):
            click.echo(problem, err=True)
        raise
    harmless = inconclusive_ok or said.rules.inconclusive == "pass"
    page = gate_markdown(said, inconclusive_ok=harmless)
    click.echo(page if style == "md" else json_text(said), nl=False)
    problems = _write({junit: junit_xml(said, inconclusive_ok=harmless), markdown: page.encode()})
    if problems:
        raise InputError("; ".join(problems))
    ctx.exit(said.exit_code(inconclusive_ok=harmless))


def _plan(baseline: Path, config: Path, style: str) -> int:
    from agentbench_report.gate.config import read_gate_config
    from agentbench_report.gate.plan import plan, plan_markdown
    from agentbench_report.reading import read
    from agentbench_report.text import json_text

    gates, run = read_gate_config(config), read(baseline)
    suite = run.manifest.suite
    found = plan(run, gates.rules(suite), rules_from=gates.source(suite))
    click.echo(plan_markdown(found) if style == "md" else json_text(found), nl=False)
    return int(found.possible != "yes")


def _judge(baseline: Path, candidate: Path, config: Path, allowed: Collection[Ground]) -> GateReport:
    import attrs

    from agentbench_report.comparison.comparable import check, require
    from agentbench_report.gate.config import read_gate_config
    from agentbench_report.gate.decision import decide
    from agentbench_report.gate.plan import out_of_reach
    from agentbench_report.reading import read

    gates = read_gate_config(config)
    a, b = read(baseline), read(candidate)
    suites = a.manifest.suite, b.manifest.suite
    rules = gates.rules_of_both(*suites)
    found = check(a, b, allowed)
    require(("Baseline (A) and candidate (B)", found))
    overridden = [
        f"{item.reason} A: {item.a}; B: {item.b}" for item in found.overridden if item.ground is not Ground.TAMPERED
    ]
    slips = gates.near_misses(suites, {*a.labels, *b.labels})
    source = gates.source(suites[1])
    said = decide(a, b, rules, rules_from=source, overridden=overridden, warnings=[*found.warnings, *slips])
    if said.verdict == "pass":
        return said
    return attrs.evolve(said, warnings=(*said.warnings, *out_of_reach(a, rules)))


def _write(files: Mapping[Path | None, bytes], *, again: bool = False) -> list[str]:
    """Write what was asked for, each whatever becomes of the others, and say what could not be written.

    ``again``: they will be written again, so that pipes have to wait.
    """
    problems = []
    for path, data in files.items():
        if path is None:
            continue
        try:
            if not again or path.is_file() or not path.exists():
                path.write_bytes(data)
        except OSError as error:
            problems.append(f"{path} cannot be written: {error.strerror}")
    return problems
