"""All entries together, and what they add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta, tzinfo

from daybook.entries import Entry
from daybook.periods import Period, day_period, days, week_period


class Book:
    """The entries of a time sheet, in the order of time, seen from one time zone."""

    def __init__(self, entries: Iterable[Entry], zone: tzinfo) -> None:
        self.zone = zone
        self.entries = tuple(sorted(entries, key=lambda entry: (entry.period.start, entry.period.end)))

    def on(self, day: date) -> list[Entry]:
        """The entries of which some part is on ``day``."""
        period = day_period(day, self.zone)
        return [entry for entry in self.entries if entry.period.overlap(period)]

    def worked_on(self, day: date) -> timedelta:
        """The time worked on ``day``."""
        return self._worked(day_period(day, self.zone))

    def worked_in_week(self, day: date) -> timedelta:
        """The time worked in the week that ``day`` is in."""
        return self._worked(week_period(day, self.zone))

    def by_title(self) -> dict[str, timedelta]:
        """The time spent per title, the longest first."""
        totals: defaultdict[str, timedelta] = defaultdict(timedelta)
        for entry in self.entries:
            totals[entry.title] += entry.duration
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def report(self, first: date, last: date) -> str:
        """Hours per day, ``first`` to ``last``, and their total."""
        worked = {day: self.worked_on(day) for day in days(first, last)}
        lines = [f"{day:%Y-%m-%d} {_WEEKDAYS[day.weekday()]} {hours(time):>6}" for day, time in worked.items()]
        lines.append(f"{'total':<14} {hours(sum(worked.values(), timedelta())):>6}")
        return "\n".join(lines)

    def _worked(self, period: Period) -> timedelta:
        return sum((entry.period.overlap(period) for entry in self.entries), timedelta())


_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def hours(time: timedelta) -> str:
    """``time`` in hours and minutes, such as ``7:45``."""
    minutes = time // timedelta(minutes=1)
    return f"{minutes // 60}:{minutes % 60:02}"
