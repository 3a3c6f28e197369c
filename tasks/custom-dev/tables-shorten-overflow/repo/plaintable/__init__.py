"""Tables in plain text that stay aligned."""

from plaintable.columns import Align, Column
from plaintable.styles import BOX, GRID, MARKDOWN, MINIMAL, Style
from plaintable.table import Table
from plaintable.width import display_width, pad, shorten

__all__ = [
    "BOX",
    "GRID",
    "MARKDOWN",
    "MINIMAL",
    "Align",
    "Column",
    "Style",
    "Table",
    "display_width",
    "pad",
    "shorten",
]
