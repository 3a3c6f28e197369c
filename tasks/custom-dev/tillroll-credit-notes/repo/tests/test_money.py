import pytest

from tillroll import Money


@pytest.mark.parametrize(
    ("money", "text"),
    [
        (Money("2.99"), "2.99 EUR"),
        (Money("-0.05"), "-0.05 EUR"),
        (Money("1000000000000000000.01"), "1000000000000000000.01 EUR"),
        (Money(300, "JPY"), "300 JPY"),
        (Money("-1.5", "KWD"), "-1.500 KWD"),
    ],
)
def test_text(money: Money, text: str) -> None:
    assert str(money) == text


def test_arithmetic() -> None:
    assert Money("1.20") + Money("0.85") == Money("2.05")
    assert Money("1.20") - Money("2") == Money("-0.80")


def test_refused() -> None:
    with pytest.raises(ValueError, match="more decimal places"):
        Money("1.005")
    with pytest.raises(ValueError, match="cannot be added"):
        Money("1") + Money("1", "JPY")


@pytest.mark.parametrize(
    ("price", "factor", "result"),
    [("0.25", "0.5", "0.13"), ("0.35", "0.5", "0.18"), ("1.00", "0.333", "0.33"), ("-1.00", "0.333", "-0.33")],
)
def test_times(price: str, factor: str, result: str) -> None:
    assert Money(price).times(factor) == Money(result)


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [
        ("10.00", [1, 1, 1], ["3.34", "3.33", "3.33"]),
        ("0.05", [1, 1], ["0.03", "0.02"]),
        ("1.00", [3, 0, "1.5"], ["0.67", "0.00", "0.33"]),
        ("0.10", [1, 2, 4], ["0.01", "0.03", "0.06"]),
        ("-9.00", [1, 1, 1], ["-3.00", "-3.00", "-3.00"]),
    ],
)
def test_split(amount: str, weights: list[int], parts: list[str]) -> None:
    assert Money(amount).split(weights) == [Money(part) for part in parts]


@pytest.mark.parametrize("weights", [[], [0, 0], [2, -1]])
def test_weights_that_make_no_sense(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Money("1.00").split(weights)
