"""Find words as readers look for them, and mark them."""

from spotlight.marking import excerpt, mark
from spotlight.search import find
from spotlight.spans import Span

__all__ = ["Span", "excerpt", "find", "mark"]
