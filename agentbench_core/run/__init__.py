"""Making runs."""
