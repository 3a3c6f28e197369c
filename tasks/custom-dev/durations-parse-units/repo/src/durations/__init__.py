"""Read and write durations the way people type them."""

from durations.errors import DurationError
from durations.parser import parse
from durations.rendering import render
from durations.units import DEFAULT_UNITS, Unit, UnitTable

__all__ = ["DEFAULT_UNITS", "DurationError", "Unit", "UnitTable", "parse", "render"]
