"""The checks for components of each kind. ``conformance`` has the classes for plugin authors."""
