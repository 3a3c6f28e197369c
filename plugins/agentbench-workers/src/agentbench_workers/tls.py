"""TLS between a coordinator and its workers: version 1.3 only, and both sides present a certificate.

All certificates come from one authority that is used for nothing else. The extended key usage separates the roles: a
coordinator refuses coordinators' certificates, and a worker refuses workers' certificates.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agentbench_core import InputError
from agentbench_workers.files import Role, check_files, read_certificates

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def server_context(ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """A coordinator's context: it accepts only workers with a certificate from its authority.

    Raises InputError with all problems of the three files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # each connection is authenticated in full
    return _loaded(context, ca, certificate, key, Role.COORDINATOR)


def client_context(ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """A worker's context: it accepts only a coordinator whose certificate is from its authority and for the host name.

    Raises InputError with all problems of the three files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # requires a certificate, and checks the name
    return _loaded(context, ca, certificate, key, Role.WORKER)


def peer_name(certificate: Mapping[str, Any]) -> str:
    """The name of a worker, from its certificate as ``SSLSocket.getpeercert()`` returns it.

    Raises InputError unless there is exactly one, and it contains only letters, digits, ``.``, ``_`` and ``-``.
    """
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    if len(names) != 1 or not _NAME.fullmatch(names[0]):
        raise InputError(
            f"a worker's certificate must have one DNS name, but this one has {', '.join(names) or 'none'}",
            remedy="Use a certificate that `agentbench executor certs` created for a worker.",
        )
    return str(names[0])


def valid_until(*paths: Path) -> datetime:
    """The time, in UTC, when the first of the certificates in these files expires. Raises InputError."""
    return min(each.not_valid_after_utc for path in paths for each in read_certificates(path))


def _loaded(context: ssl.SSLContext, ca: Path, certificate: Path, key: Path, role: Role) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # OpenSSL names neither the file nor the problem, and would prompt for a password.
    check_files(ca, certificate, key, role)
    try:
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{certificate}, {key} or {ca} cannot be used: {error}",
            remedy="Create new ones: agentbench executor certs DIR --host NAME --workers N",
        ) from None
    return context
