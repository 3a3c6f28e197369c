"""The releases that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packlist.requirement import Requirement
from packlist.version import Version


class NoRelease(LookupError):
    """Nothing fits."""

    def __init__(self, name: str, requirement: str) -> None:
        super().__init__(f"no release of {name!r} fits {requirement!r}")
        self.name = name


class Index:
    """Names and their versions."""

    def __init__(self, releases: Mapping[str, Iterable[str]]) -> None:
        self._releases = {name: _distinct(map(Version, texts)) for name, texts in releases.items()}

    def versions(self, name: str) -> list[Version]:
        """All versions, oldest first; none for an unknown name."""
        return list(self._releases.get(name, []))

    def newest(self, name: str, requirement: str = "") -> Version:
        """The newest version that the requirement allows. Raises NoRelease."""
        wanted = Requirement(requirement)
        for version in reversed(self.versions(name)):
            if wanted.allows(version):
                return version
        raise NoRelease(name, requirement)


def _distinct(versions: Iterable[Version]) -> list[Version]:
    return sorted(dict.fromkeys(versions))
