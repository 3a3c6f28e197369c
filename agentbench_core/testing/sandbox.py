"""What every sandbox must do."""

from __future__ import annotations

from agentbench_core.testing.commands import CommandChecks
from agentbench_core.testing.deadlines import DeadlineChecks
from agentbench_core.testing.environment import EnvironmentChecks
from agentbench_core.testing.files import FileChecks
from agentbench_core.testing.lifetime import LifetimeChecks
from agentbench_core.testing.once import OnceChecks
from agentbench_core.testing.output import OutputChecks
from agentbench_core.testing.provider import ProviderChecks
from agentbench_core.testing.setup import SetupChecks
from agentbench_core.testing.variables import VariableChecks


class SandboxConformance(
    CommandChecks,
    VariableChecks,
    OutputChecks,
    FileChecks,
    DeadlineChecks,
    LifetimeChecks,
    SetupChecks,
    EnvironmentChecks,
    OnceChecks,
    ProviderChecks,
):
    """Checks for every sandbox, whatever its capabilities. Needs ``sh``, coreutils and a Python inside."""
