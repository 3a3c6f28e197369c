"""Messages in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from pipegram.decoder import Decoder
from pipegram.encoder import encode
from pipegram.message import Message


def write_messages(file: BinaryIO, messages: Iterable[Message]) -> None:
    """Append messages to a file."""
    for message in messages:
        file.write(encode(message))


def read_messages(file: BinaryIO, *, block: int = 4096) -> Iterator[Message]:
    """The messages in a file, which is read in blocks."""
    decoder = Decoder()
    while data := file.read(block):
        yield from decoder.feed(data)
