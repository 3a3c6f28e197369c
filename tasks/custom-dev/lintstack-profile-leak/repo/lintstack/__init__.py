"""One configuration for several linters."""

from lintstack.errors import ConfigError
from lintstack.resolver import Resolver

__all__ = ["ConfigError", "Resolver"]
