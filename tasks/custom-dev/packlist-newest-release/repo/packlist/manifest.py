"""From a manifest to exact versions."""

from __future__ import annotations

from packlist.index import Index


def lock(manifest: str, index: Index) -> str:
    """The newest release for each line of the manifest, one to a line and sorted by name."""
    picked: dict[str, str] = {}
    for line in manifest.splitlines():
        words = line.split(maxsplit=1)
        if words and not words[0].startswith("#"):
            picked[words[0]] = str(index.newest(*words))
    return "\n".join(f"{name} == {version}" for name, version in sorted(picked.items()))
