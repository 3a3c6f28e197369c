"""Reads certificates and private keys from files, and checks that they can be used together."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from agentbench_core import InputError
from agentbench_core.harness import Obstacles

Certificate: TypeAlias = x509.Certificate

_NEW = "Create new certificates in a new directory: agentbench executor certs DIR --host NAME --workers N"
_USAGES = {ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth", ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth"}


class Role(enum.Enum):
    """The two sides of a connection. The value is the extended key usage of their certificates."""

    COORDINATOR = ExtendedKeyUsageOID.SERVER_AUTH  #: listens
    WORKER = ExtendedKeyUsageOID.CLIENT_AUTH  #: connects


def check_files(ca: Path, certificate: Path, key: Path, role: Role) -> None:
    """Raise InputError with all problems of the files: unreadable, expired, for the other role, or mismatched."""
    problems = Obstacles()
    authorities: Sequence[Certificate] = ()
    chain: Sequence[Certificate] = ()
    with problems.gathered():
        authorities = read_certificates(ca)
        check_authority(ca, authorities[0])
    with problems.gathered():
        chain = read_certificates(certificate)
        _check_dates(certificate, chain[0])
    with problems.gathered():
        private = read_key(key)
        if chain and private.public_key() != chain[0].public_key():
            raise InputError(
                f"{key} is not the private key of {certificate}", remedy="Use two files that were created together."
            )
    if chain:
        with problems.gathered():
            _check_role(certificate, chain[0], role)
    if chain and authorities:
        with problems.gathered():
            _check_issuer(certificate, chain[-1], ca, authorities)
    problems.refuse()


def check_authority(path: Path, certificate: Certificate) -> None:
    """Raise InputError unless a certificate can currently sign others."""
    constraints = None
    with contextlib.suppress(x509.ExtensionNotFound):
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    if constraints is None or not constraints.ca:
        raise InputError(
            f"{path} is not the certificate of a certificate authority",
            remedy="Use the ca.pem that `agentbench executor certs` wrote.",
        )
    _check_dates(path, certificate)


def read_certificates(path: Path) -> Sequence[Certificate]:
    """The certificates in a PEM file, at least one. Raises InputError."""
    try:
        found = x509.load_pem_x509_certificates(_read(path))
        for certificate in found:
            _ = certificate.extensions, certificate.public_key()  # parsed on first use
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise InputError(f"{path} contains no readable certificate in PEM format", remedy=_NEW) from None
    return found


def read_key(path: Path) -> PrivateKeyTypes:
    """The private key in a PEM file. Raises InputError."""
    try:
        return load_pem_private_key(_read(path), password=None)
    except TypeError:
        raise InputError(
            f"{path} is encrypted, but encrypted private keys are not supported",
            remedy=f"Decrypt it, or start over. {_NEW}",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{path} contains no readable private key in PEM format", remedy=_NEW) from None


def issued_by(certificate: Certificate, authority: Certificate) -> bool:
    """Whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def date_text(moment: datetime) -> str:
    """A time in UTC, for messages."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}", remedy="Correct the path or the file's permissions."
        ) from None


def _check_dates(path: Path, certificate: Certificate) -> None:
    now = datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise InputError(f"{path} expired on {date_text(certificate.not_valid_after_utc)}", remedy=_NEW)
    if now < certificate.not_valid_before_utc:
        raise InputError(
            f"{path} is not valid before {date_text(certificate.not_valid_before_utc)}",
            remedy="Check the clock of this machine.",
        )


def _check_role(path: Path, certificate: Certificate, role: Role) -> None:
    """Refuse a certificate for the other role, and one without a usage, which would be accepted in both roles."""
    usages: Sequence[x509.ObjectIdentifier] = ()
    with contextlib.suppress(x509.ExtensionNotFound):
        usages = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    if role.value not in usages:
        found = ", ".join(_USAGES.get(usage, usage.dotted_string) for usage in usages) or "not set"
        name = role.name.lower()
        raise InputError(
            f"{path} is not the certificate of a {name}: its extended key usage is {found}, not {_USAGES[role.value]}",
            remedy=f"Use the files that `agentbench executor certs` created for a {name}.",
        )


def _check_issuer(path: Path, last: Certificate, ca: Path, authorities: Sequence[Certificate]) -> None:
    """``last``: the last certificate of a chain, which may be the authority itself."""
    if not any(issued_by(last, authority) for authority in authorities):
        raise InputError(f"{path} was not issued by {ca}", remedy="Use files that were created together.")
