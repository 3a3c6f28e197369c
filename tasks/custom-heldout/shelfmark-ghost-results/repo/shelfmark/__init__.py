"""A catalogue of tagged items that answers quickly."""

from shelfmark.catalogue import Catalogue
from shelfmark.items import Item

__all__ = ["Catalogue", "Item"]
