"""Which known escapes a version of runc is open to."""

from __future__ import annotations

import re

_REMEDY = (
    "upgrade the engine's runc; a distribution may have repaired it under the old number, "
    "which its security tracker tells"
)
_NO_CANDIDATE = 1 << 30


def weaknesses(version: str) -> list[str]:
    """One line per group of CVEs that ``version`` of runc is open to, each with what to do.

    By the version number alone: CVE-2024-21626 is repaired in 1.1.12; CVE-2025-31133, CVE-2025-52565 and
    CVE-2025-52881 in 1.2.8, 1.3.3 and 1.4.0-rc.3. Source: the advisories of those names.
    """
    parsed = _parse(version)
    if parsed is None:
        return [f"the engine names no version of runc that can be read ({version or 'none'!r}); check it by hand"]
    found = []
    if parsed < (1, 1, 12, 0):
        cve = "CVE-2024-21626 (a container gets out through a leaked file descriptor)"
        found.append(f"runc {version} is older than 1.1.12: {cve}; {_REMEDY}")
    if not _repaired_in_2025(parsed):
        cves = "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881 (a container writes to the host's /proc)"
        found.append(f"runc {version} is older than 1.2.8, 1.3.3 or 1.4.0-rc.3 of its line: {cves}; {_REMEDY}")
    return found


_Version = tuple[int, int, int, int]


def _parse(version: str) -> _Version | None:
    """Major, minor, patch and release candidate; a final release sorts after its candidates."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-~]rc\.?(\d{1,4}))?", version)
    if match is None:
        return None
    major, minor, patch, candidate = match.groups()
    return int(major), int(minor), int(patch), int(candidate) if candidate else _NO_CANDIDATE


def _repaired_in_2025(version: _Version) -> bool:
    line = version[:2]
    if line == (1, 2):
        return version >= (1, 2, 8, 0)
    if line == (1, 3):
        return version >= (1, 3, 3, 0)
    return version >= (1, 4, 0, 3)
