"""Ranges of dates."""

from __future__ import annotations

import datetime

import pytest

from agentbench_core.values.dates import DateRange, utc_day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2025-03-01", "2025-03-01"),
        ("2025-03-01T23:30:00Z", "2025-03-01"),
        ("2025-03-01T23:30:00-02:00", "2025-03-02"),
        ("2025-03-01T00:30:00+02:00", "2025-02-28"),
    ],
)
def test_the_day_of_a_date_is_its_day_in_utc(text: str, day: str) -> None:
    """Time zones of committers do not change which tasks are selected."""
    assert utc_day(text).isoformat() == day


def test_both_ends_of_a_range_are_included() -> None:
    """A date without a time counts as the whole day."""
    march = DateRange(since=datetime.date(2025, 3, 1), until=datetime.date(2025, 3, 31))
    dates = ["2025-02-28T23:59:59Z", "2025-03-01T00:00:00Z", "2025-03-31T23:59:59Z", "2025-04-01", ""]
    assert [march.includes(date) for date in dates] == [False, True, True, False, False]
    assert str(march) == "--since 2025-03-01 --until 2025-03-31"


def test_a_range_without_limits_includes_what_has_no_date() -> None:
    """Without flags, nothing is left out."""
    assert DateRange().includes("")
    assert not DateRange().is_limited
    assert not DateRange(until=datetime.date(2025, 1, 1)).includes("")
