import pytest

from packlist import InvalidVersion, Version


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.2", "1.3"),
        ("1.9", "1.11"),
        ("1.2", "1.2.1"),
        ("2.0a1", "2.0a2"),
        ("2.0b9", "2.0b10"),
        ("2.0b9", "2.0rc1"),
        ("2.0rc1", "2.0"),
        ("1.9", "2.0a1"),
    ],
)
def test_order(older: str, newer: str) -> None:
    assert Version(older) < Version(newer)
    assert Version(newer) > Version(older)
    assert Version(older) != Version(newer)


def test_zeros_at_the_end_make_no_difference() -> None:
    assert Version("1") == Version("1.0") == Version("1.0.0")
    assert len({Version("1"), Version("1.0"), Version("1.0.0")}) == 1
    assert str(Version("1.0.0")) == "1.0.0"


@pytest.mark.parametrize("text", ["", "1.", ".1", "v1", "1.0c1", "1.0rc", "1 0", "1.0-1"])
def test_not_a_version(text: str) -> None:
    with pytest.raises(InvalidVersion, match="is not a version"):
        Version(text)
