"""Writing and reading run directories."""
