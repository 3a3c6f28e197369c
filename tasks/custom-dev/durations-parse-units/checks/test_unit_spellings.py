# agentbench-canary: fccb9860-e1fe-4855-b6b3-db1cae5ac0f3
"""Every documented spelling is read, whichever other spelling it starts with."""

from datetime import timedelta

import pytest

from durations import DEFAULT_UNITS, DurationError, Unit, parse, render

ALL = [(spelling, unit) for unit in DEFAULT_UNITS for spelling in unit.spellings]


@pytest.mark.parametrize(("spelling", "unit"), ALL, ids=[spelling for spelling, _ in ALL])
@pytest.mark.parametrize("form", ["4{}", "4 {}", "  4{}  "])
def test_every_spelling(form, spelling, unit):
    expected = timedelta(microseconds=int(4 * unit.seconds * 1_000_000))
    assert parse(form.format(spelling)) == expected
    assert parse(form.format(spelling.upper())) == expected


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1m5ms", 60_005),
        ("5ms1m", 60_005),
        ("2 min, 1 millisecond", 120_001),
        ("1s and 250 milliseconds", 1250),
        ("0.5ms", 0.5),
        ("-20ms", -20),
    ],
)
def test_minutes_and_milliseconds_side_by_side(text, milliseconds):
    assert parse(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize("milliseconds", [1, 999, 1001, 60_001, 3_600_500, 90_061_007, -60_250])
@pytest.mark.parametrize("long", [False, True])
def test_round_trip(milliseconds, long):
    duration = timedelta(milliseconds=milliseconds)
    assert parse(render(duration, long=long)) == duration


@pytest.mark.parametrize("spellings", [("shift", "shifts"), ("shifts", "shift")])
def test_own_unit_that_starts_like_another(spellings):
    units = DEFAULT_UNITS.with_unit(Unit("shift", 8 * 3600, spellings))
    assert parse("1 shift", units=units) == timedelta(hours=8)
    assert parse("2shifts 30s", units=units) == timedelta(hours=16, seconds=30)
    assert parse("3 s 1 Shift", units=units) == timedelta(hours=8, seconds=3)


def test_own_unit_with_its_own_short_form_first():
    units = DEFAULT_UNITS.with_unit(Unit("fortnight", 14 * 86400, ("f", "fn", "fortnight", "fortnights")))
    for text in ("2f", "2 fn", "2 fortnight", "2 fortnights"):
        assert parse(text, units=units) == timedelta(days=28)


def test_own_unit_that_another_starts_like():
    units = DEFAULT_UNITS.with_unit(Unit("mini", 30, ("mi",)))
    assert parse("1 mi", units=units) == timedelta(seconds=30)
    assert parse("1 min 1 mi", units=units) == timedelta(seconds=90)


@pytest.mark.parametrize("text", ["5 mx", "5 msx", "5 minx", "5 millis", "5m s", "5 sm"])
def test_what_is_no_unit_stays_an_error(text):
    with pytest.raises(DurationError):
        parse(text)


def test_a_unit_is_still_used_once():
    with pytest.raises(DurationError, match="twice"):
        parse("1ms 2 milliseconds")
