"""Keeps a conversation within the model's context window, which mini-swe-agent does not do."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from agentbench_core import Message

_SHORTEST = 400  # maximum characters of output that is never dropped


@attrs.define
class Window:
    """Remembers which observations of a conversation were dropped. Messages are only ever appended to it."""

    _dropped: set[int] = attrs.field(factory=set)

    def shown(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The conversation without the dropped observations."""
        return tuple(_short(message) if index in self._dropped else message for index, message in enumerate(messages))

    def shrink(self, messages: Sequence[Message]) -> bool:
        """Drop the oldest observations until half of the size is left, and return whether any was dropped."""
        sizes = [message.size for message in self.shown(messages)]
        over = sum(sizes) / 2
        before = len(self._dropped)
        for index, message in enumerate(messages):
            if over <= 0:
                break
            if message.role == "tool" and index not in self._dropped and len(message.content) > _SHORTEST:
                self._dropped.add(index)
                over -= sizes[index] - _short(message).size
        return len(self._dropped) > before


def _short(message: Message) -> Message:
    note = f"[{len(message.content)} characters of output dropped: the conversation grew too long]"
    return attrs.evolve(message, content=note)
