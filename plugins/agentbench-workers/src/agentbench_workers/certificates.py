"""Creates certificates for a coordinator and its workers: an authority, and one certificate per machine.

The authority's key is only needed to add workers, so no other machine needs it. No certificate outlives its authority.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import secrets
import shlex
import stat
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from agentbench_core import InputError
from agentbench_core.harness import Obstacles
from agentbench_workers.files import Certificate, Role, check_authority, check_files, read_certificates, read_key

MOST_WORKERS = 1000
MOST_DAYS = 3650
DEFAULT_DAYS = 30
CA = "ca"
COORDINATOR = "coordinator"

_SKEW = timedelta(days=1)
"""The clocks of other machines may be slow."""
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)({_LABEL}\.)*{_LABEL}")


@attrs.frozen(kw_only=True)
class Certificates:
    """The files in a directory of certificates."""

    directory: Path  #: the directory
    workers: Sequence[str]  #: names of the workers
    new: Collection[str]  #: names, without suffix, of new files; the other files already existed

    def certificate(self, name: str) -> Path:
        """The file with the certificate of the authority, the coordinator or a worker."""
        return self.directory / f"{name}.pem"

    def key(self, name: str) -> Path:
        """The file with its private key."""
        return self.directory / f"{name}.key"


def make_certificates(directory: Path, hosts: Sequence[str], workers: int, days: int = DEFAULT_DAYS) -> Certificates:
    """Create certificates for an authority, a coordinator and workers. Existing files are not replaced.

    Args:
        directory: where the files are written; created with mode 0700.
        hosts: host names and IP addresses that workers use to connect to the coordinator.
        workers: number of workers (``worker-1`` and so on), including existing ones.
        days: validity of new certificates; an existing authority limits it.

    Raises:
        InputError: all problems with the arguments and the existing files. Nothing was written.
    """
    problems = Obstacles()
    for what, number, most in (("workers", workers, MOST_WORKERS), ("days", days, MOST_DAYS)):
        if not 1 <= number <= most:
            problems.add(
                InputError(
                    f"{what} must be between 1 and {most}, not {number}", remedy=f"Pass a valid number: --{what} N"
                )
            )
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        with problems.gathered():
            names.append(_alternative_name(host))
    if not hosts:
        problems.add(InputError("a coordinator needs a host name or an IP address", remedy="Pass --host NAME."))
    problems.refuse()  # before anything that depends on them

    result = Certificates(directory=directory, workers=[f"worker-{n}" for n in range(1, workers + 1)], new=())
    _check_directory(directory)
    authority = _existing_authority(result)
    missing = []
    for name in (COORDINATOR, *result.workers):
        with problems.gathered():
            if not _exists(result, name):
                missing.append(name)
            elif authority is None:
                raise _without(result.certificate(name), result.certificate(CA))
            else:
                _check_existing(result, name, names)
    problems.refuse()

    with _errors_of(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if authority is None:
        authority = _make_authority(days)
        _write(result, CA, *authority)
        new = {CA}
    else:
        new = set()
    for name in missing:
        role, alternatives = (Role.COORDINATOR, names) if name == COORDINATOR else (Role.WORKER, [x509.DNSName(name)])
        _write(result, name, *_make_certificate(name, alternatives, role, authority, days))
    return attrs.evolve(result, new=frozenset(new | set(missing)))


_Pair = tuple[Certificate, ec.EllipticCurvePrivateKey]


def _make_authority(days: int) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The name must be unique, since OpenSSL looks up authorities by name.
    name = _name(f"AgentBench authority {secrets.token_hex(8)}")
    usage = _usage(signs=True)
    builder = (
        _builder(name, key.public_key(), datetime.now(UTC) + timedelta(days=days))
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return builder.sign(key, hashes.SHA256()), key


def _make_certificate(
    name: str, alternatives: Sequence[x509.GeneralName], role: Role, authority: _Pair, days: int
) -> _Pair:
    issuer, issuer_key = authority
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(datetime.now(UTC) + timedelta(days=days), issuer.not_valid_after_utc)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_name(name), key.public_key(), until)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([role.value]), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256()), key


def _builder(subject: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    """The key usage for signing certificates or, if ``signs`` is false, handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_name(host: str) -> x509.GeneralName:
    """A host as a certificate contains it. Raises InputError."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            raise InputError(
                f"{host} means all addresses of a machine, so workers cannot connect to it",
                remedy="Pass the name or the address that workers connect to: --host NAME",
            )
        if "%" not in host:
            return x509.IPAddress(address)
    # If the last label has only digits, it is an invalid IP address.
    if not _HOST.fullmatch(host) or host.rpartition(".")[2].isdigit():
        raise InputError(
            f"{host!r} is neither a host name nor an IP address",
            remedy="Pass it in ASCII (xn--...), without a scheme, a port or wildcards: --host NAME",
        )
    return x509.DNSName(host.lower())


def _existing_authority(files: Certificates) -> _Pair | None:
    """The authority in the directory, if any. Raises InputError if it cannot be used."""
    path = files.certificate(CA)
    if not _exists(files, CA):
        return None
    certificate, key = read_certificates(path)[0], read_key(files.key(CA))
    check_authority(path, certificate)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InputError(
            f"{files.key(CA)} is not the private key of {path}", remedy="Restore the key, or use a different directory."
        )
    return certificate, key


def _check_existing(files: Certificates, name: str, hosts: Sequence[x509.GeneralName]) -> None:
    """Raise InputError if an existing certificate cannot be used or is for other hosts."""
    path, role = files.certificate(name), Role.COORDINATOR if name == COORDINATOR else Role.WORKER
    check_files(files.certificate(CA), path, files.key(name), role)
    if role is Role.COORDINATOR:
        extensions = read_certificates(path)[0].extensions
        present = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if set(present) != set(hosts):
            shown = " ".join(f"--host {each.value}" for each in present)
            raise InputError(
                f"{path} exists, but is for different hosts",
                remedy=f"Pass its hosts ({shown}), or move it and its key to another directory.",
            )


def _exists(files: Certificates, name: str) -> bool:
    """Whether a certificate and its key exist. Raises InputError if only one of them does."""
    certificate, key = files.certificate(name), files.key(name)
    found = [os.path.lexists(path) for path in (certificate, key)]
    if found == [True, False]:
        raise _without(certificate, key)
    if found == [False, True]:
        raise InputError(f"{key} exists without {certificate.name}", remedy=f"Delete it: rm {shlex.quote(str(key))}")
    return all(found)


def _without(present: Path, missing: Path) -> InputError:
    return InputError(
        f"{present} exists without {missing.name}",
        remedy=f"Copy {missing.name} back into {missing.parent}, or use a different directory.",
    )


def _check_directory(directory: Path) -> None:
    """Raise InputError if the directory exists and other users can read it or write to it."""
    with _errors_of(directory):
        if not os.path.lexists(directory):
            return
        status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise InputError(f"{directory} is not a directory", remedy="Pass a different directory.")
    if status.st_uid != os.geteuid():
        raise InputError(f"{directory} belongs to another user", remedy="Pass a new directory.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise InputError(
            f"{directory} is accessible to other users",
            remedy=f"Pass a new directory, or run: chmod 700 {shlex.quote(str(directory))}",
        )


def _write(files: Certificates, name: str, certificate: Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Write the key first, since a certificate without its key would look as if the key had been moved."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_file(files.key(name), private)
    _write_file(files.certificate(name), certificate.public_bytes(Encoding.PEM))


def _write_file(path: Path, content: bytes) -> None:
    with _errors_of(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError:
            path.unlink()
            raise


@contextlib.contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", remedy="Pass a different directory.") from None
