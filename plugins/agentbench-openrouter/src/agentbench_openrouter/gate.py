"""Finds secrets in a response while it is passed on in pieces. Pure: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Iterable


class Gate:
    """Lets bytes through, up to the first occurrence of a secret.

    At the end of each piece, the longest possible beginning of a secret is held back, because the rest may follow. It
    is always shorter than the longest secret.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = tuple(secret for secret in secrets if secret)
        self._held = b""
        self.found = False
        """Whether a secret has occurred. From there on, nothing is let through."""

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on after the next piece of the response."""
        if self.found or not self._secrets:
            return b"" if self.found else data
        data = self._held + data
        starts = [start for start in map(data.find, self._secrets) if start >= 0]
        if starts:
            self.found, self._held = True, b""
            return data[: min(starts)]
        size = max(_overlap(data, secret) for secret in self._secrets)
        passed, self._held = data[: len(data) - size], data[len(data) - size :]
        return passed

    def rest(self) -> bytes:
        """The bytes still held back at the end of the response."""
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, secret: bytes) -> int:
    """The length of the longest suffix of ``data`` that is a proper prefix of ``secret``."""
    start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
    while start >= 0:
        if secret.startswith(data[start:]):
            return len(data) - start
        start = data.find(secret[:1], start + 1)
    return 0
