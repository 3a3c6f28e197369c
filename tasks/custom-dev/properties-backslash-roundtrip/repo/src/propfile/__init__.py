"""Read and write .properties files."""

from propfile.document import Document
from propfile.errors import PropertiesError
from propfile.reader import loads
from propfile.writer import dumps

__all__ = ["Document", "PropertiesError", "dumps", "loads"]
