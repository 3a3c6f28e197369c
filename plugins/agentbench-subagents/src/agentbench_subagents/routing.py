"""The agent ``subagents``: a router decides; a searcher, a patcher and a tester do it, each with its own share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TypeVar

import attrs

from agentbench_core import (
    AgentResult,
    AttemptContext,
    BudgetExceeded,
    Mandate,
    Prompt,
    ToolCall,
    rerun,
)
from agentbench_subagents import wording
from agentbench_subagents.consulting import Consultation, Failure, Role, accept_all
from agentbench_subagents.options import SubagentsOptions
from agentbench_subagents.reports import Decision, PatchReport, SearchReport, TestReport
from agentbench_subagents.wording import Known

R = TypeVar("R")

_NEEDED = {"apply_patch", "run"}
_KEPT = 2
"""Steps that no sub-agent gets: to apply a patch, and to run the command."""


@attrs.frozen(kw_only=True)
class Roles:
    """Everybody who takes part."""

    router: Role[Decision]
    searcher: Role[SearchReport]
    patcher: Role[PatchReport]
    tester: Role[TestReport]

    @property
    def version(self) -> str:
        """``subagents_v1@sha256:...`` over all prompts, and all that is asked for."""
        roles = (self.router, self.searcher, self.patcher, self.tester)
        said = [[role.prompt.text, role.spec.description, role.spec.parameters] for role in roles]
        return Prompt("subagents_v1", json.dumps(said, sort_keys=True)).version


@functools.cache
def roles() -> Roles:
    """The roles, with their prompts."""
    read = functools.partial(Prompt.read, "agentbench_subagents")
    looking = frozenset({"list_files", "read_file", "search"})
    return Roles(
        router=Role(
            name="router",
            prompt=read("router_v1"),
            report=Decision,
            handing_in="decide",
            purpose="Decide what is done next. The result tells what came of it.",
        ),
        searcher=Role(
            name="searcher", prompt=read("searcher_v1"), tools=looking | {"locate_failures"}, report=SearchReport
        ),
        patcher=Role(name="patcher", prompt=read("patcher_v1"), tools=looking, report=PatchReport),
        tester=Role(name="tester", prompt=read("tester_v1"), report=TestReport),
    )


@attrs.frozen
class Subagents:
    """Directs a repair by typed decisions."""

    options: SubagentsOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work until the command passes, the router stops, or nothing gets any further."""
        context.uses_prompt(roles().version)
        missing = _NEEDED - {spec.name for spec in context.tools.specs}
        if missing:
            said = f"nothing can be repaired here without the tool {', '.join(sorted(missing))}"
            return AgentResult(ended="tool_error", message=said, prompt_version=roles().version)
        return attrs.evolve(_Repair(context, self.options).run(), prompt_version=roles().version)


class _Repair:
    """One attempt: what is known so far, and how often it failed in the same way."""

    def __init__(self, context: AttemptContext, options: SubagentsOptions) -> None:
        self._context = context
        self._options = options
        self._roles = roles()
        self._known = Known(command=context.failing_command, instruction=context.instruction)
        self._last = rerun(context)
        self._before = self._last.output
        self._passes_already = self._last.passed
        """Then hidden tests judge, and the router says when it is done."""
        self._alike = 0

    def run(self) -> AgentResult:
        router = Consultation(self._roles.router, self._context, self._options, tries=self._options.report_tries)
        came_of_it = wording.router_opening(self._known)
        for _ in range(self._options.max_rounds):
            decision = router.ask(came_of_it)
            if isinstance(decision, Failure):
                return AgentResult(ended="gave_up", message=f"the router: {decision.reason}")
            if decision.action == "stop":
                return self._stopped(decision.task)
            came_of_it = self._do(decision)
            if self._last.passed and not self._passes_already:
                return AgentResult(message="the failing command passes")
            if self._alike >= self._options.same_failure:
                said = f"the command fails in the same way after {self._alike} changes"
                return AgentResult(ended="gave_up", message=said)
        return AgentResult(
            ended="gave_up", message=f"{self._options.max_rounds} decisions did not make the command pass"
        )

    def _stopped(self, why: str) -> AgentResult:
        said = f"the router stopped: {why}"
        return AgentResult(message=said) if self._last.passed else AgentResult(ended="gave_up", message=said)

    def _do(self, decision: Decision) -> str:
        """Have a decision carried out; what came of it, for the router. Raises BudgetExceeded without a step left."""
        if self._context.budget.steps_left == 0:
            rerun(self._context)  # whatever needs a step is refused now: so the harness hears of it
        if decision.action == "search":
            return self._search(decision.task)
        if decision.action == "patch":
            return self._patch(decision.task)
        return self._test(decision.task)

    def _search(self, task: str) -> str:
        options = self._options
        if options.searcher_steps and self._share(options.searcher_steps) == 0:
            return wording.failed("searcher", f"the last {_KEPT} steps are for a patch and to run the command")
        report = self._consult(
            self._roles.searcher, wording.assignment(self._known, task), options.searcher_tokens, options.searcher_steps
        )
        if isinstance(report, Failure):
            return wording.failed("searcher", report.reason)
        self._known = attrs.evolve(self._known, findings=report)
        return wording.findings(report)

    def _patch(self, task: str) -> str:
        options = self._options
        report = self._consult(
            self._roles.patcher,
            wording.assignment(self._known, task),
            options.patcher_tokens,
            options.patcher_steps,
            self._applied,
        )
        if isinstance(report, Failure):
            return wording.failed("patcher", report.reason)
        found = rerun(self._context)
        self._alike = self._alike + 1 if found.digest == self._last.digest and not found.passed else 0
        self._before, self._last = self._last.output, found
        applied = (*self._known.applied, report.unified_diff)
        self._known = attrs.evolve(self._known, applied=applied, output=found.output, advice="")
        return wording.patched(report, self._known.command, found.output, passes=found.passed, alike=self._alike)

    def _test(self, task: str) -> str:
        told = wording.judgement(self._known, self._before, task)
        report = self._consult(self._roles.tester, told, self._options.tester_tokens, 0)
        if isinstance(report, Failure):
            return wording.failed("tester", report.reason)
        self._known = attrs.evolve(self._known, advice=report.advice)
        return wording.judged(report)

    def _applied(self, report: PatchReport) -> str:
        """Apply a patch; what is wrong with it, for the patcher."""
        result = self._context.tools.call(ToolCall(tool="apply_patch", arguments={"unified_diff": report.unified_diff}))
        return "" if result.ok else f"{result.error_type}: {result.error_message}"

    def _consult(
        self, role: Role[R], task: str, tokens: int, steps: int, accept: Callable[[R], str] = accept_all
    ) -> R | Failure:
        """Have a sub-agent do something with a share of what is left."""
        context = self._context
        offered = {spec.name for spec in context.tools.specs}
        mandate = Mandate(role=role.name, tools=role.tools & offered, max_steps=self._share(steps), max_tokens=tokens)
        child = context.delegate(mandate)
        try:
            consultation = Consultation(role, child, self._options, tries=self._options.report_tries, accept=accept)
            return consultation.ask(task)
        except BudgetExceeded as error:
            if error.whose is not child.budget:  # more is over than its share
                raise
            return Failure(f"its share of the budget is used up: {error.message}")

    def _share(self, steps: int) -> int:
        """So many steps, or what is left but for those that are kept."""
        left = self._context.budget.steps_left
        return steps if left is None else max(0, min(steps, left - _KEPT))
