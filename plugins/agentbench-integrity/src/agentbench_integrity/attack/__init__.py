"""`tasks attack`: adversarial agents tried on tasks."""
