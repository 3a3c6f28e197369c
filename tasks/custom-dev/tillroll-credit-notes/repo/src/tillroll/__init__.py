"""Invoices and credit notes that add up to the cent."""

from tillroll.invoice import Invoice, Line
from tillroll.money import Money

__all__ = ["Invoice", "Line", "Money"]
