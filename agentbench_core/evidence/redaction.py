"""Secrets out of everything that is written.

A last net, never a control: keys stay out of sandboxes in the first place.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping

_NAMES = re.compile(r"(?:.*_)?(?:API_KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
_SHORTEST = 6  # a shorter value would blot out ordinary words


class Redactor:
    """Replaces the values of secret environment variables by their names."""

    def __init__(self, environment: Mapping[str, str], names: Iterable[str] = ()) -> None:
        """Take the values of ``names`` and of every variable that looks like a key, token, secret or password."""
        chosen = set(names) | {name for name in environment if _NAMES.fullmatch(name)}
        values = {environment[name]: name for name in sorted(chosen) if len(environment.get(name, "")) >= _SHORTEST}
        self._names = {form: name for value, name in values.items() for form in _forms(value)}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first))) if longest_first else None

    def clean(self, data: bytes) -> bytes:
        """The same bytes with ``[redacted NAME]`` in place of each secret, plain or encoded."""
        if self._pattern is None:
            return data
        return self._pattern.sub(lambda match: b"[redacted %s]" % self._names[match.group()].encode(), data)


def _forms(value: str) -> set[bytes]:
    raw = value.encode("utf-8", "surrogateescape")
    encoded = {
        json.dumps(value)[1:-1].encode(),
        urllib.parse.quote(value, safe="", errors="surrogateescape").encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
    }
    return {raw} | {form for form in encoded if len(form) >= _SHORTEST}
