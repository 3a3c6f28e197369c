"""The conversation of one agent with its model, as evidence: each line contains only the new parts of a call."""

from __future__ import annotations

import threading

from agentbench_core.evidence import layout
from agentbench_core.run.recording import Evidence
from agentbench_core.values.messages import Completion, ConversationEntry, Message, Request, ToolSpec


class Conversation:
    """Writes the answered calls of one agent. Thread-safe."""

    def __init__(self, files: Evidence, agent: str) -> None:
        self._files = files
        self._agent = agent
        self._lock = threading.Lock()
        self._answered: tuple[Message, ...] = ()
        """The messages of the last answered request."""
        self._written: tuple[Message, ...] = ()
        """These messages and the response, which are already written."""
        self._tools: tuple[ToolSpec, ...] | None = None
        self._read = 0
        """Number of tokens in ``_answered`` and ``_tools``, as counted by the server; 0 if unknown."""

    def most_tokens(self, request: Request) -> int:
        """Upper bound of a request's tokens: the server's last count, if it applies, plus one per new byte."""
        with self._lock:
            known = len(self._answered)
            if self._read and self._tools == request.tools and request.messages[:known] == self._answered:
                return self._read + sum(message.size for message in request.messages[known:])
        return sum(tool.size for tool in request.tools) + sum(message.size for message in request.messages)

    def add(self, call: int, request: Request, completion: Completion) -> None:
        """Write one call: its number, its request with all settings, and the response."""
        with self._lock:
            # Skip messages that are already written, with or without the last response, which the agent may not have
            # kept.
            lengths = (len(self._written), len(self._answered))
            since = next((n for n in lengths if request.messages[:n] == self._written[:n]), 0)
            line = ConversationEntry(
                call=call,
                agent=self._agent,
                model=request.model,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                top_p=request.top_p,
                tools=None if request.tools == self._tools else request.tools,
                since=since,
                messages=request.messages[since:],
                completion=completion,
            )
            self._files.append_json(layout.CONVERSATION, line)
            self._answered, self._tools = request.messages, request.tools
            self._written = (*request.messages, completion.message)
            self._read = completion.usage.prompt_tokens if completion.usage else 0
