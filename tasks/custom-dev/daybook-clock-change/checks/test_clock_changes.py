# agentbench-canary: 9d087860-f7f1-47f5-9f57-08085582b826
"""Days, weeks and entries where the clocks change."""

from datetime import date, datetime, timedelta

import pytest

from daybook import Book, Entry, Period, day_period, read_sheet, week_period
from daybook.periods import days
from daybook.zones import BERLIN, NEW_YORK, SYDNEY, UTC

ZONES = [BERLIN, NEW_YORK, SYDNEY, UTC]
CHANGES = [
    (BERLIN, date(2026, 3, 29), 23),
    (BERLIN, date(2026, 10, 25), 25),
    (BERLIN, date(2027, 3, 28), 23),
    (NEW_YORK, date(2026, 3, 8), 23),
    (NEW_YORK, date(2026, 11, 1), 25),
    (SYDNEY, date(2026, 10, 4), 23),
    (SYDNEY, date(2026, 4, 5), 25),
]


def book_of(sheet, zone):
    return Book(read_sheet(sheet, zone), zone)


@pytest.mark.parametrize(("zone", "day", "length"), CHANGES)
def test_length_of_the_day(zone, day, length):
    assert day_period(day, zone).duration == timedelta(hours=length)
    assert week_period(day, zone).duration == timedelta(hours=6 * 24 + length)


@pytest.mark.parametrize("zone", ZONES, ids=repr)
def test_days_follow_each_other_without_gap(zone):
    year = days(date(2026, 1, 1), date(2027, 1, 1))
    for day, following in zip(year, year[1:]):
        assert day_period(day, zone).end == day_period(following, zone).start


@pytest.mark.parametrize("zone", ZONES, ids=repr)
def test_days_add_up_to_their_week(zone):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    work = [
        Entry("work", start + timedelta(hours=29 * number), start + timedelta(hours=29 * number + 11))
        for number in range(365 * 24 // 29)
    ]
    book = Book(work, zone)
    for monday in days(date(2026, 1, 5), date(2026, 12, 21))[::7]:
        week = days(monday, monday + timedelta(days=6))
        assert sum((book.worked_on(day) for day in week), timedelta()) == book.worked_in_week(monday)


@pytest.mark.parametrize(("zone", "day", "length"), CHANGES)
def test_around_midnight(zone, day, length):
    following = day + timedelta(days=1)
    book = book_of(f"# {day}\n23:30-00:45 Deploy\n# {following}\n00:50-01:00 Cleaning", zone)
    assert book.worked_on(day) == timedelta(minutes=30)
    assert book.worked_on(following) == timedelta(minutes=55)
    assert [entry.title for entry in book.on(day)] == ["Deploy"]
    assert [entry.title for entry in book.on(following)] == ["Deploy", "Cleaning"]


@pytest.mark.parametrize(
    ("zone", "day", "times", "hours"),
    [
        (BERLIN, "2026-03-29", "01:00-04:00", 2),
        (BERLIN, "2026-10-25", "01:00-04:00", 4),
        (BERLIN, "2026-10-25", "00:30-02:30*", 3),
        (BERLIN, "2026-10-24", "22:00-06:00", 9),
        (BERLIN, "2026-03-28", "22:00-06:00", 7),
        (NEW_YORK, "2026-03-08", "00:00-06:00", 5),
        (NEW_YORK, "2026-11-01", "00:00-06:00", 7),
        (SYDNEY, "2026-04-04", "20:00-04:00", 9),
        (SYDNEY, "2026-10-03", "20:00-04:00", 7),
        (UTC, "2026-10-25", "01:00-04:00", 3),
    ],
)
def test_time_that_passes(zone, day, times, hours):
    (entry,) = read_sheet(f"# {day}\n{times} Migration", zone)
    assert entry.duration == entry.period.duration == timedelta(hours=hours)
    assert Book([entry], zone).by_title() == {"Migration": timedelta(hours=hours)}


def test_entry_within_the_repeated_hour():
    (entry,) = read_sheet("# 2026-10-25\n02:40-02:10* Switch", BERLIN)
    assert entry.duration == timedelta(minutes=30)
    book = book_of("# 2026-10-25\n02:20*-02:50* Second\n02:30-02:20* First", BERLIN)
    assert [entry.title for entry in book.entries] == ["First", "Second"]
    assert book.worked_on(date(2026, 10, 25)) == timedelta(minutes=80)
    assert book.by_title() == {"First": timedelta(minutes=50), "Second": timedelta(minutes=30)}


def test_same_clock_reading_an_hour_later():
    (entry,) = read_sheet("# 2026-10-25\n02:30-02:30* Watch", BERLIN)
    assert entry.duration == timedelta(hours=1)


def test_clock_goes_on_but_time_does_not():
    start = datetime(2026, 10, 25, 2, 10, tzinfo=BERLIN, fold=1)
    end = datetime(2026, 10, 25, 2, 40, tzinfo=BERLIN)
    with pytest.raises(ValueError, match="must end after it starts"):
        Entry("back in time", start, end)


def test_entry_between_zones():
    start = datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN)
    end = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert Entry("call", start, end).duration == timedelta(hours=1)


def test_the_end_of_a_day_is_not_in_it():
    period = day_period(date(2026, 10, 25), BERLIN)
    assert datetime(2026, 10, 25, 23, 59, tzinfo=BERLIN) in period
    assert datetime(2026, 10, 26, tzinfo=BERLIN) not in period
    assert isinstance(period, Period)


def test_report_of_a_week():
    sheet = "".join(f"# 2026-10-{day}\n23:00-00:30 Backup\n" for day in (24, 25, 26))
    assert book_of(sheet, BERLIN).report(date(2026, 10, 24), date(2026, 10, 27)).splitlines() == [
        "2026-10-24 Sat   1:00",
        "2026-10-25 Sun   1:30",
        "2026-10-26 Mon   1:30",
        "2026-10-27 Tue   0:30",
        "total            4:30",
    ]
