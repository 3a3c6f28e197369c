"""The reporter ``html``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from agentbench_core import RunView
from agentbench_report.html.page import NAME, write
from agentbench_report.options import HtmlOptions


@attrs.frozen
class HtmlReporter:
    """Writes ``report.html`` at the end of a run."""

    options: HtmlOptions

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write the page."""
        path = into / NAME
        write([run], path)
        return [path]
