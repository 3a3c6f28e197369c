"""From files and flags to values."""
