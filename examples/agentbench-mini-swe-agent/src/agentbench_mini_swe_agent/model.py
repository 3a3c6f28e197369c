"""mini-swe-agent's contract for models, kept by the model of an attempt."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from jinja2 import StrictUndefined, Template
from minisweagent.exceptions import FormatError, InterruptAgentFlow
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)

from agentbench_core import AgentTurnStarted, AttemptContext, Completion, Message, Request, ToolCall, ToolSpec
from agentbench_mini_swe_agent.fitting import Fitting

_BASH = ToolSpec(**BASH_TOOL["function"], effect="runs")
_GIVEN_UP = {"refusal": "Refusal", "context_overflow": "ContextWindowExceeded"}
"""Answers after which there is no use in asking again, and the exit status that they become."""


class AttemptModel:
    """Asks the model of an attempt, by tool calls. What stops the attempt and what fails passes through."""

    def __init__(self, context: AttemptContext, config: Mapping[str, Any]) -> None:
        assert context.llm is not None, "registered with the capability needs_llm"
        self.config = config
        self._llm = context.llm
        self._log = context.log
        self._fitting = Fitting()
        self._turns = 0

    def query(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> dict[str, Any]:
        """The model's answer with its commands, as a message of mini-swe-agent. Raises FormatError for others."""
        self._turns += 1
        self._log.emit(AgentTurnStarted(turn=self._turns))
        answer = self._ask([_message(message) for message in messages])
        if status := _GIVEN_UP.get(answer.finish):
            ended = {"exit_status": status, "submission": ""}
            raise InterruptAgentFlow({"role": "exit", "content": answer.message.content, "extra": ended})
        cost = (answer.usage.cost_usd if answer.usage else None) or 0.0
        extra: dict[str, Any] = {"message": answer.message, "cost": cost, "timestamp": time.time()}
        said = {"role": "assistant", "content": answer.message.content, "extra": extra}
        extra["actions"] = self._actions(answer, said)
        return said

    def _ask(self, messages: Sequence[Message]) -> Completion:
        while True:
            request = Request(messages=self._fitting.shown(messages), tools=(_BASH,))
            answer = self._llm.complete(request)
            if answer.finish != "context_overflow" or not self._fitting.shrink(messages):
                return answer

    def _actions(self, answer: Completion, said: dict[str, Any]) -> list[dict[str, Any]]:
        """The commands. What cannot be read is answered where the model expects it: as the results of its calls."""
        calls = answer.message.tool_calls
        try:
            if problem := next((call.problem for call in calls if call.problem), ""):
                raise FormatError({"role": "user", "content": self._complaint(problem, answer.finish)})
            actions: list[dict[str, Any]] = parse_toolcall_actions(
                [_as_parsed(call) for call in calls],
                format_error_template=self.config["format_error_template"],
                template_kwargs={"finish_reason": answer.finish},
            )
        except FormatError as error:
            if not calls:
                error.messages[0].setdefault("extra", {})["cost"] = said["extra"]["cost"]
                raise
            content = error.messages[0]["content"]
            results = [{"role": "tool", "tool_call_id": call.id, "content": content} for call in calls]
            raise FormatError(said, *results) from None
        return actions

    def _complaint(self, problem: str, finish: str) -> str:
        template = Template(self.config["format_error_template"], undefined=StrictUndefined)
        return str(template.render(error=problem, actions=[], has_tool_calls=True, finish_reason=finish))

    def format_message(self, **kwargs: Any) -> dict[str, Any]:
        """A message as it is: there are no pictures."""
        return kwargs

    def format_observation_messages(
        self,
        message: Mapping[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """What commands gave, by mini-swe-agent's own template."""
        found: list[dict[str, Any]] = format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self.config["observation_template"],
            template_vars=template_vars,
        )
        return found

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """What prompts may name."""
        return {**self.config, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """Nothing: AgentBench keeps the evidence."""
        return {}


def _message(given: Mapping[str, Any]) -> Message:
    answer = given.get("extra", {}).get("message")
    if isinstance(answer, Message):
        return answer  # with what its provider wants to see again
    return Message(role=given["role"], content=given["content"], tool_call_id=given.get("tool_call_id", ""))


def _as_parsed(call: ToolCall) -> SimpleNamespace:
    """A call in the form in which mini-swe-agent's parser meets one."""
    return SimpleNamespace(
        id=call.id, function=SimpleNamespace(name=call.tool, arguments=json.dumps(dict(call.arguments)))
    )
