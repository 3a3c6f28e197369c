"""``agentbench report power``."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from agentbench_core.harness import RUN, DateRange, date_flags
from agentbench_report.commands.options import allow_flags, allowed, format_option, print_report, read_run

_PLANNING = ("discordance", "power", "tasks", "repeats", "pilot")
_MAX = 100_000


@click.command(short_help="Compute how many tasks are required to detect a difference.")
@click.option(
    "--effect",
    type=click.FloatRange(1e-6, 1, max_open=True),
    help="Difference in pass rates to detect: 0.05 is 5 pp.",
)
@click.option(
    "--discordance",
    default=0.2,
    show_default=True,
    type=click.FloatRange(1e-6, 1),
    help="Expected share of tasks where one attempt by each variant gives different outcomes.",
)
@click.option(
    "--power",
    default=0.8,
    show_default=True,
    type=click.FloatRange(0.01, 0.9999),
    help="Probability of detecting the difference if it exists.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    type=click.FloatRange(1e-6, 0.5, max_open=True),
    help="Two-sided significance level.",
)
@click.option(
    "--tasks",
    type=click.IntRange(1, _MAX),
    help="Number of available tasks. [default: number of tasks in the pilot]",
)
@click.option(
    "--repeats", default=1, show_default=True, type=click.IntRange(1, _MAX), help="Attempts per task in each run."
)
@click.option("--pilot", type=RUN, help="Run used to estimate cost and the variance between repeats.")
@click.option("--run-a", type=RUN, help="First run of an existing comparison.")
@click.option("--run-b", type=RUN, help="Second run of an existing comparison.")
@date_flags
@format_option("json", description="Tables for a terminal, Markdown or JSON.")
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
    dates: DateRange,
    style: str,
    **flags: bool,
) -> None:
    """Compute how many tasks are required to detect a difference.

    With --run-a and --run-b, compute the difference that an existing comparison could have detected.
    """
    import math

    from agentbench_core import InputError
    from agentbench_report.comparison.refusals import check, require
    from agentbench_report.post_hoc_power import post_hoc_power
    from agentbench_report.power import Question, plan, read_pilot
    from agentbench_report.power_text import plan_markdown, post_hoc_markdown
    from agentbench_report.text import json_text

    for name, value in (("effect", effect), ("discordance", discordance), ("power", power), ("alpha", alpha)):
        if value is not None and math.isnan(value):  # click.FloatRange accepts nan
            raise InputError(f"--{name}: {value} is not a number")
    if run_a is None and run_b is None:
        if effect is None:
            raise InputError(
                "--effect is required",
                remedy="Pass --effect, for example 0.05 for 5 pp. "
                "For an existing comparison, pass --run-a and --run-b.",
            )
        estimates = None if pilot is None else read_pilot(read_run(pilot, dates))
        question = Question(power=power, alpha=alpha)
        planned = plan(question, effect, discordance, repeats=repeats, tasks=tasks, pilot=estimates)
        print_report(style, lambda: plan_markdown(planned), json=lambda: json_text(planned))
        return
    if run_a is None or run_b is None:
        raise InputError("an existing comparison requires two runs", remedy="Pass both --run-a and --run-b.")
    passed = [f"--{name}" for name in _PLANNING if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if passed:
        raise InputError(
            f"{', '.join(passed)} cannot be used with --run-a and --run-b",
            remedy="For an existing comparison, set only --effect and --alpha. The runs determine the rest.",
        )
    a, b = read_run(run_a, dates), read_run(run_b, dates)
    require(("A and B", check(a, b, allowed(flags))))
    result = post_hoc_power(a, b, alpha, effect)
    print_report(style, lambda: post_hoc_markdown(result), json=lambda: json_text(result))
