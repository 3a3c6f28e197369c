"""Certificates in a directory: their content, their modes, additional workers, and refusals."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agentbench_core import InputError
from agentbench_workers import certificates
from agentbench_workers.certificates import Certificates, make_certificates
from agentbench_workers.files import issued_by, read_certificates, read_key

HOSTS = ("head.example", "10.0.0.1", "::1")


def content(directory: Path) -> Mapping[str, bytes]:
    """All files of a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def certificate(files: Certificates, name: str) -> x509.Certificate:
    (only,) = read_certificates(files.certificate(name))
    return only


def test_files_and_modes(tmp_path: Path) -> None:
    """Whatever the umask is, only the owner can read them."""
    before = os.umask(0)
    try:
        files = make_certificates(tmp_path / "new/certs", HOSTS, 2)
    finally:
        os.umask(before)
    names = ("ca", "coordinator", "worker-1", "worker-2")
    assert set(content(files.directory)) == {f"{name}.{suffix}" for name in names for suffix in ("pem", "key")}
    assert (set(files.new), files.workers) == (set(names), ["worker-1", "worker-2"])
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.directory.iterdir()} == {0o600}
    assert [name for name in names if b"PRIVATE" in files.certificate(name).read_bytes()] == []


def test_the_content_of_the_certificates(tmp_path: Path) -> None:
    """One role each, the hosts or the name of the worker, P-256, and valid since yesterday."""
    files = make_certificates(tmp_path / "certs", HOSTS, 2, days=7)
    authority = certificate(files, "ca")
    roles = {
        "coordinator": ExtendedKeyUsageOID.SERVER_AUTH,
        "worker-1": ExtendedKeyUsageOID.CLIENT_AUTH,
        "worker-2": ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    alternatives: dict[str, list[x509.GeneralName]] = {name: [x509.DNSName(name)] for name in roles}
    alternatives["coordinator"] = [x509.DNSName("head.example"), *(x509.IPAddress(ip_address(a)) for a in HOSTS[1:])]
    for name, usage in roles.items():
        made = certificate(files, name)
        assert issued_by(made, authority)
        assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [usage]
        assert list(made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == alternatives[name]
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert [each.value for each in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [name]
        assert made.not_valid_after_utc <= authority.not_valid_after_utc
    every = [certificate(files, name) for name in ("ca", *roles)]
    keys = [read_key(files.key(name)) for name in ("ca", *roles)]
    assert len({each.serial_number for each in every}) == 4
    assert len({each.subject for each in every}) == 4
    assert {type(key.curve) for key in keys if isinstance(key, ec.EllipticCurvePrivateKey)} == {ec.SECP256R1}
    now = datetime.now(UTC)
    for each in every:
        assert timedelta(hours=23) < now - each.not_valid_before_utc < timedelta(hours=25)
        assert timedelta(days=6) < each.not_valid_after_utc - now < timedelta(days=8)


def test_further_workers_of_the_same_authority(tmp_path: Path) -> None:
    """Existing files are unchanged; new certificates expire with the authority."""
    directory = tmp_path / "certs"
    make_certificates(directory, HOSTS, 1, days=7)
    before = content(directory)
    files = make_certificates(directory, tuple(reversed(HOSTS)), 3, days=90)
    assert set(files.new) == {"worker-2", "worker-3"}
    assert {name: text for name, text in content(directory).items() if name in before} == before
    assert issued_by(certificate(files, "worker-3"), certificate(files, "ca"))
    assert certificate(files, "worker-3").not_valid_after_utc == certificate(files, "ca").not_valid_after_utc
    assert set(make_certificates(directory, HOSTS, 2).new) == set()


def test_a_lost_coordinator_is_made_again(tmp_path: Path) -> None:
    """After its files were deleted, it is created again, possibly for other hosts."""
    files = make_certificates(tmp_path / "certs", HOSTS, 1)
    for path in (files.certificate("coordinator"), files.key("coordinator")):
        path.unlink()
    again = make_certificates(files.directory, ["other.example"], 1)
    assert set(again.new) == {"coordinator"}
    assert issued_by(certificate(again, "coordinator"), certificate(files, "ca"))


def test_all_wrong_arguments_are_reported_at_once(tmp_path: Path) -> None:
    """All wrong arguments are reported at once, and nothing is created."""
    hosts = ("https://a.example", "a.example:80", "*.example", "0.0.0.0", "1.2.3", "bücher.example", "", "fe80::1%lo")
    with pytest.raises(InputError) as caught:
        make_certificates(tmp_path / "certs", hosts, 0, days=100_000)
    text = str(caught.value)
    assert text.startswith("10 problems must be fixed first\n")
    for host in hosts:
        assert f"{host!r} is neither" in text or f"{host} means all addresses" in text
    assert "workers must be between 1 and 1000, not 0" in text
    assert "days must be between 1 and 3650, not 100000" in text
    with pytest.raises(InputError, match="needs a host name"):
        make_certificates(tmp_path / "certs", [], 1)
    assert list(tmp_path.iterdir()) == []


def remove(files: Certificates, name: str) -> None:
    (files.directory / name).unlink()


def damage(files: Certificates, name: str) -> None:
    (files.directory / name).write_text("x")


def swap(files: Certificates, name: str) -> None:
    """Replace a key with the key of another pair."""
    (files.directory / name).write_bytes(files.key("worker-2").read_bytes())


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        (remove, "ca.key", "ca.pem exists without ca.key\nCopy ca.key back into "),
        (remove, "ca.pem", "ca.key exists without ca.pem\nDelete it: rm "),
        (remove, "worker-1.key", "worker-1.pem exists without worker-1.key\nCopy worker-1.key back"),
        (remove, "coordinator.pem", "coordinator.key exists without coordinator.pem\nDelete it: rm "),
        (damage, "ca.pem", "ca.pem contains no readable certificate in PEM format"),
        (damage, "ca.key", "ca.key contains no readable private key in PEM format"),
        (damage, "worker-1.pem", "worker-1.pem contains no readable certificate in PEM format"),
        (swap, "ca.key", "ca.key is not the private key of "),
        (swap, "worker-1.key", "worker-1.key is not the private key of "),
    ],
)
def test_directories_that_are_not_whole(tmp_path: Path, change: object, name: str, message: str) -> None:
    """The error names the problem and a remedy, and nothing is written."""
    files = make_certificates(tmp_path / "certs", HOSTS, 2)
    assert callable(change)
    change(files, name)
    before = content(files.directory)
    with pytest.raises(InputError) as caught:
        make_certificates(files.directory, HOSTS, 3)
    assert message in str(caught.value)
    assert content(files.directory) == before


def test_certificates_of_another_authority(tmp_path: Path) -> None:
    """If the authority was replaced or removed, certificates of the former authority are refused."""
    files, other = (make_certificates(tmp_path / name, HOSTS, 1) for name in ("certs", "other"))
    for path in (files.certificate("ca"), files.key("ca")):
        path.write_bytes((other.directory / path.name).read_bytes())
    with pytest.raises(InputError) as caught:
        make_certificates(files.directory, HOSTS, 2)
    assert f"worker-1.pem was not issued by {files.certificate('ca')}" in str(caught.value)
    assert "coordinator.pem was not issued by" in str(caught.value)
    for path in (files.certificate("ca"), files.key("ca")):
        path.unlink()
    with pytest.raises(InputError, match=r"worker-1.pem exists without ca.pem"):
        make_certificates(files.directory, HOSTS, 2)


def test_a_coordinator_for_other_hosts(tmp_path: Path) -> None:
    """The coordinator's certificate is not replaced, and its hosts are shown."""
    files = make_certificates(tmp_path / "certs", HOSTS, 1)
    with pytest.raises(InputError) as caught:
        make_certificates(files.directory, ["head.example"], 2)
    assert "is for different hosts\nPass its hosts (--host head.example --host 10.0.0.1 --host ::1), or " in str(
        caught.value
    )
    assert not files.certificate("worker-2").exists()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_directories_open_to_others(tmp_path: Path, mode: int) -> None:
    """Other users could replace files or read keys."""
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs").chmod(mode)
    with pytest.raises(InputError, match=r"is accessible to other users\n.*chmod 700"):
        make_certificates(tmp_path / "certs", HOSTS, 1)
    assert list((tmp_path / "certs").iterdir()) == []


def test_paths_that_are_not_directories(tmp_path: Path) -> None:
    """A file, a path below one, and a link that leads nowhere."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name, message in (("file", "is not a directory"), ("file/certs", "Not a directory"), ("link", "No such file")):
        with pytest.raises(InputError, match=message):
            make_certificates(tmp_path / name, HOSTS, 1)


def test_links_are_not_followed_when_files_are_written(tmp_path: Path) -> None:
    """A link in place of a file counts as the existing file."""
    (tmp_path / "certs").mkdir(mode=0o700)
    (tmp_path / "certs/worker-1.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"worker-1.key exists without worker-1.pem"):
        make_certificates(tmp_path / "certs", HOSTS, 1)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("written", range(8))
def test_a_command_that_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    """After any number of files, the command can be run again. It names the one file to delete, if any."""
    directory, write, left = tmp_path / "with blanks", certificates._write_file, iter(range(written))

    def write_some(path: Path, content: bytes) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(certificates, "_write_file", write_some)
        with pytest.raises(KeyboardInterrupt):
            make_certificates(directory, HOSTS, 3)
    if written % 2:
        with pytest.raises(InputError) as caught:
            make_certificates(directory, HOSTS, 3)
        (line,) = [line for line in str(caught.value).splitlines() if line.startswith("Delete it: ")]
        subprocess.run(["sh", "-c", line.removeprefix("Delete it: ")], check=True)
    files = make_certificates(directory, HOSTS, 3)
    assert len(content(directory)) == 10
    assert [name for name in files.workers if not issued_by(certificate(files, name), certificate(files, "ca"))] == []
