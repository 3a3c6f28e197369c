"""What is sent and received."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """A payload of some kind, a number from 0 to 255."""

    kind: int
    payload: bytes = b""

    def __post_init__(self) -> None:
        if not 0 <= self.kind <= 255:
            raise ValueError(f"the kind of a message is one byte, not {self.kind}")
