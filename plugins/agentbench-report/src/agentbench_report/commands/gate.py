"""``agentbench report gate``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench_core.harness import RUN, DateRange, date_flags
from agentbench_report.commands.options import allow_flags, allowed, format_option, print_report, read_run
from agentbench_report.comparison.refusal_reasons import RefusalReason

if TYPE_CHECKING:
    from agentbench_report.gate.report import GateReport

_PATH = click.Path(readable=False, path_type=Path)
"""click does not check paths and runs, so that earlier gate reports are replaced even if an argument is wrong."""


@click.command(short_help="Decide whether a candidate may replace a baseline.")
@click.option(
    "--baseline",
    required=True,
    metavar="RUN",
    shell_complete=RUN.shell_complete,
    help="The baseline: path, name or id of a run.",
)
@click.option(
    "--candidate", metavar="RUN", shell_complete=RUN.shell_complete, help="The candidate: path, name or id of a run."
)
@click.option("--config", required=True, type=_PATH, help="Gate file with the rules for each suite.")
@date_flags
@click.option("--plan", "planning", is_flag=True, help="Check whether any candidate could pass, before running one.")
@click.option("--junit", type=_PATH, help="Write JUnit XML to this file, with one test case per check.")
@click.option("--markdown", type=_PATH, help="Also write the Markdown report to this file.")
@format_option("json", description="Tables for a terminal, Markdown or JSON.")
@click.option("--inconclusive-ok", is_flag=True, help="Exit with code 0 if the gate is inconclusive.")
@allow_flags(RefusalReason.TAMPERED)  # the gate file defines the policy for tampering
@click.pass_context
def gate(
    ctx: click.Context,
    /,
    baseline: str,
    candidate: str | None,
    config: Path,
    dates: DateRange,
    planning: bool,
    junit: Path | None,
    markdown: Path | None,
    style: str,
    inconclusive_ok: bool,
    **flags: bool,
) -> None:
    """Decide whether a candidate may replace a baseline: the data must show that it is not worse by more than a margin.

    Exit codes: 0 pass; 1 fail, or inconclusive unless that is accepted by --inconclusive-ok or the gate file; 2
    refused, without a verdict. With --plan: 0 if a candidate as good as the baseline would pass, otherwise 1.
    """
    from agentbench_core import InputError
    from agentbench_report.gate.junit import junit_xml, refused_junit
    from agentbench_report.gate.text import gate_markdown, refused_markdown
    from agentbench_report.text import json_text

    if planning:
        for name, value in {"--candidate": candidate, "--junit": junit, "--markdown": markdown}.items():
            if value is not None:
                raise click.UsageError(f"{name} cannot be used with --plan, which only reads the baseline.")
        ctx.exit(_plan(baseline, config, dates, style))
    if candidate is None:
        raise click.UsageError("Missing option '--candidate'. Use --plan if there is no candidate yet.")

    def refused(message: str) -> Mapping[Path | None, bytes]:
        return {junit: refused_junit(message), markdown: refused_markdown(message).encode()}

    _write(refused("The gate did not reach a verdict."), placeholder=True)
    try:
        report = _judge(baseline, candidate, config, dates, allowed({**flags, "allow_tampered": True}))
    except InputError as error:
        for problem in _write(refused(str(error))):
            click.echo(problem, err=True)
        raise
    accepted = inconclusive_ok or report.rules.inconclusive == "pass"
    page = gate_markdown(report, inconclusive_ok=accepted)
    print_report(style, lambda: page, json=lambda: json_text(report))
    problems = _write({junit: junit_xml(report, inconclusive_ok=accepted), markdown: page.encode()})
    if problems:
        raise InputError("; ".join(problems))
    ctx.exit(report.exit_code(inconclusive_ok=accepted))


def _plan(baseline: str, config: Path, dates: DateRange, style: str) -> int:
    from agentbench_report.gate.config import read_gate_config
    from agentbench_report.gate.plan import plan, plan_markdown
    from agentbench_report.text import json_text

    gates, run = read_gate_config(config), read_run(RUN.find(baseline), dates)
    suite = run.manifest.suite
    result = plan(run, gates.rules(suite), rules_from=gates.source(suite))
    print_report(style, lambda: plan_markdown(result), json=lambda: json_text(result))
    return int(result.possible != "yes")


def _judge(
    baseline: str, candidate: str, config: Path, dates: DateRange, allowed: Collection[RefusalReason]
) -> GateReport:
    import attrs

    from agentbench_report.comparison.refusals import check, require
    from agentbench_report.gate.config import read_gate_config
    from agentbench_report.gate.decision import decide
    from agentbench_report.gate.plan import plan_warnings

    gates = read_gate_config(config)
    a, b = read_run(RUN.find(baseline), dates), read_run(RUN.find(candidate), dates)
    suites = a.manifest.suite, b.manifest.suite
    rules = gates.rules_of_both(*suites)
    result = check(a, b, allowed)
    require(("Baseline (A) and candidate (B)", result))
    overridden = [
        f"{item.reason} A: {item.a}; B: {item.b}"
        for item in result.overridden
        if item.ground is not RefusalReason.TAMPERED
    ]
    near_misses = gates.near_misses(suites, {*a.labels, *b.labels})
    source = gates.source(suites[1])
    report = decide(a, b, rules, rules_from=source, overridden=overridden, warnings=[*result.warnings, *near_misses])
    if report.verdict == "pass":
        return report
    return attrs.evolve(report, warnings=(*report.warnings, *plan_warnings(a, rules)))


def _write(files: Mapping[Path | None, bytes], *, placeholder: bool = False) -> list[str]:
    """Write all files, continuing after errors, and return the error messages.

    A ``placeholder`` is overwritten later, so it is written only to regular files and not to pipes.
    """
    problems = []
    for path, data in files.items():
        if path is None:
            continue
        try:
            if not placeholder or path.is_file() or not path.exists():
                path.write_bytes(data)
        except OSError as error:
            problems.append(f"cannot write {path}: {error.strerror}")
    return problems
