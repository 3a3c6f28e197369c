"""The contexts of an attempt's agents: its own agent, and all sub-agents."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import attrs

from agentbench_core.errors import InputError, did_you_mean
from agentbench_core.plugin.agent import AttemptContext, SubAgentRequest
from agentbench_core.plugin.contracts import EventLog
from agentbench_core.run.metering.llm import AttemptModels
from agentbench_core.run.metering.tools import AgentTools, MeteredToolbox
from agentbench_core.values.events import Delegation
from agentbench_core.values.limits import Budget, Deadline

_MOST = 1000
"""Maximum number of delegations in an attempt. Without it, delegations without work would be unlimited."""

_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@attrs.define(kw_only=True)
class SubAgents:
    """Creates the contexts of an attempt's agents."""

    base: Callable[..., AttemptContext]
    """The parts of a context that are the same for all agents."""
    toolbox: MeteredToolbox
    models: AttemptModels | None
    log: EventLog
    deadline: Deadline
    _names: Counter[str] = attrs.field(factory=Counter)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def root_context(self, agent: str, budget: Budget) -> AttemptContext:
        """The context of the attempt's own agent."""
        return self._context(agent, budget, frozenset(self.toolbox.tools), 0)

    def _context(self, agent: str, budget: Budget, names: frozenset[str], depth: int) -> AttemptContext:
        return self.base(
            tools=AgentTools(self.toolbox, agent, budget, names),
            llm=self.models.model(agent, budget) if self.models else None,
            budget=budget,
            delegate=partial(self._delegate, agent, budget, names, depth),
        )

    def _delegate(
        self, parent: str, budget: Budget, names: frozenset[str], depth: int, request: SubAgentRequest
    ) -> AttemptContext:
        if not _ROLE.fullmatch(request.role):
            raise InputError(f"{request.role!r} is not a valid role: expected a short lowercase name")
        wanted = names if request.tools is None else frozenset(request.tools)
        for unknown in sorted(wanted - names):
            hint = did_you_mean(unknown, names)
            raise InputError(f"{parent!r} has no tool {unknown!r}{hint} to give to sub-agent {request.role}")
        self.deadline.check()
        budget.check_spend()
        with self._lock:
            if self._names.total() >= _MOST:
                raise InputError(f"the limit is {_MOST} delegations per attempt")
            self._names[request.role] += 1
            child = f"{request.role}-{self._names[request.role]}"
        self.log.emit(Delegation(parent=parent, child=child, role=request.role, depth=depth + 1))
        share = budget.share(
            max_steps=request.max_steps, max_tokens=request.max_tokens, max_cost_usd=request.max_cost_usd
        )
        return self._context(child, share, wanted, depth + 1)
