"""The agent ``subagents``: a router decides; a searcher, a patcher and a tester do it, each with its own share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import attrs

from agentbench_core import (
    AgentResult,
    AttemptContext,
    BudgetExceeded,
    Prompt,
    SubAgentRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
    rerun,
)
from agentbench_subagents import wording
from agentbench_subagents.checking import Looking
from agentbench_subagents.consulting import Consultation, Failure, Role, accept_all
from agentbench_subagents.options import SubagentsOptions
from agentbench_subagents.reports import Decision, PatchReport, SearchReport, TestReport
from agentbench_subagents.undoing import reverse
from agentbench_subagents.wording import Change, Known

R = TypeVar("R")

_PATCHING = "apply_patch"
"""The tool by which patches are applied: it takes a diff, and says where its hunks went."""
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
    return Roles(
        router=Role(
            name="router",
            prompt=read("router_v1"),
            report=Decision,
            handing_in="decide",
            purpose="Decide what is done next. The result tells what came of it.",
        ),
        searcher=Role(name="searcher", prompt=read("searcher_v1"), reads=True, report=SearchReport),
        patcher=Role(name="patcher", prompt=read("patcher_v1"), reads=True, report=PatchReport),
        tester=Role(name="tester", prompt=read("tester_v1"), report=TestReport),
    )


@attrs.frozen
class Subagents:
    """Directs a repair by typed decisions."""

    options: SubagentsOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work until the command passes, the router stops, or nothing gets any further."""
        context.report_prompt_version(roles().version)
        if missing := list(_missing(context.tools.specs)):
            said = f"nothing can be repaired here without {' and '.join(missing)}"
            return AgentResult(ended="tool_error", message=said, prompt_version=roles().version)
        return attrs.evolve(_Repair(context, self.options).run(), prompt_version=roles().version)


class _Repair:
    """One attempt: what is known so far, and how often it failed in the same way."""

    def __init__(self, context: AttemptContext, options: SubagentsOptions) -> None:
        self._context = context
        self._options = options
        self._roles = roles()
        self._known = Known(command=context.failing_command, instruction=context.instruction, first=rerun(context))
        self._alike = 0
        self._in_vain = 0

    def run(self) -> AgentResult:
        router = Consultation(self._roles.router, self._context, self._options, tries=self._options.report_tries)
        came_of_it = wording.router_opening(self._known)
        for _ in range(self._options.max_rounds):
            decision = router.ask(came_of_it)
            if isinstance(decision, Failure):
                return _gave_up(f"the router: {decision.reason}")
            if decision.action == "stop":
                return self._stopped(decision.task)
            came_of_it = self._do(decision)
            if self._known.last.passed and not self._known.first.passed:
                return AgentResult(message="the failing command passes")
            if self._alike >= self._options.same_failure:
                return _gave_up(f"the command fails in the same way after {self._alike} changes")
            if self._in_vain >= self._options.idle_turns:
                return _gave_up(f"{self._in_vain} decisions in a row were in vain; the last: {came_of_it}")
        return _gave_up(f"{self._options.max_rounds} decisions did not make the command pass")

    def _stopped(self, why: str) -> AgentResult:
        said = f"the router stopped: {why}"
        return AgentResult(message=said) if self._known.last.passed else _gave_up(said)

    def _do(self, decision: Decision) -> str:
        """Have a decision carried out; what came of it, for the router. Raises BudgetExceeded without a step left."""
        if self._context.budget.steps_left == 0:
            rerun(self._context)  # whatever needs a step is refused now: so the harness hears of it
        if problem := self._in_the_way(decision):
            self._in_vain += 1
            return problem
        self._in_vain = 0
        if decision.action == "search":
            return self._search(decision.task)
        if decision.action == "patch":
            return self._patch(decision.task)
        return self._undo() if decision.action == "undo" else self._test(decision.task)

    def _in_the_way(self, decision: Decision) -> str:
        """Why nothing can come of a decision."""
        steps = self._options.searcher_steps
        if decision.action == "search" and steps and self._share(steps) == 0:
            return wording.failed("searcher", f"the last {_KEPT} steps are for a patch and to run the command")
        if decision.action == "undo" and not self._known.changes:
            return "There is no change to take back."
        return ""

    def _search(self, task: str) -> str:
        role, options = self._roles.searcher, self._options
        child = self._delegated(role, options.searcher_tokens, options.searcher_steps)
        looking = Looking(child.tools, child.budget)
        child = attrs.evolve(child, tools=looking)
        report = self._consult(role, child, wording.assignment(self._known, task), looking.unknown)
        if isinstance(report, Failure):
            return wording.failed(role.name, report.reason)
        report = looking.checked(report)
        known = self._known.findings
        self._known = attrs.evolve(self._known, findings=report if known is None else report.after(known))
        return wording.findings(report)

    def _patch(self, task: str) -> str:
        role, options = self._roles.patcher, self._options
        applied = ToolResult.success()

        def apply(report: PatchReport) -> str:
            nonlocal applied
            applied = self._apply(report.unified_diff)
            return _problem(applied)

        child = self._delegated(role, options.patcher_tokens, options.patcher_steps)
        report = self._consult(role, child, wording.assignment(self._known, task), apply)
        if isinstance(report, Failure):
            return wording.failed(role.name, report.reason)
        found = rerun(self._context)
        self._alike = self._alike + 1 if found.digest == self._known.last.digest and not found.passed else 0
        undo = reverse(report.unified_diff, applied.fields.get("moved", {}))
        change = Change(diff=report.unified_diff, undo=undo, found=found)
        self._known = attrs.evolve(self._known, changes=(*self._known.changes, change), advice="")
        return wording.patched(report, self._known, self._alike)

    def _undo(self) -> str:
        *others, last = self._known.changes
        if problem := _problem(self._apply(last.undo)):
            return f"The last change could not be taken back: {problem}"
        taken_back = (*self._known.taken_back, last.diff)
        self._known = attrs.evolve(self._known, changes=tuple(others), taken_back=taken_back, advice="")
        return wording.undone(self._known)

    def _test(self, task: str) -> str:
        role = self._roles.tester
        child = self._delegated(role, self._options.tester_tokens, 0)
        report = self._consult(role, child, wording.judgement(self._known, task))
        if isinstance(report, Failure):
            return wording.failed(role.name, report.reason)
        self._known = attrs.evolve(self._known, advice=report.advice)
        return wording.judged(report)

    def _apply(self, diff: str) -> ToolResult:
        return self._context.tools.call(ToolCall(tool=_PATCHING, arguments={"unified_diff": diff}))

    def _delegated(self, role: Role[R], tokens: int, steps: int) -> AttemptContext:
        """What a sub-agent works in: a share of what is left."""
        tools = [spec.name for spec in role.tools(self._context.tools.specs)]
        mandate = SubAgentRequest(role=role.name, tools=tools, max_steps=self._share(steps), max_tokens=tokens)
        return self._context.delegate(mandate)

    def _consult(
        self, role: Role[R], child: AttemptContext, task: str, accept: Callable[[R], str] = accept_all
    ) -> R | Failure:
        """Have a sub-agent do something with its share."""
        try:
            consultation = Consultation(role, child, self._options, tries=self._options.report_tries, accept=accept)
            return consultation.ask(task)
        except BudgetExceeded as error:
            if error.budget is not child.budget:  # more is over than its share
                raise
            return Failure(f"its share of the budget is used up: {error.message}")

    def _share(self, steps: int) -> int:
        """So many steps, or what is left but for those that are kept."""
        left = self._context.budget.steps_left
        return steps if left is None else max(0, min(steps, left - _KEPT))


def _missing(offered: Sequence[ToolSpec]) -> Iterator[str]:
    """What a repair needs and no tool does."""
    if not any(spec.name == _PATCHING for spec in offered):
        yield f"the tool {_PATCHING}"
    if not any(spec.runs_commands for spec in offered):
        yield "a tool that runs commands"


def _gave_up(why: str) -> AgentResult:
    return AgentResult(ended="gave_up", message=why)


def _problem(result: ToolResult) -> str:
    return "" if result.ok else f"{result.error_type}: {result.error_message}"
