"""From messages to frames."""

from __future__ import annotations

from pipegram.checksum import checksum
from pipegram.message import Message
from pipegram.stuffing import FLAG, stuff

_FLAG = bytes((FLAG,))


def encode(message: Message) -> bytes:
    """The frame of a message, with both of its flags."""
    data = bytes((message.kind,)) + message.payload
    return _FLAG + stuff(data) + checksum(data) + _FLAG
