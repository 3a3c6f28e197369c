"""Secrets out of everything that is written.

A last net, never a control: keys stay out of sandboxes in the first place.
"""

from __future__ import annotations

import base64
import json
import math
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

from agentbench_core.values.failures import FailureReason, Outcome

_NAMES = re.compile(
    r"(?:.*(?:PASSWORD|PASSWD|SECRETS?|TOKEN|API_?KEY|CREDENTIALS?)|(?:.*_)?(?:KEY|PAT|PWD))(?:_.*)?", re.IGNORECASE
)
_SHORTEST = 6  # a shorter value would blot out ordinary words
_OURS = frozenset({*Outcome, *FailureReason})  # words of the record's own, which no secret may take from it


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

    def clean_value(self, value: Any) -> Any:
        """Plain data with every text in it cleaned, and fit for JSON: keys, numbers and our own words stay.

        Numbers that JSON does not have, and objects that it cannot hold, become text: what agents and tools give
        must not cost a record.
        """
        if isinstance(value, str):
            return value if value in _OURS else _text(self.clean(_bytes(value)))
        if isinstance(value, Mapping):
            return {str(key): self.clean_value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.clean_value(item) for item in value]
        if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        return self.clean_value(repr(value))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _forms(value: str) -> set[bytes]:
    raw = value.encode("utf-8", "surrogateescape")
    encoded = {
        json.dumps(value)[1:-1].encode(),
        json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass"),
        urllib.parse.quote(value, safe="", errors="surrogateescape").encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
    }
    return {raw} | {form for form in encoded if len(form) >= _SHORTEST}
