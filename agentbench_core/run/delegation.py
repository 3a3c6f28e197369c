"""Sub-agents: what an agent hands on of its tools, its model and its budget."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import attrs

from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.plugin.agent import AttemptContext, Mandate
from agentbench_core.plugin.contracts import EventLog
from agentbench_core.run.metered_llm import MeteredModel
from agentbench_core.run.metering import Meter
from agentbench_core.run.toolbox import AgentTools, MeteredToolbox
from agentbench_core.values.events import Delegation
from agentbench_core.values.limits import Budget, Deadline

_MOST = 1000
"""Delegations of one attempt: an agent that only delegates would use up nothing."""

_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@attrs.define(kw_only=True)
class Delegations:
    """Makes the contexts of an attempt's agents, from the first one down."""

    base: Callable[..., AttemptContext]
    """A context but for what differs from agent to agent."""
    toolbox: MeteredToolbox
    meter: Meter | None
    log: EventLog
    deadline: Deadline
    _names: Counter[str] = attrs.field(factory=Counter)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def first(self, agent: str, budget: Budget) -> AttemptContext:
        """The context of the attempt's own agent."""
        return self._context(agent, budget, frozenset(self.toolbox.tools), 0)

    def _context(self, agent: str, budget: Budget, names: frozenset[str], depth: int) -> AttemptContext:
        return self.base(
            tools=AgentTools(self.toolbox, agent, budget, names),
            llm=MeteredModel(self.meter, agent, budget) if self.meter else None,
            budget=budget,
            delegate=partial(self._delegate, agent, budget, names, depth),
        )

    def _delegate(
        self, parent: str, budget: Budget, names: frozenset[str], depth: int, mandate: Mandate
    ) -> AttemptContext:
        if not _ROLE.fullmatch(mandate.role):
            raise InputError(f"{mandate.role!r} is no role: expected a short name in small letters")
        wanted = names if mandate.tools is None else frozenset(mandate.tools)
        for unknown in sorted(wanted - names):
            hint = did_you_mean(unknown, names)
            raise InputError(f"{parent!r} has no tool {unknown!r}{hint} to give to a {mandate.role}")
        self.deadline.check()
        budget.check_spend()
        with self._lock:
            if self._names.total() >= _MOST:
                raise InputError(f"{_MOST} delegations are enough for one attempt")
            self._names[mandate.role] += 1
            child = f"{mandate.role}-{self._names[mandate.role]}"
        self.log.emit(Delegation(parent=parent, child=child, role=mandate.role, depth=depth + 1))
        share = budget.carve(
            max_steps=mandate.max_steps, max_tokens=mandate.max_tokens, max_cost_usd=mandate.max_cost_usd
        )
        return self._context(child, share, wanted, depth + 1)
