"""What a sandbox must do that says of itself that it is ``isolated``."""

from __future__ import annotations

from agentbench_core.testing.isolation import IsolationChecks
from agentbench_core.testing.limits import LimitChecks
from agentbench_core.testing.privileges import PrivilegeChecks
from agentbench_core.testing.sandbox import SandboxConformance


class IsolatedSandboxConformance(IsolationChecks, PrivilegeChecks, LimitChecks, SandboxConformance):
    """Checks for sandboxes with the capability ``isolated``, on top of those for every sandbox. Needs Linux."""
