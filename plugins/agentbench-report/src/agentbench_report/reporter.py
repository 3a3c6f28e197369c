"""The reporter ``summary``: what ``agentbench report summary`` says, written beside a run when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from agentbench_core import RunView
from agentbench_report.options import SummaryOptions
from agentbench_report.reading import count
from agentbench_report.summary import RunSummary, summarise
from agentbench_report.summary_text import as_csv, as_markdown
from agentbench_report.text import json_text

RENDER = {"md": as_markdown, "csv": as_csv, "json": json_text}


@attrs.frozen
class SummaryReporter:
    """Writes ``summary.md``, ``summary.csv`` and ``summary.json``, or some of them."""

    options: SummaryOptions

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write them. Links lead to evidence in the run directory, as seen from ``into``."""
        summary = summarise(count(run))
        return [self._write(summary, run, into, style) for style in self.options.formats]

    def _write(self, summary: RunSummary, run: RunView, into: Path, style: str) -> Path:
        path = into / f"summary.{style}"
        base = "" if into.resolve() == run.directory.resolve() else str(run.directory.resolve())
        text = as_markdown(summary, base) if style == "md" else RENDER[style](summary)
        path.write_text(text, encoding="utf-8")
        return path
