"""Checks that a component contributes to ``agentbench doctor``.

They are optional: a sandbox or a model provider without them is checked by its ``preflight``. Checks change nothing on
the machine, so unlike a preflight they never pull an image or call a model. Each one runs in a thread with a time
limit (``run.preflight_sec``); one that raises something unexpected, or takes too long, becomes a warning and does not
affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from agentbench_core.plugin.llm import LLM
from agentbench_core.plugin.sandbox import SandboxProvider

if TYPE_CHECKING:  # see contracts
    from agentbench_core.values.task import EnvironmentSpec

Status = Literal["ok", "warning", "failed"]


@attrs.frozen
class Finding:
    """The result of a check."""

    status: Status
    """``failed``: no run with this component is possible. ``warning``: some runs may fail, or something can be better.
    """
    detail: str
    """The finding, on one line: with versions, paths and sizes, but never the value of a secret."""
    remedy: str = ""
    """The remedy, such as a command; one line per alternative. Required unless the status is ``ok``."""


Checks = Mapping[str, Callable[[], Finding]]
"""Checks by name, such as ``disk``; they run in this order. A check may raise UnavailableError instead of failing."""


class CheckedSandbox(SandboxProvider, Protocol):
    """A sandbox provider with checks."""

    def checks(self, specs: Sequence[EnvironmentSpec]) -> Checks:
        """Checks of everything that is needed to prepare ``specs``.

        Raises UnavailableError if nothing can be checked, for example because an engine is unreachable.
        """


class CheckedLLM(LLM, Protocol):
    """A model provider with checks that need no model, such as whether its key is set."""

    def checks(self) -> Checks:
        """The checks. They must not use the network: models are queried by ``preflight`` only."""
