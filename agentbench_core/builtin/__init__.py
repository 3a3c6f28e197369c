"""Components of the core, registered through the public hooks."""
