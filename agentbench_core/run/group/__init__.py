"""Planning and running several variants."""
