"""Redact secrets in everything written to disk.

A last line of defense, not a control, since keys never enter a sandbox in the first place.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentbench_core.evidence.encodings import SHORTEST, SecretFinder
from agentbench_core.evidence.key_formats import KeyFormats
from agentbench_core.values.failures import FailureReason, Outcome

_NAMES = re.compile(
    r"(?:.*(?:PASSWORD|PASSWD|SECRETS?|TOKEN|API_?KEY|CREDENTIALS?)|(?:.*_)?(?:KEY|PAT)|.*_PWD)(?:_.*)?", re.IGNORECASE
)
_OURS = frozenset({*Outcome, *FailureReason})  # fixed words of records, never redacted

_SHORT, _REMEMBERED = 4096, 4096  # characters, entries: a cache for text repeated by every call (prompts, specs, names)
_FIELD = re.compile(r"[a-z_.]+")  # the keys of records, events and settings


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names do not suggest a key, token, secret or password."""
    return {name: value for name, value in environment.items() if not _NAMES.fullmatch(name)}


class Redactor:
    """Replaces values of secret environment variables with their names, and keys of well-known formats with their kind.

    Finds values plain and in common encodings: escaped for JSON, URLs or source code to any depth, in hex, in base64,
    reversed, wrapped over lines, and parts of them at cuts. Does not find deliberately hidden values: encrypted,
    compressed, in other or repeated encodings, printed piece by piece, or spaced out.
    """

    def __init__(self, environment: Mapping[str, str], names: Iterable[str] = (), *, ours: Iterable[str] = ()) -> None:
        """Take the values of ``names``, and of every variable whose name suggests a key, token, secret or password.

        ``ours`` are names of the harness itself, of tasks and variants: a value that is exactly such a name is not
        redacted, even if a password is part of it.
        """
        self._ours = _OURS.union(ours)
        chosen = set(names) | {name for name in environment if _NAMES.fullmatch(name)}
        self._values = SecretFinder({environment[name]: name for name in sorted(chosen) if name in environment})
        self._keys = KeyFormats()
        self._clean_short = functools.lru_cache(maxsize=_REMEMBERED)(self._clean_text)

    def clean(self, data: bytes) -> bytes:
        """The same bytes with ``[redacted NAME]`` in place of each secret."""
        if len(data) < SHORTEST:
            return data
        spans = sorted([*self._values.find(data), *self._keys.find(data)], key=lambda span: (span[0], -span[1]))
        retained: list[bytes] = []
        done = 0
        for start, end, name in spans:
            if end > done:
                if start >= done:
                    retained += data[done : _align(data, start, -1)], b"[redacted %s]" % name.encode(errors="replace")
                done = _align(data, end, 1)
        return b"".join([*retained, data[done:]]) if retained else data

    def clean_text(self, text: str) -> str:
        """Like :meth:`clean`, for text, including text that is not valid UTF-8."""
        if len(text) < SHORTEST and text.isascii():
            return text
        return self._clean_short(text) if len(text) <= _SHORT else self._clean_text(text)

    def _clean_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        cleaned = self.clean(data)
        return text if cleaned is data else cleaned.decode("utf-8", "surrogatepass")

    def clean_value(self, value: Any) -> Any:
        """Plain data with every string redacted, and valid for JSON: numbers and words of the format are kept.

        Keys are also redacted, unless they look like fields of the format. Numbers and objects that JSON cannot
        represent become strings, so that invalid values from agents and tools do not prevent a record.
        """
        if isinstance(value, str):
            return value if value in self._ours else self.clean_text(value)
        if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, (dict, Mapping)):  # testing for dict first is faster
            return {self._clean_key(str(key)): self.clean_value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.clean_value(item) for item in value]
        return self.clean_value(repr(value))

    def clean_json(self, document: bytes) -> bytes:
        """A JSON document with all strings redacted; unchanged without secrets. Invalid JSON is cleaned as bytes."""
        try:
            value = json.loads(document)
            cleaned = self.clean_value(value)
        except (ValueError, RecursionError):
            return self.clean(document)
        if cleaned == value:
            return document
        return json.dumps(cleaned, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n"

    def _clean_key(self, key: str) -> str:
        return key if _is_field(key) else self.clean_text(key)


@functools.lru_cache(maxsize=4096)
def _is_field(key: str) -> bool:
    return bool(_FIELD.fullmatch(key))


def _align(data: bytes, position: int, step: int) -> int:
    """The nearest position, in the direction of ``step``, that is not inside a character."""
    while 0 < position < len(data) and 0x80 <= data[position] < 0xC0:
        position += step
    return position
