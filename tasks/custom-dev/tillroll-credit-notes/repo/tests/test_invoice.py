from fractions import Fraction

import pytest

from tillroll import Invoice, Line, Money

INVOICE = Invoice(
    [
        Line("Apples", "1.250", Money("2.99"), tax="7"),
        Line("Cheese", "0.300", Money("14.90"), tax="7"),
        Line("Crate", "1", Money("1.50"), tax="19"),
    ]
)


def test_sums() -> None:
    assert [str(line.amount) for line in INVOICE.lines] == ["3.74 EUR", "4.47 EUR", "1.50 EUR"]
    assert INVOICE.taxes == {Fraction(7): Money("0.57"), Fraction(19): Money("0.29")}
    assert (INVOICE.net, INVOICE.tax, INVOICE.total) == (Money("9.71"), Money("0.86"), Money("10.57"))


def test_shares() -> None:
    shares = INVOICE.shares({"kitchen": 1, "bar": 1, "garden": 1})
    assert shares == {"kitchen": Money("3.53"), "bar": Money("3.52"), "garden": Money("3.52")}


def test_returned_item() -> None:
    invoice = Invoice([Line("Apples", 2, Money("2.99"), tax=7), Line("Deposit", -3, Money("0.15"), tax=19)])
    assert (invoice.net, invoice.tax) == (Money("5.53"), Money("0.33"))


def test_credit_note() -> None:
    note = INVOICE.credit_note()
    assert (note.net, note.taxes[Fraction(7)]) == (Money("-9.71"), Money("-0.57"))


def test_credit_note_cancels_the_half_cents_too() -> None:
    invoice = Invoice([Line("Screws", "12.5", Money("0.05"), tax="19")])
    assert invoice.net == Money("0.63")
    assert invoice.credit_note().net == Money("-0.63")


def test_at_least_one_line() -> None:
    with pytest.raises(ValueError, match="at least one line"):
        Invoice([])
