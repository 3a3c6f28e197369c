"""A time sheet in plain text, and the hours worked per day and week."""

from daybook import zones
from daybook.book import Book
from daybook.entries import Entry
from daybook.periods import Period, day_period, week_period
from daybook.sheet import SheetError, read_sheet

__all__ = ["Book", "Entry", "Period", "SheetError", "day_period", "read_sheet", "week_period", "zones"]
