"""mini-swe-agent's interface for models, implemented with the model of an attempt."""

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
from agentbench_mini_swe_agent.window import Window

_BASH = ToolSpec(**BASH_TOOL["function"], effect="runs")
_FINAL = {"refusal": "Refusal", "context_overflow": "ContextWindowExceeded"}
"""Finish reasons that end the attempt, with mini-swe-agent's exit status for each."""


class AttemptModel:
    """Calls an attempt's model, offering one tool. Errors propagate unchanged."""

    def __init__(self, context: AttemptContext, config: Mapping[str, Any]) -> None:
        assert context.llm is not None, "registered with the needs_llm capability"
        self.config = config
        self._llm = context.llm
        self._log = context.log
        self._window = Window()
        self._turns = 0

    def query(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> dict[str, Any]:
        """The model's response as a mini-swe-agent message. Raises FormatError if it contains no valid command."""
        self._turns += 1
        self._log.emit(AgentTurnStarted(turn=self._turns))
        answer = self._complete([_message(message) for message in messages])
        if status := _FINAL.get(answer.finish):
            final = {"exit_status": status, "submission": ""}
            raise InterruptAgentFlow({"role": "exit", "content": answer.message.content, "extra": final})
        cost = (answer.usage.cost_usd if answer.usage else None) or 0.0
        extra: dict[str, Any] = {"message": answer.message, "cost": cost, "timestamp": time.time()}
        message = {"role": "assistant", "content": answer.message.content, "extra": extra}
        extra["actions"] = self._actions(answer, message)
        return message

    def _complete(self, messages: Sequence[Message]) -> Completion:
        while True:
            request = Request(messages=self._window.shown(messages), tools=(_BASH,))
            answer = self._llm.complete(request)
            if answer.finish != "context_overflow" or not self._window.shrink(messages):
                return answer

    def _actions(self, answer: Completion, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The commands of a response. If its calls are invalid, the error becomes the result of each call."""
        calls = answer.message.tool_calls
        try:
            if problem := next((call.problem for call in calls if call.problem), ""):
                raise FormatError({"role": "user", "content": self._format_error(problem, answer.finish)})
            actions: list[dict[str, Any]] = parse_toolcall_actions(
                [_as_parsed(call) for call in calls],
                format_error_template=self.config["format_error_template"],
                template_kwargs={"finish_reason": answer.finish},
            )
        except FormatError as error:
            if not calls:
                error.messages[0].setdefault("extra", {})["cost"] = message["extra"]["cost"]
                raise
            content = error.messages[0]["content"]
            results = [{"role": "tool", "tool_call_id": call.id, "content": content} for call in calls]
            raise FormatError(message, *results) from None
        return actions

    def _format_error(self, problem: str, finish: str) -> str:
        template = Template(self.config["format_error_template"], undefined=StrictUndefined)
        return str(template.render(error=problem, actions=[], has_tool_calls=True, finish_reason=finish))

    def format_message(self, **kwargs: Any) -> dict[str, Any]:
        """The unchanged message, since images are not supported."""
        return kwargs

    def format_observation_messages(
        self,
        message: Mapping[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """The results of commands, formatted with mini-swe-agent's own template."""
        formatted: list[dict[str, Any]] = format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self.config["observation_template"],
            template_vars=template_vars,
        )
        return formatted

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Variables for templates."""
        return {**self.config, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """Empty: AgentBench records the evidence."""
        return {}


def _message(data: Mapping[str, Any]) -> Message:
    answer = data.get("extra", {}).get("message")
    if isinstance(answer, Message):
        return answer  # with opaque data from its provider
    return Message(role=data["role"], content=data["content"], tool_call_id=data.get("tool_call_id", ""))


def _as_parsed(call: ToolCall) -> SimpleNamespace:
    """A call in the form that mini-swe-agent's parser expects."""
    return SimpleNamespace(
        id=call.id, function=SimpleNamespace(name=call.tool, arguments=json.dumps(dict(call.arguments)))
    )
