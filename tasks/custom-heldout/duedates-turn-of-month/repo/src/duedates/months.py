"""Counting in months."""

from __future__ import annotations

from calendar import monthrange
from datetime import date


def in_month(year: int, month: int, day: int) -> date:
    """This day of the month, or the last day of a month that is too short for it."""
    return date(year, month, min(day, monthrange(year, month)[1]))


def add_months(day: date, months: int) -> date:
    """The same day so many months later, or the last day of a month that is too short for it."""
    years, month = divmod(day.month - 1 + months, 12)
    return in_month(day.year + years, month + 1, day.day)
