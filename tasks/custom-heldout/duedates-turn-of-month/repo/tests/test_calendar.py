from datetime import date

import pytest

from duedates import FRIDAY, SATURDAY, Calendar


def test_weekend() -> None:
    calendar = Calendar()
    assert [calendar.is_working_day(date(2026, 3, day)) for day in (6, 7, 8, 9)] == [True, False, False, True]
    assert Calendar(weekend=[FRIDAY, SATURDAY]).is_working_day(date(2026, 3, 8))
    with pytest.raises(ValueError, match="a week needs a working day"):
        Calendar(weekend=range(7))


def test_holidays() -> None:
    calendar = Calendar(holidays=[(5, 1), lambda year: date(year, 4, year % 10)])
    assert not calendar.is_working_day(date(2026, 5, 1))
    assert not calendar.is_working_day(date(2027, 4, 7))
    assert calendar.is_working_day(date(2027, 4, 6))


def test_substitutes() -> None:
    calendar = Calendar(holidays=[(1, 1), (12, 25), (12, 26)])
    working = [day for day in range(1, 32) if calendar.is_working_day(date(2021, 12, day))]
    assert working[-4:] == [24, 29, 30, 31]
    assert not calendar.is_working_day(date(2022, 1, 3))
    assert calendar.is_working_day(date(2022, 1, 4))


def test_moving() -> None:
    calendar = Calendar(closures=[(date(2026, 7, 20), date(2026, 8, 7))])
    assert calendar.following(date(2026, 7, 18)) == date(2026, 8, 10)
    assert calendar.preceding(date(2026, 7, 30)) == date(2026, 7, 17)
    assert calendar.modified(date(2026, 7, 30)) == date(2026, 7, 17)
    assert calendar.modified(date(2026, 8, 2)) == date(2026, 8, 10)
    assert calendar.following(date(2026, 7, 17)) == date(2026, 7, 17)
