"""What this distribution registers. Importing it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import RegisterCommand, hookimpl
from agentbench_report.options import HtmlOptions, SummaryOptions

if TYPE_CHECKING:
    from agentbench_core import Register, Reporter


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench report``."""
    register("report", "agentbench_report.command:report", summary="what runs say, with honest intervals")


@hookimpl
def agentbench_register_reporters(register: Register[Reporter]) -> None:
    """What is written beside a run when it ends."""
    register("summary", summary, SummaryOptions, summary="the report as Markdown, CSV and JSON")
    register("html", html, HtmlOptions, summary="report.html: one page with everything, which needs no network")


def summary(options: SummaryOptions) -> Reporter:
    """The reporter ``summary``."""
    from agentbench_report.reporter import SummaryReporter

    return SummaryReporter(options)


def html(options: HtmlOptions) -> Reporter:
    """The reporter ``html``."""
    from agentbench_report.html.reporter import HtmlReporter

    return HtmlReporter(options)
