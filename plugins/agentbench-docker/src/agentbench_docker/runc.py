"""Known container escapes by runc version."""

from __future__ import annotations

import re

_REMEDY = (
    "upgrade runc on the engine's host, unless your distribution has backported the fix (see its security tracker)"
)
_FINAL_RELEASE = 1 << 30


def vulnerabilities(version: str) -> list[str]:
    """Warnings about the CVEs that affect ``version`` of runc, each with a remedy after ``"; "``.

    Only the version number is checked. CVE-2024-21626 is fixed in 1.1.12. CVE-2025-31133, CVE-2025-52565 and
    CVE-2025-52881 are fixed in 1.2.8, 1.3.3 and 1.4.0-rc.3.
    """
    parsed = _parse(version)
    if parsed is None:
        return [f"cannot parse the engine's runc version ({version or 'none'!r}); check runc for known vulnerabilities"]
    warnings = []
    if parsed < (1, 1, 12, 0):
        cve = "CVE-2024-21626 (container escape through a leaked file descriptor)"
        warnings.append(f"runc {version} is affected by {cve}, fixed in 1.1.12; {_REMEDY}")
    if not _has_2025_fixes(parsed):
        cves = "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881 (container can write to the host's /proc)"
        warnings.append(f"runc {version} is affected by {cves}, fixed in 1.2.8, 1.3.3 and 1.4.0-rc.3; {_REMEDY}")
    return warnings


_Version = tuple[int, int, int, int]


def _parse(version: str) -> _Version | None:
    """Major, minor, patch and release candidate. A final release sorts after its release candidates."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-~]rc\.?(\d{1,4}))?", version)
    if match is None:
        return None
    major, minor, patch, candidate = match.groups()
    return int(major), int(minor), int(patch), int(candidate) if candidate else _FINAL_RELEASE


def _has_2025_fixes(version: _Version) -> bool:
    line = version[:2]
    if line == (1, 2):
        return version >= (1, 2, 8, 0)
    if line == (1, 3):
        return version >= (1, 3, 3, 0)
    return version >= (1, 4, 0, 3)
