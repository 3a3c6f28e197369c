"""The plugin's hook implementations. Heavy modules are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench_core import NoOptions, RegisterCommand, hookimpl

if TYPE_CHECKING:
    from agentbench_core import Register, Reporter

AGENTBENCH_API = 1


@hookimpl
def agentbench_register_commands(register: RegisterCommand) -> None:
    """Add ``agentbench report``."""
    register("report", "agentbench_report.command:report", summary="summarize and compare runs")


@hookimpl
def agentbench_register_reporters(register: Register[Reporter]) -> None:
    """Register the ``summary`` and ``html`` reporters."""
    register("summary", summary, NoOptions, summary="the summary as Markdown, CSV and JSON")
    register("html", html, NoOptions, summary="report.html: one self-contained page that works offline")


def summary(options: NoOptions) -> Reporter:
    """The ``summary`` reporter."""
    from agentbench_report.reporter import SummaryReporter

    return SummaryReporter(options)


def html(options: NoOptions) -> Reporter:
    """The ``html`` reporter."""
    from agentbench_report.html.reporter import HtmlReporter

    return HtmlReporter(options)
