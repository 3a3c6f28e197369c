"""From bytes, however they arrive, to messages."""

from __future__ import annotations

from dataclasses import dataclass

from pipegram.checksum import SIZE, checksum
from pipegram.message import Message
from pipegram.stuffing import ESCAPE, FLAG, is_special, turned


@dataclass
class Statistics:
    """How many frames of each sort there were."""

    received: int = 0
    aborted: int = 0
    oversized: int = 0
    damaged: int = 0


class Decoder:
    """Finds the messages on a line of bytes."""

    def __init__(self, *, max_payload: int = 1024) -> None:
        self.max_payload = max_payload
        self.statistics = Statistics()
        self._content = bytearray()
        self._inside = False  # a frame
        self._escaped = False  # the next byte
        self._skipping = False  # the rest of the frame, which has been counted

    def feed(self, data: bytes) -> list[Message]:
        """The messages that ``data``, the next bytes on the line, completes."""
        messages: list[Message] = []
        for byte in data:
            if byte == FLAG:
                if self._inside:
                    messages += self._end()
                self._inside = not self._inside
                self._content.clear()
                self._escaped = self._skipping = False
            elif self._inside and not self._skipping:
                self._take(byte)
        return messages

    def _take(self, byte: int) -> None:
        """One more byte of the content."""
        if byte == ESCAPE and not self._escaped:
            self._escaped = True
            return
        if self._escaped:
            self._escaped = False
            byte = turned(byte)
            if not is_special(byte):
                self.statistics.damaged += 1
                self._skipping = True
                return
        self._content.append(byte)
        if len(self._content) > 1 + self.max_payload + SIZE:
            self.statistics.oversized += 1
            self._skipping = True

    def _end(self) -> list[Message]:
        """The message of the frame that a flag has ended, if it is one."""
        if self._skipping:
            return []
        if self._escaped:
            self.statistics.aborted += 1
            return []
        if not self._content:
            return []
        data, received = bytes(self._content[:-SIZE]), bytes(self._content[-SIZE:])
        if not data or checksum(data) != received:
            self.statistics.damaged += 1
            return []
        self.statistics.received += 1
        return [Message(data[0], data[1:])]
