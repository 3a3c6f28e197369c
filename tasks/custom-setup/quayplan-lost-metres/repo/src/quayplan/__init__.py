"""Who lies where along a quay."""

from quayplan.errors import NoRoom, QuayError, UnknownShip
from quayplan.logbook import play
from quayplan.quay import Quay
from quayplan.spans import Span, SpanSet

__all__ = ["NoRoom", "Quay", "QuayError", "Span", "SpanSet", "UnknownShip", "play"]
