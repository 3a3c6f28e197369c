"""Why a TLS connection was refused, in words and with a remedy.

In TLS 1.3, the handshake of a client ends before the server has checked its certificate. The client learns of a refusal
when it reads, and its error looks like one of the network. Such a connection fails again however often it is repeated.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from agentbench_core import InputError

_TOGETHER = "On all machines, use files of the same call of `agentbench executor certs`."
_RENEW = "Check the clocks of both machines, or make new certificates: agentbench executor certs"
_ROLES = "A worker needs worker-N.pem and worker-N.key, a coordinator coordinator.pem and coordinator.key."
_OTHER_AUTHORITY = ("the other side's certificate was issued by another authority", _TOGETHER)
_OTHER_HOST = (
    "the coordinator's certificate is not for the host that this worker connects to",
    "Connect to one of its hosts, or make a certificate for this one: agentbench executor certs DIR --host NAME",
)
_NO_TLS = ("the other side does not use TLS", "Check the address and the port of the coordinator, and its scheme.")
_OLD = (
    "the other side does not support TLS 1.3",
    "Remove proxies between the two machines, or update OpenSSL there.",
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
"""By the code of X509_verify_cert_error_string(3): what this side has found."""
_ALERTS = {
    "BAD_CERTIFICATE": ("the other side refused this certificate", _TOGETHER),
    "CERTIFICATE_EXPIRED": ("the other side refused this certificate, since it is expired or not valid yet", _RENEW),
    "CERTIFICATE_REQUIRED": ("the other side requires a certificate", _TOGETHER),
    "CERTIFICATE_UNKNOWN": ("the other side refused this certificate", _TOGETHER),
    "PROTOCOL_VERSION": _OLD,
    "UNKNOWN_CA": ("the other side refused this certificate, since it is from another authority", _TOGETHER),
    "UNSUPPORTED_CERTIFICATE": ("the other side refused this certificate, since it is for the other role", _ROLES),
}
"""By the name of the alert (RFC 8446, section 6): what the other side has found."""
_REASONS = {
    "HTTP_REQUEST": _NO_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": ("the other side has no certificate", _TOGETHER),
    "UNSUPPORTED_PROTOCOL": _OLD,
    "WRONG_VERSION_NUMBER": _NO_TLS,
}


def refusal(error: BaseException) -> InputError | None:
    """The error that explains why TLS refused a connection; it will be refused again.

    ``None`` for all other errors, such as connections that were cut. ``error`` may have been raised from that of TLS,
    as HTTP clients do.
    """
    for each in _chain(error):
        if not isinstance(each, ssl.SSLError):
            continue
        if isinstance(each, ssl.SSLCertVerificationError):
            known = _FOUND.get(each.verify_code)
            known = known or (f"the other side's certificate was refused: {each.verify_message}", _TOGETHER)
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
