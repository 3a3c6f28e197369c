from datetime import date
from itertools import islice

import pytest

from duedates import FRIDAY, MONDAY, TUESDAY, Monthly, MonthlyWeekday, Weekly
from duedates.rules import Rule


def first_of(rule: Rule, first: date, number: int = 3) -> list[str]:
    return [day.strftime("%m-%d") for day in islice(rule.dates(first), number)]


@pytest.mark.parametrize(
    ("rule", "first", "expected"),
    [
        (Weekly(), date(2026, 2, 23), ["02-23", "03-02", "03-09"]),
        (Weekly(every=2), date(2026, 12, 20), ["12-20", "01-03", "01-17"]),
        (Monthly(), date(2026, 11, 5), ["11-05", "12-05", "01-05"]),
        (Monthly(on=20), date(2026, 1, 5), ["01-20", "02-20", "03-20"]),
        (Monthly(on=5), date(2026, 1, 20), ["02-05", "03-05", "04-05"]),
        (Monthly(every=3), date(2026, 2, 10), ["02-10", "05-10", "08-10"]),
        (Monthly(on=31), date(2026, 3, 1), ["03-31", "04-30", "05-31"]),
        (MonthlyWeekday(2, TUESDAY), date(2026, 1, 1), ["01-13", "02-10", "03-10"]),
        (MonthlyWeekday(1, MONDAY), date(2026, 1, 6), ["02-02", "03-02", "04-06"]),
        (MonthlyWeekday(-1, FRIDAY), date(2026, 1, 1), ["01-30", "02-27", "03-27"]),
        (MonthlyWeekday(5, MONDAY), date(2026, 1, 1), ["03-30", "06-29", "08-31"]),
        (MonthlyWeekday(-2, FRIDAY, every=6), date(2026, 1, 1), ["01-23", "07-24", "01-22"]),
    ],
)
def test_dates(rule: Rule, first: date, expected: list[str]) -> None:
    assert first_of(rule, first) == expected
