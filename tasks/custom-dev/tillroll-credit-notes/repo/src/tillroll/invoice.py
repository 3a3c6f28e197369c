"""Invoices and credit notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add

from tillroll.money import Money, Number


@dataclass(frozen=True)
class Line:
    """So many of something at a price, and the percentage of tax."""

    title: str
    quantity: Number
    price: Money
    tax: Number = 0

    @property
    def amount(self) -> Money:
        """Price times quantity."""
        return self.price.times(self.quantity)


class Invoice:
    """Lines, and what they come to."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = tuple(lines)
        if not self.lines:
            raise ValueError("an invoice has at least one line")

    @property
    def net(self) -> Money:
        """The sum of the lines."""
        return reduce(add, (line.amount for line in self.lines))

    @property
    def taxes(self) -> dict[Fraction, Money]:
        """The tax for each percentage, lowest first."""
        sums: dict[Fraction, Money] = {}
        for line in self.lines:
            percent = Fraction(line.tax)
            sums[percent] = sums[percent] + line.amount if percent in sums else line.amount
        return {percent: sums[percent].times(percent / 100) for percent in sorted(sums)}

    @property
    def tax(self) -> Money:
        """The sum of the taxes."""
        return reduce(add, self.taxes.values())

    @property
    def total(self) -> Money:
        """What is to be paid."""
        return self.net + self.tax

    def shares(self, weights: Mapping[str, Number]) -> dict[str, Money]:
        """The total, split between several that pay it."""
        return dict(zip(weights, self.total.split(weights.values()), strict=True))

    def credit_note(self) -> Invoice:
        """What cancels this invoice."""
        return Invoice(replace(line, quantity=-_exact(line.quantity)) for line in self.lines)


def _exact(number: Number) -> int | Decimal | Fraction:
    return Fraction(number) if isinstance(number, str) else number
