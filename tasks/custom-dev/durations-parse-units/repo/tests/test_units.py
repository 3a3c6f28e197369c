import pytest

from durations import DEFAULT_UNITS, Unit


def test_found_by_any_spelling() -> None:
    assert DEFAULT_UNITS["HRS"].name == "hour"
    assert DEFAULT_UNITS["ms"].name == "millisecond"


def test_with_unit_leaves_the_table_alone() -> None:
    DEFAULT_UNITS.with_unit(Unit("decade", 3652 * 86400, ("decade",)))
    with pytest.raises(KeyError):
        DEFAULT_UNITS["decade"]


def test_two_meanings_are_refused() -> None:
    with pytest.raises(ValueError, match="means both"):
        DEFAULT_UNITS.with_unit(Unit("month", 30 * 86400, ("months", "M")))


@pytest.mark.parametrize("spelling", ["m2", "", "a b"])
def test_spellings_are_letters(spelling: str) -> None:
    with pytest.raises(ValueError, match="consists of letters"):
        Unit("odd", 1, (spelling,))
