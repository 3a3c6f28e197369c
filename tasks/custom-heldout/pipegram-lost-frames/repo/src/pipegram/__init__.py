"""Messages over a line of bytes."""

from pipegram.decoder import Decoder, Statistics
from pipegram.encoder import encode
from pipegram.message import Message
from pipegram.recordings import read_messages, write_messages

__all__ = ["Decoder", "Message", "Statistics", "encode", "read_messages", "write_messages"]
