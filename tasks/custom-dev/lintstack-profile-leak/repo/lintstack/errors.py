"""The one exception of this package."""


class ConfigError(Exception):
    """The configuration cannot be used; the message says why."""
