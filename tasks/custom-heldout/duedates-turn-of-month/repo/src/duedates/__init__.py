"""When payments are due."""

from duedates.calendar import Calendar
from duedates.rules import (
    FRIDAY,
    MONDAY,
    SATURDAY,
    SUNDAY,
    THURSDAY,
    TUESDAY,
    WEDNESDAY,
    Monthly,
    MonthlyWeekday,
    Weekly,
)
from duedates.schedule import Payment, Schedule

__all__ = [
    "FRIDAY",
    "MONDAY",
    "SATURDAY",
    "SUNDAY",
    "THURSDAY",
    "TUESDAY",
    "WEDNESDAY",
    "Calendar",
    "Monthly",
    "MonthlyWeekday",
    "Payment",
    "Schedule",
    "Weekly",
]
