from datetime import timedelta

import pytest

from durations import parse, render


@pytest.mark.parametrize(
    ("duration", "short", "long"),
    [
        (timedelta(), "0s", "0 seconds"),
        (timedelta(minutes=90), "1h 30m", "1 hour, 30 minutes"),
        (timedelta(days=8, seconds=1), "1w 1d 1s", "1 week, 1 day, 1 second"),
        (timedelta(milliseconds=1250), "1s 250ms", "1 second, 250 milliseconds"),
        (timedelta(seconds=-61), "-1m 1s", "-1 minute, 1 second"),
    ],
)
def test_render(duration: timedelta, short: str, long: str) -> None:
    assert render(duration) == short
    assert render(duration, long=True) == long


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 3599, 86400, 694861, -5400])
def test_what_is_rendered_is_parsed(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse(render(duration)) == duration
    assert parse(render(duration, long=True)) == duration


def test_fractions_of_a_second_are_parsed_back() -> None:
    duration = timedelta(minutes=3, milliseconds=40)
    assert parse(render(duration)) == duration
