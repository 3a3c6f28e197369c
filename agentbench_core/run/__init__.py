"""Running variants on tasks."""
