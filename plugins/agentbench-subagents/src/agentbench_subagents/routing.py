"""The ``subagents`` agent: a router, and a searcher, a patcher and a tester with shares of its budget."""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

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
    quantity,
    rerun,
)
from agentbench_subagents.checking import RecordingTools
from agentbench_subagents.consulting import Consultation, Failure, Role, accept_all
from agentbench_subagents.options import SubagentsOptions
from agentbench_subagents.prompt_text import Change, Known, PromptText, messages_of
from agentbench_subagents.reports import Decision, PatchReport, SearchReport, TestReport
from agentbench_subagents.reverting import reverse

R = TypeVar("R")

_PATCH_TOOL = "apply_patch"
"""The tool that applies patches: it takes a diff, and returns the offsets of its hunks."""
_RESERVED = 2
"""Number of steps withheld from sub-agents: one to apply a patch and one to run the command."""


@attrs.frozen(kw_only=True)
class Roles:
    """The router and its sub-agents."""

    router: Role[Decision]
    searcher: Role[SearchReport]
    patcher: Role[PatchReport]
    tester: Role[TestReport]
    prompt_version: str

    @property
    def version(self) -> str:
        """``subagents_v2@sha256:...``, a digest of all prompts and report tools."""
        roles = (self.router, self.searcher, self.patcher, self.tester)
        parts = [[role.prompt.text, role.spec.description, role.spec.parameters] for role in roles]
        return Prompt(f"subagents_{self.prompt_version}", json.dumps(parts, sort_keys=True)).version


@functools.cache
def roles(version: str) -> Roles:
    """The roles, with the prompts of a version."""

    def prompt(role: str) -> Prompt:
        return Prompt.read("agentbench_subagents", f"{role}_{version}")

    messages, schemas = messages_of(version), _schemas(version)
    purpose = messages("report_purpose")
    return Roles(
        router=Role(
            name="router",
            prompt=prompt("router"),
            report=Decision,
            report_tool="decide",
            purpose=messages("decide_purpose"),
            parameters=schemas.get("router"),
        ),
        searcher=Role(
            name="searcher",
            prompt=prompt("searcher"),
            reads=True,
            report=SearchReport,
            purpose=purpose,
            parameters=schemas.get("searcher"),
        ),
        patcher=Role(
            name="patcher",
            prompt=prompt("patcher"),
            reads=True,
            report=PatchReport,
            purpose=purpose,
            parameters=schemas.get("patcher"),
        ),
        tester=Role(
            name="tester",
            prompt=prompt("tester"),
            report=TestReport,
            purpose=purpose,
            parameters=schemas.get("tester"),
        ),
        prompt_version=version,
    )


def _schemas(version: str) -> Mapping[str, Mapping[str, Any]]:
    """Schemas of report tools by role, as sent in that version; others use the schema of the report class."""
    if version != "v1":
        return {}
    file = importlib.resources.files("agentbench_subagents") / "prompts" / "reports_v1.json"
    return json.loads(file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@attrs.frozen
class Subagents:
    """A router that directs the repair, and the sub-agents that carry it out."""

    options: SubagentsOptions

    def solve(self, context: AttemptContext) -> AgentResult:
        """Work until the command passes, the router stops, or there is no more progress."""
        version = roles(self.options.prompt_version).version
        context.report_prompt_version(version)  # recorded even if the attempt ends with an exception
        if missing := list(_missing(context.tools.specs)):
            message = f"the 'subagents' agent requires {' and '.join(missing)}"
            return AgentResult(ended="tool_error", message=message, prompt_version=version)
        return attrs.evolve(_Repair(context, self.options).run(), prompt_version=version)


class _Repair:
    """One attempt: the state of the repair, and counts of consecutive failures."""

    def __init__(self, context: AttemptContext, options: SubagentsOptions) -> None:
        self._context = context
        self._options = options
        self._roles = roles(options.prompt_version)
        self._messages = messages_of(options.prompt_version)
        self._text = PromptText(self._messages)
        first = rerun(context)  # in the sandbox; it uses one step
        self._known = Known(command=context.failing_command, instruction=context.instruction, first=first)
        self._same_failures = 0
        self._futile = 0

    def run(self) -> AgentResult:
        router = Consultation(self._roles.router, self._context, self._options, tries=self._options.report_tries)
        outcome = self._text.router_opening(self._known)
        for _ in range(self._options.max_rounds):
            decision = router.ask(outcome)
            if isinstance(decision, Failure):
                return _gave_up(f"the router failed: {decision.reason}")
            if decision.action == "stop":
                return self._stopped(decision.task)
            outcome = self._do(decision)
            if self._known.last.passed and not self._known.first.passed:  # otherwise only hidden tests show the defect
                return AgentResult(message="the failing command passes")
            if self._same_failures >= self._options.same_failure:
                changes = quantity(self._same_failures, "change")
                return _gave_up(f"the command still fails in the same way after {changes}")
            if self._futile >= self._options.idle_turns:
                decisions = quantity(self._futile, "consecutive decision")
                return _gave_up(f"{decisions} could not be carried out; last problem: {outcome}")
        rounds = self._options.max_rounds
        state = "the router had not stopped" if self._known.last.passed else "the command still fails"
        return _gave_up(f"{state} after {quantity(rounds, 'decision')} (max_rounds)")

    def _stopped(self, why: str) -> AgentResult:
        message = f"the router stopped: {why}"
        return AgentResult(message=message) if self._known.last.passed else _gave_up(message)

    def _do(self, decision: Decision) -> str:
        """Carry out a decision, and return a message for the router. Raises BudgetExceeded if no steps are left."""
        if self._context.budget.steps_left == 0:
            rerun(self._context)  # raises BudgetExceeded, which ends the agent; its change is still scored
        if problem := self._obstacle(decision):
            self._futile += 1
            return problem
        self._futile = 0
        if decision.action == "search":
            return self._search(decision.task)
        if decision.action == "patch":
            return self._patch(decision.task)
        return self._undo() if decision.action == "undo" else self._test(decision.task)

    def _obstacle(self, decision: Decision) -> str:
        """Why a decision cannot be carried out; empty if it can be."""
        steps = self._options.searcher_steps
        if decision.action == "search" and steps and self._share(steps) == 0:
            return self._text.failed("searcher", self._messages("reserved_steps", steps=_RESERVED))
        if decision.action == "undo" and not self._known.changes:
            return self._messages("nothing_to_revert")
        return ""

    def _search(self, task: str) -> str:
        role, options = self._roles.searcher, self._options
        child = self._delegated(role, options.searcher_tokens, options.searcher_steps)
        tools = RecordingTools(child.tools, child.budget)
        child = attrs.evolve(child, tools=tools)
        report = self._consult(role, child, self._text.assignment(self._known, task), accept=tools.unreadable)
        if isinstance(report, Failure):
            return self._text.failed(role.name, report.reason)
        report = tools.checked(report, self._messages("not_read"))
        known = self._known.findings
        self._known = attrs.evolve(self._known, findings=report if known is None else report.after(known))
        return self._text.findings(report)

    def _patch(self, task: str) -> str:
        """Have the patcher report a diff, apply it, and rerun the command.

        The patcher itself cannot change files. Its diff is applied as soon as it is reported: a diff that does not
        apply is returned to it as a rejected report, with the problem.
        """
        role, options = self._roles.patcher, self._options
        applied = ToolResult.success()

        def apply(report: PatchReport) -> str:
            nonlocal applied
            applied = self._apply(report.unified_diff)
            return _problem(applied)

        child = self._delegated(role, options.patcher_tokens, options.patcher_steps)
        report = self._consult(role, child, self._text.assignment(self._known, task), accept=apply)
        if isinstance(report, Failure):
            return self._text.failed(role.name, report.reason)
        run = rerun(self._context)
        same = run.digest == self._known.last.digest and not run.passed
        self._same_failures = self._same_failures + 1 if same else 0
        undo = reverse(report.unified_diff, applied.fields.get("moved", {}))
        change = Change(diff=report.unified_diff, undo=undo, run=run)
        self._known = attrs.evolve(self._known, changes=(*self._known.changes, change), advice="")
        return self._text.applied(report, self._known, self._same_failures)

    def _undo(self) -> str:
        *others, last = self._known.changes
        if problem := _problem(self._apply(last.undo)):
            return self._messages("cannot_revert", problem=problem)
        reverted = (*self._known.reverted, last.diff)
        self._known = attrs.evolve(self._known, changes=tuple(others), reverted=reverted, advice="")
        return self._text.reverted(self._known)

    def _test(self, task: str) -> str:
        """Request the tester's advice on the latest output; nothing is run."""
        role = self._roles.tester
        child = self._delegated(role, self._options.tester_tokens, 0)
        report = self._consult(role, child, self._text.evaluation(self._known, task))
        if isinstance(report, Failure):
            return self._text.failed(role.name, report.reason)
        self._known = attrs.evolve(self._known, advice=report.advice)
        return self._text.evaluated(report)

    def _apply(self, diff: str) -> ToolResult:
        return self._context.tools.call(ToolCall(tool=_PATCH_TOOL, arguments={"unified_diff": diff}))

    def _delegated(self, role: Role[R], tokens: int, steps: int) -> AttemptContext:
        """The context of a sub-agent, with a share of the remaining budget."""
        tools = [spec.name for spec in role.tools(self._context.tools.specs)]
        request = SubAgentRequest(role=role.name, tools=tools, max_steps=self._share(steps), max_tokens=tokens)
        return self._context.delegate(request)

    def _consult(
        self, role: Role[R], child: AttemptContext, task: str, *, accept: Callable[[R], str] = accept_all
    ) -> R | Failure:
        """Give a sub-agent a task, and return its first report for which ``accept`` returns no problem."""
        try:
            consultation = Consultation(role, child, self._options, tries=self._options.report_tries, accept=accept)
            return consultation.ask(task)
        except BudgetExceeded as error:
            if error.budget is not child.budget:  # the whole budget is used up, not only its share
                raise
            return Failure(f"its share of the budget is used up: {error.message}")

    def _share(self, steps: int) -> int:
        """``steps``, but no more than remain after the reserved steps."""
        left = self._context.budget.steps_left
        return steps if left is None else max(0, min(steps, left - _RESERVED))


def _missing(offered: Sequence[ToolSpec]) -> Iterator[str]:
    """Descriptions of the required tools that are not offered."""
    if not any(spec.name == _PATCH_TOOL for spec in offered):
        yield f"the {_PATCH_TOOL} tool"
    if not any(spec.runs_commands for spec in offered):
        yield "a tool that runs commands"


def _gave_up(why: str) -> AgentResult:
    return AgentResult(ended="gave_up", message=why)


def _problem(result: ToolResult) -> str:
    return "" if result.ok else f"{result.error_type}: {result.error_message}"
