from datetime import timedelta

import pytest

from durations import DEFAULT_UNITS, DurationError, Unit, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1h 30m", timedelta(minutes=90)),
        ("2 hrs, 5 mins", timedelta(hours=2, minutes=5)),
        ("1 week and 3 days", timedelta(days=10)),
        ("2.5 days", timedelta(days=2, hours=12)),
        ("10 MINUTES", timedelta(minutes=10)),
        ("- 45 sec", timedelta(seconds=-45)),
        ("0s", timedelta()),
    ],
)
def test_parts(text: str, expected: timedelta) -> None:
    assert parse(text) == expected


def test_milliseconds() -> None:
    assert parse("1s 250ms") == timedelta(seconds=1, milliseconds=250)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:30", timedelta(minutes=90)),
        ("1:30:15", timedelta(minutes=90, seconds=15)),
        ("-0:05", timedelta(minutes=-5)),
    ],
)
def test_clock(text: str, expected: timedelta) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "-", "5", "h", "5 parsecs", "1:75", "1h - 5m", "1h 2h"])
def test_not_a_duration(text: str) -> None:
    with pytest.raises(DurationError):
        parse(text)


def test_error_names_the_place() -> None:
    with pytest.raises(DurationError, match="expected a unit at position 4") as caught:
        parse("1h 5 parsecs")
    assert caught.value.position == 4


def test_own_unit() -> None:
    units = DEFAULT_UNITS.with_unit(Unit("fortnight", 14 * 86400, ("fortnights", "fortnight", "fn")))
    assert parse("1 fortnight 2 days", units=units) == timedelta(days=16)
