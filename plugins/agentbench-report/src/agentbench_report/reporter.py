"""The ``summary`` reporter, which writes the output of ``agentbench report summary`` when a run ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from agentbench_core import NoOptions, RunView
from agentbench_report.reading import count
from agentbench_report.summary import summarise
from agentbench_report.summary_text import as_csv, as_markdown
from agentbench_report.text import json_text


@attrs.frozen
class SummaryReporter:
    """Writes ``summary.md``, ``summary.csv`` (only the tasks) and ``summary.json``."""

    options: NoOptions

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write the files to ``into``. Links point to evidence in the run directory."""
        summary = summarise(count(run))
        base = "" if into.resolve() == run.directory.resolve() else str(run.directory.resolve())
        texts = {"md": as_markdown(summary, base), "csv": as_csv(summary), "json": json_text(summary)}
        for style, text in texts.items():
            (into / f"summary.{style}").write_text(text, encoding="utf-8")
        return [into / f"summary.{style}" for style in texts]
