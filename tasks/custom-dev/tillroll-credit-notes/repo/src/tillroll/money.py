"""Amounts of money."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tillroll.rounding import nearest
from tillroll.splitting import split

PLACES = {"EUR": 2, "JPY": 0, "KWD": 3}

Number = int | str | Decimal | Fraction


@dataclass(frozen=True, init=False)
class Money:
    """An exact amount in one currency."""

    units: int
    currency: str

    def __init__(self, amount: Number, currency: str = "EUR") -> None:
        units = Fraction(amount) * 10 ** PLACES[currency]
        if units.denominator != 1:
            raise ValueError(f"{amount} has more decimal places than {currency}")
        object.__setattr__(self, "units", units.numerator)
        object.__setattr__(self, "currency", currency)

    def __add__(self, other: Money) -> Money:
        if other.currency != self.currency:
            raise ValueError(f"{self} and {other} cannot be added")
        return self._with(self.units + other.units)

    def __neg__(self) -> Money:
        return self._with(-self.units)

    def __sub__(self, other: Money) -> Money:
        return self + -other

    def times(self, factor: Number) -> Money:
        """The amount times a number, rounded."""
        return self._with(nearest(self.units * Fraction(factor)))

    def split(self, weights: Iterable[Number]) -> list[Money]:
        """Parts in proportion to the weights, which add up to the amount."""
        return [self._with(part) for part in split(self.units, [Fraction(weight) for weight in weights])]

    def __str__(self) -> str:
        places = PLACES[self.currency]
        digits = f"{abs(self.units):0{places + 1}}"
        number = f"{digits[:-places]}.{digits[-places:]}" if places else digits
        return f"{'-' if self.units < 0 else ''}{number} {self.currency}"

    def _with(self, units: int) -> Money:
        return Money(Fraction(units, 10 ** PLACES[self.currency]), self.currency)
