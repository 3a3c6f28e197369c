"""TLS between a coordinator and its workers: version 1.3 only, and both sides show a certificate.

All certificates come from one authority that is used for nothing else. The extended key usage keeps the roles apart: a
coordinator refuses the certificate of a coordinator, and a worker that of a worker.
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
    """The context of a coordinator: it accepts only workers with a certificate of its authority.

    Raises InputError with all problems of the three files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # each connection is authenticated in full
    return _loaded(context, ca, certificate, key, Role.COORDINATOR)


def client_context(ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """The context of a worker: it accepts only the coordinator of its authority, under the name that it connects to.

    Raises InputError with all problems of the three files.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # requires a certificate, and checks the name
    return _loaded(context, ca, certificate, key, Role.WORKER)


def peer_name(certificate: Mapping[str, Any]) -> str:
    """The name of a worker, from its certificate as ``SSLSocket.getpeercert()`` returns it.

    Raises InputError unless there is exactly one, which contains only letters, digits, ``.``, ``_`` and ``-``.
    """
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    if len(names) != 1 or not _NAME.fullmatch(names[0]):
        raise InputError(
            f"the certificate of a worker must have one DNS name, and this one has {', '.join(names) or 'none'}",
            remedy="Use a certificate that `agentbench executor certs` made for a worker.",
        )
    return str(names[0])


def valid_until(*paths: Path) -> datetime:
    """The time, in UTC, at which the first of the certificates in these files expires. Raises InputError."""
    return min(each.not_valid_after_utc for path in paths for each in read_certificates(path))


def _loaded(context: ssl.SSLContext, ca: Path, certificate: Path, key: Path, role: Role) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # OpenSSL names neither the file nor the problem, and would ask for a password at the terminal.
    check_files(ca, certificate, key, role)
    try:
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{certificate}, {key} or {ca} cannot be used: {error}",
            remedy="Make new ones: agentbench executor certs DIR --host NAME --workers N",
        ) from None
    return context
