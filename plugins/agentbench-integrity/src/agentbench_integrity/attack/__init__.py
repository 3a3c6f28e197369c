"""`tasks attack`: run adversarial agents against tasks."""
