from datetime import date, datetime, timedelta

import pytest

from daybook import Book, Entry, day_period, read_sheet, week_period
from daybook.zones import BERLIN, NEW_YORK, UTC

SHEET = """
# 2026-03-03
13:15-17:00 Code review
# 2026-03-02
09:00-12:30 Release notes
22:00-01:30 Night shift
"""


@pytest.fixture
def book() -> Book:
    return Book(read_sheet(SHEET, BERLIN), BERLIN)


def test_report(book: Book) -> None:
    assert book.report(date(2026, 3, 2), date(2026, 3, 4)).splitlines() == [
        "2026-03-02 Mon   5:30",
        "2026-03-03 Tue   5:15",
        "2026-03-04 Wed   0:00",
        "total           10:45",
    ]


def test_entries_of_a_day(book: Book) -> None:
    assert [entry.title for entry in book.on(date(2026, 3, 2))] == ["Release notes", "Night shift"]
    assert [entry.title for entry in book.on(date(2026, 3, 3))] == ["Night shift", "Code review"]


def test_week(book: Book) -> None:
    assert book.worked_in_week(date(2026, 3, 8)) == timedelta(hours=10, minutes=45)
    assert book.worked_in_week(date(2026, 3, 9)) == timedelta()


def test_by_title(book: Book) -> None:
    assert list(book.by_title()) == ["Code review", "Night shift", "Release notes"]


def test_seen_from_another_zone() -> None:
    book = Book(read_sheet("# 2026-03-03\n04:00-08:00 Early", BERLIN), NEW_YORK)
    assert book.worked_on(date(2026, 3, 2)) == timedelta(hours=2)
    assert book.worked_on(date(2026, 3, 3)) == timedelta(hours=2)


def test_a_day_and_a_week() -> None:
    assert day_period(date(2026, 3, 2), BERLIN).duration == timedelta(hours=24)
    assert week_period(date(2026, 3, 5), UTC).start == datetime(2026, 3, 2, tzinfo=UTC)


def test_evening_of_the_day_the_clocks_go_back() -> None:
    book = Book(read_sheet("# 2026-10-25\n23:15-23:45 Backup", BERLIN), BERLIN)
    assert book.worked_on(date(2026, 10, 25)) == timedelta(minutes=30)
    assert book.worked_in_week(date(2026, 10, 25)) == timedelta(minutes=30)


@pytest.mark.parametrize("minutes", [0, -5])
def test_an_entry_ends_after_it_starts(minutes: int) -> None:
    start = datetime(2026, 3, 2, 9, tzinfo=BERLIN)
    with pytest.raises(ValueError, match="must end after it starts"):
        Entry("nothing", start, start + timedelta(minutes=minutes))


def test_an_entry_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="need a time zone"):
        Entry("nothing", datetime(2026, 3, 2, 9), datetime(2026, 3, 2, 10))
