"""Options of the sandbox ``local``; light, because every command imports it."""

from __future__ import annotations

import attrs

from agentbench_core import option


@attrs.frozen(kw_only=True)
class LocalOptions:
    """What can be chosen about the sandbox ``local``."""

    python: str = option(
        "", help="interpreter for the tasks, a path or a name; empty: found by the version that a task asks for"
    )
    pass_environment: tuple[str, ...] = option((), help="names of variables of this machine that commands may see")
