"""``agentbench report ...``."""

from __future__ import annotations

import click

from agentbench_report.commands.compare import compare
from agentbench_report.commands.gate import gate
from agentbench_report.commands.html import html
from agentbench_report.commands.paired import paired
from agentbench_report.commands.power import power
from agentbench_report.commands.summary import summary


@click.group()
def report() -> None:
    """Summarize and compare runs, with confidence intervals."""


report.add_command(compare)
report.add_command(gate)
report.add_command(html)
report.add_command(paired)
report.add_command(power)
report.add_command(summary)
