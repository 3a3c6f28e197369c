"""The ``html`` reporter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from agentbench_core import NoOptions, RunView
from agentbench_report.html.page import NAME, write


@attrs.frozen
class HtmlReporter:
    """Writes ``report.html`` at the end of a run."""

    options: NoOptions

    def report(self, run: RunView, into: Path) -> Sequence[Path]:
        """Write the page."""
        path = into / NAME
        write([run], path)
        return [path]
