"""Pick the releases that a manifest asks for."""

from packlist.index import Index, NoRelease
from packlist.manifest import lock
from packlist.requirement import Requirement
from packlist.version import InvalidVersion, Version

__all__ = ["Index", "InvalidVersion", "NoRelease", "Requirement", "Version", "lock"]
