"""What everybody speaks: frozen values without I/O."""
