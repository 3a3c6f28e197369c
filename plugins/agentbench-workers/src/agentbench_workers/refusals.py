"""Explains why a TLS connection was refused, and what to do about it.

In TLS 1.3, a client's handshake ends before the server has checked its certificate. The client learns of a refusal only
when it reads, and the error looks like a network error. Trying again does not help.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from agentbench_core import InputError

_TOGETHER = "On all machines, use files that `agentbench executor certs` wrote to the same directory."
_RENEW = "Check the clocks of both machines, or create new certificates: agentbench executor certs"
_ROLES = "Use worker-N.pem and worker-N.key for workers, and coordinator.pem and coordinator.key for the coordinator."
_OTHER_AUTHORITY = ("the other side's certificate was issued by a different authority", _TOGETHER)
_OTHER_HOST = (
    "the coordinator's certificate is not valid for the host that this worker connects to",
    "Connect to one of its hosts, or create a certificate for this host: agentbench executor certs DIR --host NAME",
)
_NO_TLS = ("the other side does not use TLS", "Check the coordinator's address, port and scheme.")
_OLD = (
    "the other side does not support TLS 1.3",
    "Remove any proxies between the two machines, or update OpenSSL on the other machine.",
)

_FOUND = {
    9: ("the other side's certificate is not valid yet", _RENEW),
    10: ("the other side's certificate has expired", _RENEW),
    18: _OTHER_AUTHORITY,
    19: _OTHER_AUTHORITY,
    20: _OTHER_AUTHORITY,
    21: _OTHER_AUTHORITY,
    26: ("the other side's certificate is for the other role", _ROLES),
    62: _OTHER_HOST,
    64: _OTHER_HOST,
}
"""Problems that this side found, by the code of X509_verify_cert_error_string(3)."""
_ALERTS = {
    "BAD_CERTIFICATE": ("the other side rejected this machine's certificate", _TOGETHER),
    "CERTIFICATE_EXPIRED": (
        "the other side rejected this machine's certificate, which has expired or is not valid yet",
        _RENEW,
    ),
    "CERTIFICATE_REQUIRED": ("the other side requires a certificate", _TOGETHER),
    "CERTIFICATE_UNKNOWN": ("the other side rejected this machine's certificate", _TOGETHER),
    "PROTOCOL_VERSION": _OLD,
    "UNKNOWN_CA": (
        "the other side rejected this machine's certificate, which is from a different authority",
        _TOGETHER,
    ),
    "UNSUPPORTED_CERTIFICATE": (
        "the other side rejected this machine's certificate, which is for the other role",
        _ROLES,
    ),
}
"""Problems that the other side found, by the name of the alert (RFC 8446, section 6)."""
_REASONS = {
    "HTTP_REQUEST": _NO_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": ("the other side presented no certificate", _TOGETHER),
    "UNSUPPORTED_PROTOCOL": _OLD,
    "WRONG_VERSION_NUMBER": _NO_TLS,
}


def refusal(error: BaseException) -> InputError | None:
    """An error that explains why TLS refused a connection, which would be refused again.

    ``None`` for all other errors, such as broken connections. The TLS error may be the cause of ``error``, as with
    HTTP clients.
    """
    for each in _chain(error):
        if not isinstance(each, ssl.SSLError):
            continue
        if isinstance(each, ssl.SSLCertVerificationError):
            known = _FOUND.get(each.verify_code)
            known = known or (f"the other side's certificate was rejected: {each.verify_message}", _TOGETHER)
        else:
            reason = str(each.reason or "")
            known = _ALERTS.get(reason.partition("ALERT_")[2]) or _REASONS.get(reason)
        if known:
            return InputError(known[0], remedy=known[1])
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        seen.append(following)
        yield following
        following = following.__cause__ or following.__context__
