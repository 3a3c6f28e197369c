"""Notice files that changed."""

from sealcheck.manifest import Entry, ManifestError, read_manifest, write_manifest
from sealcheck.verify import Finding, State, verify

__all__ = ["Entry", "Finding", "ManifestError", "State", "read_manifest", "verify", "write_manifest"]
