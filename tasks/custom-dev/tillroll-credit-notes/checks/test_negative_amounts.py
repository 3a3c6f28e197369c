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


def test_each_amount_of_a_credit_note():
    note = Invoice(
        [
            Line("Tea", "2.5", Money("0.45"), tax="7"),
            Line("Cups", 3, Money("1.99"), tax="19"),
            Line("Sugar", "0.125", Money("3.40"), tax="7"),
            Line("Broken cup", "-0.5", Money("1.99"), tax="19"),
            Line("Journey", "17.5", Money("0.31"), tax="2.5"),
        ]
    ).credit_note()
    amounts = [*(line.amount for line in note.lines), *note.taxes.values(), note.net, note.tax, note.total]
    assert [str(amount) for amount in amounts] == [
        "-1.13 EUR",
        "-5.97 EUR",
        "-0.43 EUR",
        "1.00 EUR",
        "-5.43 EUR",
        "-0.14 EUR",
        "-0.11 EUR",
        "-0.94 EUR",
        "-11.96 EUR",
        "-1.19 EUR",
        "-13.15 EUR",
    ]


def test_what_everybody_gets_back():
    note = Invoice([Line("Hall", 1, Money("99.97"), tax="7"), Line("Chairs", "40.5", Money("0.33"))]).credit_note()
    groups = [
        {"choir": 1, "band": 1, "chess": 1},
        {"choir": 7, "band": 3, "chess": "2.5", "dance": 1},
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6},
        {"none": 0, "half": Fraction(1, 2), "third": Fraction(1, 3), "sixth": Fraction(1, 6)},
    ]
    assert [" ".join(str(share.units) for share in note.shares(weights).values()) for weights in groups] == [
        "-4012 -4011 -4011",
        "-6240 -2674 -2229 -891",
        "-573 -1146 -1719 -2292 -2865 -3439",
        "0 -6017 -4011 -2006",
    ]


def test_products_below_zero():
    prices = [Money("-0.25"), Money("1.37"), Money(-45, "JPY"), Money("-3.335", "KWD")]
    factors = ["0.5", "-2.5", Fraction(1, 6), "-0.1", Decimal("1.5")]
    assert [[str(price.times(factor)) for factor in factors] for price in prices] == [
        ["-0.13 EUR", "0.63 EUR", "-0.04 EUR", "0.03 EUR", "-0.38 EUR"],
        ["0.69 EUR", "-3.43 EUR", "0.23 EUR", "-0.14 EUR", "2.06 EUR"],
        ["-23 JPY", "113 JPY", "-8 JPY", "5 JPY", "-68 JPY"],
        ["-1.668 KWD", "8.338 KWD", "-0.556 KWD", "0.334 KWD", "-5.003 KWD"],
    ]


def test_debts_that_are_split():
    debts = [Money("-0.10"), Money("-100.03"), Money(-1001, "JPY"), Money("-0.017", "KWD"), Money("-7.79")]
    assert [[part.units for part in debt.split([2, 1, 1, 2, 0, 1])] for debt in debts] == [
        [-3, -2, -1, -3, 0, -1],
        [-2858, -1429, -1429, -2858, 0, -1429],
        [-286, -143, -143, -286, 0, -143],
        [-5, -3, -2, -5, 0, -2],
        [-223, -111, -111, -223, 0, -111],
    ]


def test_months_with_returns():
    months = []
    for month in range(1, 7):
        invoice = Invoice(
            [
                Line("Rent of bottles", month, Money("0.15"), tax="19"),
                Line("Bottles back", Fraction(-11 * month, 4), Money("0.26"), tax="7.5"),
                Line("Fee", "0.5", Money("-0.07"), tax="50"),
            ]
        )
        shares = invoice.shares({"we": 2, "they": 1})
        months.append(" ".join(map(str, [invoice.net, invoice.tax, shares["we"], shares["they"]])))
    assert months == [
        "-0.61 EUR -0.04 EUR -0.43 EUR -0.22 EUR",
        "-1.17 EUR -0.07 EUR -0.83 EUR -0.41 EUR",
        "-1.74 EUR -0.09 EUR -1.22 EUR -0.61 EUR",
        "-2.30 EUR -0.12 EUR -1.61 EUR -0.81 EUR",
        "-2.87 EUR -0.15 EUR -2.01 EUR -1.01 EUR",
        "-3.43 EUR -0.17 EUR -2.40 EUR -1.20 EUR",
    ]
