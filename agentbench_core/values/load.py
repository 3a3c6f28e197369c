"""What slowed commands down, as far as the kernel counts it."""

from __future__ import annotations

from typing import TypeVar

import attrs

from agentbench_core.schema import option

N = TypeVar("N", int, float)


@attrs.frozen(kw_only=True)
class Load:
    """What the kernel counted of one command, or of several. ``None`` is what nobody knows there, which is not zero."""

    cpu_sec: float | None = option(None, help="processor time that they used, in seconds, over all processors")
    throttled_sec: float | None = option(None, help="seconds that their own `cpu_limit` held them back")
    memory_stall_sec: float | None = option(
        None, help="seconds that at least one of their processes waited for memory, by their own limit or the machine's"
    )
    memory_reclaims: int | None = option(
        None, help="how often their own `mem_limit_mb` was reached, and memory had to be taken back"
    )
    oom_kills: int | None = option(None, help="how many of their processes were killed for want of memory")

    def plus(self, other: Load) -> Load:
        """Both together; what is known of one only counts alone."""
        return Load(
            cpu_sec=_sum(self.cpu_sec, other.cpu_sec),
            throttled_sec=_sum(self.throttled_sec, other.throttled_sec),
            memory_stall_sec=_sum(self.memory_stall_sec, other.memory_stall_sec),
            memory_reclaims=_sum(self.memory_reclaims, other.memory_reclaims),
            oom_kills=_sum(self.oom_kills, other.oom_kills),
        )


def _sum(one: N | None, other: N | None) -> N | None:
    if one is None or other is None:
        return other if one is None else one
    return round(one + other, 6)
