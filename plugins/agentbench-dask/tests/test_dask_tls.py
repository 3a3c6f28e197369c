"""Connecting with the wrong certificates, or with none."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agentbench_core import InputError, UnavailableError
from agentbench_dask.knock import knock


def certificate(directory: Path, name: str) -> dict[str, str]:
    """A certificate that is its own CA, as options."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = {"cert": made.public_bytes(pem), "key": private}
    paths = {part: directory / f"{name}-{part}.pem" for part in files}
    for part, path in paths.items():
        path.write_bytes(files[part])
    return {"ca": str(paths["cert"]), **{part: str(path) for part, path in paths.items()}}


def as_flags(files: dict[str, str]) -> list[str]:
    """The certificate as arguments of a part of Dask."""
    return ["--tls-ca-file", files["ca"], "--tls-cert", files["cert"], "--tls-key", files["key"]]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The certificate of the cluster."""
    return certificate(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def encrypted(cluster: Any, ours: dict[str, str]) -> str:
    """A scheduler at ``tls://``, with a worker."""
    address: str = cluster.scheduler(*as_flags(ours), scheme="tls")
    cluster.worker(address, *as_flags(ours))
    return address


@pytest.fixture(scope="module")
def plain(cluster: Any) -> str:
    """A scheduler at ``tcp://``."""
    address: str = cluster.scheduler()
    return address


def test_the_right_certificate(encrypted: str, ours: dict[str, str], tickets: Any, places: Any) -> None:
    """A ticket runs on the encrypted cluster."""
    each = tickets(encrypted, **ours)
    each.start()
    each.want(1)
    assert places.next().first["port"] == places.port


def test_another_certificate(encrypted: str, tickets: Any, tmp_path: Path) -> None:
    """A scheduler with a certificate from another CA is refused, with a remedy."""
    each = tickets(encrypted, **certificate(tmp_path, "theirs"))
    with pytest.raises(UnavailableError) as caught:
        each.start()
    assert "certificate" in caught.value.message
    assert "the same CA" in caught.value.remedy


def test_a_certificate_that_the_scheduler_refuses(encrypted: str, ours: dict[str, str], tmp_path: Path) -> None:
    """The launcher accepts the scheduler's certificate. With TLS 1.3, the refusal only shows when it reads."""
    theirs = certificate(tmp_path, "theirs")
    with pytest.raises(UnavailableError, match="rejected the connection"):
        knock(encrypted, ca=ours["ca"], cert=theirs["cert"], key=theirs["key"], timeout_sec=10.0)


def test_tcp_and_tls_mixed_up(encrypted: str, plain: str, ours: dict[str, str]) -> None:
    """Mixing up the schemes is an error in both directions."""
    knock(plain, ca="", cert="", key="", timeout_sec=20.0)
    with pytest.raises(UnavailableError, match="rejected the connection"):
        knock(plain.replace("tcp", "tls"), **ours, timeout_sec=10.0)
    with pytest.raises(UnavailableError, match="rejected the connection"):
        knock(encrypted.replace("tls", "tcp"), ca="", cert="", key="", timeout_sec=1.0)


def test_files_that_are_no_certificates(encrypted: str, ours: dict[str, str], tmp_path: Path) -> None:
    """Missing files, other files, and a key of another certificate."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    other = certificate(tmp_path, "other")["key"]
    for change in ({"ca": "/nowhere.pem"}, {"cert": str(wrong)}, {"key": str(wrong)}, {"key": other}):
        with pytest.raises(InputError, match="certificates for Dask cannot be used"):
            knock(encrypted, **(ours | change), timeout_sec=1.0)
