"""The conformance kit: what a plugin must do, as checks that its author runs with pytest.

    from agentbench_core.testing import SandboxConformance

    class TestMine(SandboxConformance):
        @classmethod
        def make_provider(cls) -> SandboxProvider:
            return MyProvider(MyOptions())

Hooks with defaults (``spec``, ``python``, ``patience``) are in :class:`.stage.Hooks`. Each check says in its
docstring what is asked for; each is itself checked, on a double that is broken in just that respect.
"""

import pytest

# Before they are imported: pytest then shows the values in an assertion that fails.
_ROOMS = (
    *("stage", "looking", "pulse", "doubles", "sandbox", "isolated"),
    *("commands", "variables", "output", "deadlines", "lifetime", "files", "setup", "environment", "once", "provider"),
    *("isolation", "privileges", "limits"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{room}" for room in _ROOMS))

from agentbench_core.testing.doubles import EnvironmentDouble, ProviderDouble, SandboxDouble  # noqa: E402 - see above
from agentbench_core.testing.isolated import IsolatedSandboxConformance  # noqa: E402 - see above
from agentbench_core.testing.sandbox import SandboxConformance  # noqa: E402 - see above
from agentbench_core.testing.stage import RecordingLog, Stage, Started  # noqa: E402 - see above

__all__ = [
    "EnvironmentDouble",
    "IsolatedSandboxConformance",
    "ProviderDouble",
    "RecordingLog",
    "SandboxConformance",
    "SandboxDouble",
    "Stage",
    "Started",
]
