"""What can be set about the reporters."""

from __future__ import annotations

from typing import Literal

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class SummaryOptions:
    """Options of the reporter ``summary``."""

    formats: tuple[Literal["md", "csv", "json"], ...] = option(
        ("md", "json"), help="what is written: summary.md, summary.csv (the tasks only), summary.json"
    )


@attrs.frozen(kw_only=True)
class HtmlOptions:
    """Options of the reporter ``html``: there are none."""
