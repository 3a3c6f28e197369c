"""Secrets out of everything that is written.

A last net, never a control: keys stay out of sandboxes in the first place.
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
_OURS = frozenset({*Outcome, *FailureReason})  # words of the record's own, which no secret may take from it

_SHORT, _REMEMBERED = 4096, 4096  # characters, texts: what every call says again (prompts, specs of tools, names)
_FIELD = re.compile(r"[a-z_.]+")  # the keys of records, events and settings


class Redactor:
    """Replaces the values of secret environment variables by their names, and keys of well-known formats by their kind.

    Found are values as they are and in usual disguises: escaped for JSON, URLs or source code to any depth, in hex,
    in base64, reversed, broken over lines, and what a cut left of them. Not found is what somebody made to be hidden:
    anything encrypted, compressed, encoded otherwise or once more, printed piece by piece, or spaced out.
    """

    def __init__(self, environment: Mapping[str, str], names: Iterable[str] = (), *, ours: Iterable[str] = ()) -> None:
        """Take the values of ``names`` and of every variable that looks like a key, token, secret or password.

        ``ours`` are names of the harness's own, of tasks and variants: a value that is exactly such a name stays,
        even if somebody's password is a part of it.
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
        kept: list[bytes] = []
        done = 0
        for start, end, name in spans:
            if end > done:
                if start >= done:
                    kept += data[done : _whole(data, start, -1)], b"[redacted %s]" % name.encode(errors="replace")
                done = _whole(data, end, 1)
        return b"".join([*kept, data[done:]]) if kept else data

    def clean_text(self, text: str) -> str:
        """The same for text, also such as is not fit for UTF-8."""
        if len(text) < SHORTEST and text.isascii():
            return text
        return self._clean_short(text) if len(text) <= _SHORT else self._clean_text(text)

    def _clean_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        cleaned = self.clean(data)
        return text if cleaned is data else cleaned.decode("utf-8", "surrogatepass")

    def clean_value(self, value: Any) -> Any:
        """Plain data with every text in it cleaned, and fit for JSON: numbers and our own words stay.

        Keys too are cleaned, unless they look like a field of ours. Numbers that JSON does not have, and objects that
        it cannot hold, become text: what agents and tools give must not cost a record.
        """
        if isinstance(value, str):
            return value if value in self._ours else self.clean_text(value)
        if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, (dict, Mapping)):  # a plain dict is known sooner
            return {self._clean_key(str(key)): self.clean_value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.clean_value(item) for item in value]
        return self.clean_value(repr(value))

    def clean_json(self, document: bytes) -> bytes:
        """A JSON document with its values cleaned; as it was if there is nothing to clean."""
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


def _whole(data: bytes, position: int, step: int) -> int:
    """The next position that is not within a character."""
    while 0 < position < len(data) and 0x80 <= data[position] < 0xC0:
        position += step
    return position
