from datetime import date

import pytest

from duedates import Calendar, Monthly, Payment, Schedule, Weekly

YEAR = (date(2026, 1, 1), date(2026, 12, 31))


def days(payments: list[Payment]) -> list[str]:
    return [payment.day.strftime("%m-%d") for payment in payments]


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("following", ["01-15", "02-16", "03-16"]),
        ("preceding", ["01-15", "02-13", "03-13"]),
        ("modified", ["01-15", "02-16", "03-16"]),
    ],
)
def test_conventions(convention: str, expected: list[str]) -> None:
    schedule = Schedule(Monthly(), date(2026, 1, 15), convention=convention, count=3)
    assert days(schedule.between(*YEAR)) == expected


def test_unknown_convention() -> None:
    with pytest.raises(ValueError, match="no convention 'nearest'"):
        Schedule(Weekly(), date(2026, 1, 1), convention="nearest")


def test_last_days_of_months() -> None:
    schedule = Schedule(Monthly(on=31), date(2026, 1, 1), convention="preceding", until=date(2026, 6, 30))
    assert days(schedule.between(*YEAR)) == ["01-30", "02-27", "03-31", "04-30", "05-29", "06-30"]


def test_two_on_one_day() -> None:
    calendar = Calendar(closures=[(date(2026, 8, 3), date(2026, 8, 14))])
    schedule = Schedule(Weekly(), date(2026, 7, 30), calendar=calendar, count=4)
    assert days(schedule.between(*YEAR)) == ["07-30", "08-17", "08-17", "08-20"]


def test_end() -> None:
    assert len(Schedule(Weekly(), date(2026, 1, 1), until=date(2026, 2, 5)).between(*YEAR)) == 6
    assert len(Schedule(Weekly(), date(2026, 1, 1), count=5).between(*YEAR)) == 5
    assert len(Schedule(Weekly(), date(2026, 1, 1)).between(*YEAR)) == 53


def test_next_after() -> None:
    schedule = Schedule(Monthly(), date(2026, 1, 12), count=3)
    assert schedule.next_after(date(2025, 1, 1)) == Payment(date(2026, 1, 12), date(2026, 1, 12))
    assert schedule.next_after(date(2026, 1, 12)) == Payment(date(2026, 2, 12), date(2026, 2, 12))
    assert schedule.next_after(date(2026, 3, 12)) is None
