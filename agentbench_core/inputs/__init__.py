"""Reading files and flags into values."""
