"""``agentbench report power``."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from agentbench_report.commands.options import RUN_DIRECTORY, allow_flags, allowed, format_option

_PLANNING = ("discordance", "power", "tasks", "repeats", "pilot")
_MOST = 100_000


@click.command(short_help="Say how many tasks a difference takes.")
@click.option(
    "--effect",
    type=click.FloatRange(1e-6, 1, max_open=True),
    help="The difference of pass rates to see: 0.05 is 5 points.",
)
@click.option(
    "--discordance",
    default=0.2,
    show_default=True,
    type=click.FloatRange(1e-6, 1),
    help="Share of tasks on which single attempts of the two will differ.",
)
@click.option(
    "--power",
    default=0.8,
    show_default=True,
    type=click.FloatRange(0.01, 0.9999),
    help="How often it is to be seen, if it is there.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    type=click.FloatRange(1e-6, 0.5, max_open=True),
    help="How often a difference may be seen that is not there, two-sided.",
)
@click.option("--tasks", type=click.IntRange(1, _MOST), help="Tasks that there are; those of the pilot if not given.")
@click.option(
    "--repeats", default=1, show_default=True, type=click.IntRange(1, _MOST), help="Attempts per task in each run."
)
@click.option("--pilot", type=RUN_DIRECTORY, help="Run directory to estimate cost and the spread of repeats by.")
@click.option("--run-a", type=RUN_DIRECTORY, help="Look back: the first run of a comparison.")
@click.option("--run-b", type=RUN_DIRECTORY, help="Look back: the second run.")
@format_option("md", "json", says="Markdown or JSON.")
@allow_flags()
@click.pass_context
def power(
    ctx: click.Context,
    /,
    effect: float | None,
    discordance: float,
    power: float,
    alpha: float,
    tasks: int | None,
    repeats: int,
    pilot: Path | None,
    run_a: Path | None,
    run_b: Path | None,
    style: str,
    **flags: bool,
) -> None:
    """Say how many tasks a difference takes; with --run-a and --run-b, what a comparison could have seen."""
    import math

    from agentbench_core import InputError
    from agentbench_report import power as asking
    from agentbench_report.comparison.comparable import check, require
    from agentbench_report.hindsight import look_back
    from agentbench_report.power_text import hindsight_markdown, plan_markdown
    from agentbench_report.reading import read
    from agentbench_report.text import json_text

    for name, value in (("effect", effect), ("discordance", discordance), ("power", power), ("alpha", alpha)):
        if value is not None and math.isnan(value):  # which no range holds, and none keeps out
            raise InputError(f"--{name}: {value} is no number")
    question = asking.Question(power=power, alpha=alpha)
    if run_a is None and run_b is None:
        if effect is None:
            raise InputError(
                "which difference is to be seen?",
                remedy="Give --effect, for instance 0.05 for 5 points; or look back at two runs: --run-a A --run-b B",
            )
        known = None if pilot is None else asking.look_at_pilot(read(pilot))
        said = asking.plan(question, effect, discordance, repeats=repeats, tasks=tasks, pilot=known)
        click.echo(plan_markdown(said) if style == "md" else json_text(said), nl=False)
        return
    if run_a is None or run_b is None:
        raise InputError("looking back takes two runs", remedy="Give both --run-a and --run-b.")
    typed = [f"--{name}" for name in _PLANNING if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if typed:
        raise InputError(
            f"{', '.join(typed)}: for planning a run, while --run-a and --run-b look back at two",
            remedy="Two runs say themselves how many tasks they have and how much they differ: leave it out.",
        )
    a, b = read(run_a), read(run_b)
    require(("A and B", check(a, b, allowed(flags))))
    seen = look_back(a, b, alpha, effect)
    click.echo(hindsight_markdown(seen) if style == "md" else json_text(seen), nl=False)
