"""H35: runc versions with known escapes are reported."""

import pytest
from hypothesis import given, strategies as st

from agentbench_docker.runc import vulnerabilities


@pytest.mark.parametrize(
    ("version", "cves"),
    [
        ("1.1.5+ds1", ["CVE-2024-21626", "CVE-2025-31133"]),
        ("1.1.11", ["CVE-2024-21626", "CVE-2025-31133"]),
        ("1.1.12", ["CVE-2025-31133"]),
        ("1.2.7", ["CVE-2025-31133"]),
        ("1.2.8", []),
        ("1.3.0-rc.1", ["CVE-2025-31133"]),
        ("1.3.2", ["CVE-2025-31133"]),
        ("1.3.3-0ubuntu1", []),
        ("1.4.0-rc.2", ["CVE-2025-31133"]),
        ("1.4.0-rc.3", []),
        ("1.4.0~rc.2", ["CVE-2025-31133"]),
        ("1.4.0", []),
        ("v2.0.1", []),
    ],
)
def test_known_versions(version: str, cves: list[str]) -> None:
    found = vulnerabilities(version)
    assert len(found) == len(cves)
    for line, cve in zip(found, cves, strict=True):
        assert cve in line
        assert "upgrade" in line


@pytest.mark.parametrize("version", ["", "unknown", "1.1"])
def test_unreadable_version_is_reported_as_vulnerable(version: str) -> None:
    assert len(vulnerabilities(version)) == 1


@given(st.text("0123456789.-+~rcv \u0663\u00b2\0", max_size=40))
def test_never_raises(version: str) -> None:
    vulnerabilities(version)
