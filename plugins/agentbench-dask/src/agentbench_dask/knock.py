"""Connects to a scheduler once before Dask does, since Dask reports every failure as a timeout."""

from __future__ import annotations

import socket
import ssl
import time

from agentbench_core import InputError, UnavailableError

from .options import address_parts

RETRY = 0.2
"""Seconds between attempts to connect while nothing is listening yet."""


def knock(address: str, *, ca: str, cert: str, key: str, timeout_sec: float) -> None:
    """Check that a server is listening and accepts this side's certificate.

    Raises:
        InputError: the certificate files cannot be used.
        UnavailableError: no server is listening, or the two sides do not accept each other.
    """
    scheme, host, port = address_parts(address)
    context = _context(ca, cert, key) if scheme == "tls" else None
    deadline = time.monotonic() + timeout_sec
    connection = _open(address, host, port, timeout_sec)
    connection.settimeout(max(1.0, deadline - time.monotonic()))
    try:
        if context is not None:
            connection = context.wrap_socket(connection)
        # The scheduler sends first. With TLS 1.3, this also shows whether it accepts this side's certificate.
        if connection.recv(1):
            return
        problem = "it closed the connection"
    except TimeoutError:
        problem = "no response"
    except OSError as error:
        problem = getattr(error, "verify_message", "") or error.strerror or str(error)
    finally:
        connection.close()
    raise UnavailableError(
        f"the scheduler at {address} rejected the connection, or its certificate was rejected: {problem}",
        remedy="Use certificates from the same CA for the Dask cluster and for ca, cert and key. Use tls:// for a "
        "cluster with certificates, or tcp:// for one without.",
    )


def _open(address: str, host: str, port: int, timeout_sec: float) -> socket.socket:
    deadline = time.monotonic() + timeout_sec
    while True:
        try:
            return socket.create_connection((host, port), max(0.1, deadline - time.monotonic()))
        except OSError as error:
            if time.monotonic() + RETRY >= deadline:
                raise UnavailableError(
                    f"no Dask scheduler answered at {address} within {timeout_sec:g} s: {error.strerror or error}",
                    remedy="Start a scheduler (dask scheduler), correct the `scheduler` option, or increase "
                    "timeout_sec.",
                ) from None
            time.sleep(RETRY)


def _context(ca: str, cert: str, key: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca)
        context.load_cert_chain(cert, key)
    except OSError as error:  # also ssl.SSLError
        raise InputError(
            f"the certificates for Dask cannot be used (ca {ca}, cert {cert}, key {key}): {error.strerror or error}",
            remedy="Set each option to a file in PEM format; key must be the private key of cert.",
        ) from None
    context.check_hostname = False  # as in Dask, whose certificates name no hosts
    return context
