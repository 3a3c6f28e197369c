"""What every tool must do."""

from __future__ import annotations

from agentbench_core.testing.tool_calls import CallChecks
from agentbench_core.testing.tool_places import PlaceChecks
from agentbench_core.testing.tool_spec import SpecChecks


class ToolConformance(SpecChecks, CallChecks, PlaceChecks):
    """Checks for every tool, in the toolbox of the harness, in each of ``sandboxes``."""
