# agentbench-canary: e8f6e24b-1d8c-40f2-b5d5-919222a59f83
"""What is negative mirrors what is positive, and what is positive stays."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from tillroll import Invoice, Line, Money


@pytest.mark.parametrize(
    ("amount", "factor", "result"),
    [
        ("0.01", "0.5", "0.01"),
        ("0.03", "0.5", "0.02"),
        ("0.05", "0.5", "0.03"),
        ("0.05", "12.5", "0.63"),
        ("0.01", "0.49999", "0.00"),
        ("0.01", "0.50001", "0.01"),
        ("0.01", "1.49999", "0.01"),
        ("0.02", Fraction(1, 3), "0.01"),
        ("0.02", Decimal("0.25"), "0.01"),
        ("7.00", 3, "21.00"),
        ("10000000000000000.01", "0.5", "5000000000000000.01"),
        ("10000000000000000.03", "0.5", "5000000000000000.02"),
    ],
)
def test_times(amount, factor, result):
    money, expected = Money(amount), Money(result)
    assert money.times(factor) == expected
    assert (-money).times(factor) == -expected
    assert money.times(-Fraction(factor)) == -expected
    assert (-money).times(-Fraction(factor)) == expected


@pytest.mark.parametrize(("currency", "unit"), [("JPY", "1"), ("EUR", "0.01"), ("KWD", "0.001")])
def test_every_currency(currency, unit):
    money = Money(unit, currency)
    for sign in (1, -1):
        assert money.times(Fraction(sign, 2)) == money.times(sign)
        assert money.times(Fraction(sign * 5, 2)) == money.times(3 * sign)
        assert money.times(Fraction(sign * 7, 3)) == money.times(2 * sign)
        assert money.times(sign * 5).split([1, 1]) == [money.times(3 * sign), money.times(2 * sign)]


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [
        ("0.05", [1, 1], ["0.03", "0.02"]),
        ("10.00", [1, 1, 1], ["3.34", "3.33", "3.33"]),
        ("0.02", [1, 1, 1], ["0.01", "0.01", "0.00"]),
        ("0.01", [1, 1, 1, 1], ["0.01", "0.00", "0.00", "0.00"]),
        ("0.01", [0, 1, 0, 1], ["0.00", "0.01", "0.00", "0.00"]),
        ("0.10", [1, 2, 4], ["0.01", "0.03", "0.06"]),
        ("0.10", [4, 2, 1], ["0.06", "0.03", "0.01"]),
        ("0.07", ["0.5", Fraction(1, 2), Decimal(1)], ["0.02", "0.02", "0.03"]),
        ("0.00", [1, 2], ["0.00", "0.00"]),
        ("10000000000000000.01", [1, 1], ["5000000000000000.01", "5000000000000000.00"]),
    ],
)
def test_split(amount, weights, parts):
    expected = [Money(part) for part in parts]
    assert Money(amount).split(weights) == expected
    assert (-Money(amount)).split(weights) == [-part for part in expected]


@pytest.mark.parametrize("weights", [w for w in product([0, 1, 2, 3], repeat=3) if any(w)], ids=str)
def test_what_each_part_is(weights):
    for units in range(-20, 21):
        amount = Money(Fraction(units, 100))
        parts = amount.split(weights)
        assert sum(part.units for part in parts) == units
        assert (-amount).split(weights) == [-part for part in parts]
        for part, weight in zip(parts, weights, strict=True):
            exact = Fraction(units * weight, sum(weights))
            assert abs(part.units - exact) < 1
            assert abs(part.units) >= abs(exact) // 1
            if not weight:
                assert part.units == 0


@pytest.mark.parametrize("weights", [[], [0], [1, -1], [-1, -1]])
@pytest.mark.parametrize("amount", ["1.00", "-1.00", "0.00"])
def test_weights_that_make_no_sense(amount, weights):
    with pytest.raises(ValueError, match="weights"):
        Money(amount).split(weights)


LINES = [
    Line("Screws", "12.5", Money("0.05"), tax="19"),
    Line("Wire", "0.35", Money("1.30"), tax="19"),
    Line("Bread", 1, Money("2.50"), tax="7"),
    Line("Milk", Decimal("0.5"), Money("1.01"), tax="5.5"),
    Line("Returned", "-0.5", Money("0.05"), tax="7"),
    Line("Stamp", 3, Money("0.85")),
]
SHARES = [{"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 0, "c": "1.5", "d": 2}]


@pytest.mark.parametrize("lines", [LINES[:count] for count in range(1, 7)] + [[line] for line in LINES])
def test_credit_note_is_the_invoice_with_the_sign_changed(lines):
    invoice = Invoice(lines)
    note = invoice.credit_note()
    assert [line.amount for line in note.lines] == [-line.amount for line in invoice.lines]
    assert note.taxes == {percent: -tax for percent, tax in invoice.taxes.items()}
    assert (note.net, note.tax, note.total) == (-invoice.net, -invoice.tax, -invoice.total)
    for weights in SHARES:
        assert note.shares(weights) == {name: -share for name, share in invoice.shares(weights).items()}
        assert sum(share.units for share in note.shares(weights).values()) == note.total.units
    assert note.credit_note().total == invoice.total


def test_returned_item_on_an_invoice():
    invoice = Invoice([Line("Deposit", "-0.5", Money("0.05"), tax="50"), Line("Bread", 1, Money("2.50"), tax="7")])
    assert invoice.lines[0].amount == Money("-0.03")
    assert invoice.taxes == {Fraction(7): Money("0.18"), Fraction(50): Money("-0.02")}
    assert invoice.total == Money("2.63")


def test_negative_price():
    invoice = Invoice([Line("Voucher", "0.5", Money("-0.25"), tax="20")])
    assert (invoice.net, invoice.tax, invoice.total) == (Money("-0.13"), Money("-0.03"), Money("-0.16"))
    assert invoice.shares({"a": 1, "b": 2, "c": 1}) == {"a": Money("-0.04"), "b": Money("-0.08"), "c": Money("-0.04")}


def test_invoices_stay_as_they_were():
    invoice = Invoice(line for line in LINES if line.title != "Returned")
    assert (str(invoice.net), str(invoice.tax), str(invoice.total)) == ("6.65 EUR", "0.42 EUR", "7.07 EUR")
    assert [str(share) for share in invoice.shares({"a": 1, "b": 1, "c": 1}).values()] == [
        "2.36 EUR",
        "2.36 EUR",
        "2.35 EUR",
    ]
