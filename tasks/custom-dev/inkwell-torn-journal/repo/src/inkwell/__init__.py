"""An append-only journal of binary records."""

from inkwell.decoder import DamagedRecord, Decoder
from inkwell.encoder import encode
from inkwell.journal import Journal, read

__all__ = ["DamagedRecord", "Decoder", "Journal", "encode", "read"]
