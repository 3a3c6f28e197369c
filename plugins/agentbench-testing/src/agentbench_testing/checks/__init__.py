"""What every component of a kind must do. ``conformance`` has the classes that authors use."""
