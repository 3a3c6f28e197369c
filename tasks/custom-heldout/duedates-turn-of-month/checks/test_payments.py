# agentbench-canary: fb3ef82e-b80b-4b22-8d36-6cc8262fb676
"""Agreed dates, holidays and days of payment, for schedules of every sort."""

from calendar import monthrange
from datetime import date, timedelta
from itertools import islice

import pytest

from duedates import FRIDAY, MONDAY, SUNDAY, Calendar, Monthly, MonthlyWeekday, Payment, Schedule, Weekly

DAY = timedelta(days=1)
HOLIDAYS = [(1, 1), (5, 1), (12, 25), (12, 26), (12, 31)]
CLOSURES = [(date(2026, 3, 20), date(2026, 4, 5)), (date(2026, 7, 13), date(2026, 9, 4))]
CONVENTIONS = ["following", "preceding", "modified"]
RULES = [
    Weekly(),
    Weekly(every=3),
    Monthly(),
    Monthly(on=1),
    Monthly(on=15),
    Monthly(on=30),
    Monthly(on=31),
    Monthly(every=3, on=31),
    MonthlyWeekday(-1, SUNDAY),
    MonthlyWeekday(5, FRIDAY),
]


def months_from(year, month, step=1):
    while True:
        yield year, month
        year, month = year + (month - 1 + step) // 12, (month - 1 + step) % 12 + 1


def month_period(year, month):
    return date(year, month, 1), date(year, month, monthrange(year, month)[1])


@pytest.mark.parametrize("every", [1, 2, 3, 5, 12, 13])
@pytest.mark.parametrize("on", [1, 27, 28, 29, 30, 31])
@pytest.mark.parametrize("month", [1, 2, 4, 12])
def test_day_of_the_month(month, on, every):
    expected = [
        date(year, number, min(on, monthrange(year, number)[1]))
        for year, number in islice(months_from(2027, month, every), 60)
    ]
    assert list(islice(Monthly(every, on).dates(date(2027, month, 1)), 60)) == expected


@pytest.mark.parametrize("day", [28, 29, 30, 31])
def test_day_of_the_first_date(day):
    dates = list(islice(Monthly().dates(date(2027, 1, day)), 26))
    assert [each.day for each in dates] == [min(day, monthrange(each.year, each.month)[1]) for each in dates]
    assert [(each.year, each.month) for each in dates] == list(islice(months_from(2027, 1), 26))


def test_leap_day():
    yearly = islice(Monthly(every=12).dates(date(2024, 2, 29)), 9)
    assert [day.day for day in yearly] == [29, 28, 28, 28, 29, 28, 28, 28, 29]


@pytest.mark.parametrize(
    ("on", "first", "expected"),
    [
        (31, date(2026, 2, 28), ["02-28", "03-31", "04-30", "05-31"]),
        (30, date(2026, 1, 31), ["02-28", "03-30", "04-30", "05-30"]),
        (29, date(2026, 1, 30), ["02-28", "03-29", "04-29", "05-29"]),
        (31, date(2026, 4, 30), ["04-30", "05-31", "06-30", "07-31"]),
        (31, date(2026, 12, 31), ["12-31", "01-31", "02-28", "03-31"]),
        (28, date(2026, 1, 29), ["02-28", "03-28", "04-28", "05-28"]),
        (5, date(2026, 1, 31), ["02-05", "03-05", "04-05", "05-05"]),
    ],
)
def test_first_date_in_a_short_month(on, first, expected):
    assert [day.strftime("%m-%d") for day in islice(Monthly(on=on).dates(first), 4)] == expected


def days_off(calendar, first, last):
    """Days from Monday to Friday without work."""
    days = [first + DAY * number for number in range((last - first).days + 1)]
    return [str(day) for day in days if day.weekday() < 5 and not calendar.is_working_day(day)]


@pytest.mark.parametrize(
    ("holidays", "year", "expected"),
    [
        ([(12, 31)], 2022, ["2023-01-02"]),
        ([(12, 31)], 2023, ["2024-01-01"]),
        ([(12, 31)], 2024, ["2024-12-31"]),
        ([(1, 1), (12, 31)], 2023, ["2024-01-01", "2024-01-02"]),
        ([(12, 31)], 2021, ["2021-12-31"]),
        ([(1, 1), (12, 31)], 2022, ["2023-01-02", "2023-01-03"]),
        ([(1, 1), (12, 31)], 2021, ["2021-12-31", "2022-01-03"]),
        ([(1, 1), (1, 2), (12, 31)], 2022, ["2023-01-02", "2023-01-03", "2023-01-04"]),
        ([(1, 1), (1, 3), (12, 31)], 2022, ["2023-01-02", "2023-01-03", "2023-01-04"]),
        ([(1, 1), (12, 30), (12, 31)], 2022, ["2022-12-30", "2023-01-02", "2023-01-03"]),
        ([(1, 1), (1, 2), (12, 30), (12, 31)], 2028, ["2029-01-01", "2029-01-02", "2029-01-03", "2029-01-04"]),
        ([lambda year: date(year, 12, 31), lambda year: date(year, 1, 1)], 2022, ["2023-01-02", "2023-01-03"]),
    ],
)
@pytest.mark.parametrize(
    "asked_first", [None, date(2022, 12, 31), date(2023, 1, 3), date(2029, 1, 1), date(2028, 6, 1)]
)
def test_turn_of_the_year(holidays, year, expected, asked_first):
    calendar = Calendar(holidays)
    if asked_first is not None:
        calendar.is_working_day(asked_first)
    assert days_off(calendar, date(year, 12, 20), date(year + 1, 1, 12)) == expected


def test_turn_of_the_year_with_another_weekend():
    calendar = Calendar([(12, 31), (1, 1)], weekend=[FRIDAY])
    off = [
        day for day in (date(2021, 12, 31) + DAY * number for number in range(5)) if not calendar.is_working_day(day)
    ]
    assert off == [date(2021, 12, 31), date(2022, 1, 1), date(2022, 1, 2)]


def test_substitutes_within_a_year():
    calendar = Calendar(HOLIDAYS)
    assert days_off(calendar, date(2021, 12, 1), date(2022, 1, 31)) == [
        "2021-12-27",
        "2021-12-28",
        "2021-12-31",
        "2022-01-03",
    ]
    assert days_off(calendar, date(2027, 4, 20), date(2027, 5, 10)) == ["2027-05-03"]
    assert days_off(calendar, date(2022, 12, 20), date(2023, 1, 10)) == [
        "2022-12-26",
        "2022-12-27",
        "2023-01-02",
        "2023-01-03",
    ]


def test_payment_over_the_turn_of_the_year():
    schedule = Schedule(Monthly(), date(2022, 12, 31), calendar=Calendar([(1, 1), (12, 31)]), count=1)
    assert schedule.next_after(date(2022, 12, 31)) == Payment(date(2022, 12, 31), date(2023, 1, 4))
    assert schedule.between(date(2022, 1, 1), date(2022, 12, 31)) == []
    assert len(schedule.between(date(2023, 1, 4), date(2023, 1, 4))) == 1


def every_payment(rule, convention, calendar, **end):
    """The payments up to 2027, by moving each agreed date by hand."""

    def moved(day, step):
        while not calendar.is_working_day(day):
            day += step
        return day

    payments = []
    for agreed in Schedule(rule, date(2025, 12, 31), **end).agreed():
        if agreed.year > 2027:
            break
        day = moved(agreed, -DAY if convention == "preceding" else DAY)
        if convention == "modified" and (day.year, day.month) != (agreed.year, agreed.month):
            day = moved(agreed, -DAY)
        payments.append(Payment(agreed, day))
    return payments


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("end", [{}, {"count": 7}, {"until": date(2026, 8, 2)}], ids=["endless", "count", "until"])
def test_each_payment_is_in_one_period(rule, convention, end):
    calendar = Calendar(HOLIDAYS, closures=CLOSURES)
    schedule = Schedule(rule, date(2025, 12, 31), calendar=calendar, convention=convention, **end)
    expected = every_payment(rule, convention, calendar, **end)
    for year, month in islice(months_from(2025, 11), 20):
        start, last = month_period(year, month)
        assert schedule.between(start, last) == [payment for payment in expected if start <= payment.day <= last]


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_next_after(rule, convention):
    calendar = Calendar(HOLIDAYS, closures=CLOSURES)
    schedule = Schedule(rule, date(2025, 12, 31), calendar=calendar, convention=convention)
    expected = every_payment(rule, convention, calendar)
    for number in range(0, 300, 2):
        day = date(2025, 12, 20) + DAY * number
        assert schedule.next_after(day) == next(payment for payment in expected if payment.day > day)


def test_period_of_one_day():
    schedule = Schedule(Monthly(on=31), date(2026, 1, 1))
    assert schedule.between(date(2026, 1, 31), date(2026, 1, 31)) == []
    assert schedule.between(date(2026, 2, 1), date(2026, 2, 1)) == []
    assert schedule.between(date(2026, 2, 2), date(2026, 2, 2)) == [Payment(date(2026, 1, 31), date(2026, 2, 2))]
    assert schedule.between(date(2026, 2, 2), date(2026, 2, 1)) == []


def test_two_payments_on_one_day():
    schedule = Schedule(
        Weekly(), date(2026, 7, 2), calendar=Calendar(closures=CLOSURES), convention="following", count=12
    )
    (day,) = {payment.day for payment in schedule.between(date(2026, 7, 10), date(2026, 9, 8))}
    assert day == date(2026, 9, 7)
    assert len(schedule.between(day, day)) == 8
    assert schedule.next_after(day) == Payment(date(2026, 9, 10), date(2026, 9, 10))


def test_after_the_end():
    schedule = Schedule(Monthly(on=31), date(2026, 1, 1), until=date(2026, 2, 28))
    assert schedule.next_after(date(2026, 2, 28)) == Payment(date(2026, 2, 28), date(2026, 3, 2))
    assert schedule.next_after(date(2026, 3, 1)) == Payment(date(2026, 2, 28), date(2026, 3, 2))
    assert schedule.next_after(date(2026, 3, 2)) is None
    assert schedule.between(date(2026, 3, 1), date(2027, 1, 1)) == [Payment(date(2026, 2, 28), date(2026, 3, 2))]
    assert schedule.between(date(2025, 1, 1), date(2025, 12, 31)) == []


def test_other_rules_are_as_they_were():
    assert list(islice(MonthlyWeekday(-1, FRIDAY).dates(date(2026, 1, 31)), 2)) == [
        date(2026, 2, 27),
        date(2026, 3, 27),
    ]
    assert list(islice(MonthlyWeekday(1, MONDAY, 2).dates(date(2026, 11, 3)), 2)) == [
        date(2026, 12, 7),
        date(2027, 2, 1),
    ]
