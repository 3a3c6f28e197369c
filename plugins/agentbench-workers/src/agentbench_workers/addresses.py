"""Addresses of coordinators, as users write them."""

from __future__ import annotations

import ipaddress
import re

from agentbench_core import InputError

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\s\[\]]+)\]|(?P<host>[^\s:/@\[\]]+)):(?P<port>[0-9]{1,5})")
_MOST = 65535


def parse_address(text: str, what: str) -> tuple[str, int]:
    """The host and port; an IPv6 address must be in brackets. Raises InputError with ``what`` before the address."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _MOST:
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise InputError(
            f"{what}{shown}: expected HOST:PORT, for example 10.0.0.1:7000",
            remedy='Pass only the host and the port. Enclose an IPv6 address in brackets: "[::1]:7000"',
        )
    return found["v6"] or found["host"], int(found["port"])


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address, or ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
