"""What a look at a plugin finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that was looked at: as it should be, worth a change, or wrong; with what to do."""

    level: Literal["ok", "advice", "problem"]
    text: str
    remedy: str = ""


def ok(text: str) -> Finding:
    """As it should be."""
    return Finding(level="ok", text=text)


def advice(text: str, remedy: str = "") -> Finding:
    """It works, and could be better."""
    return Finding(level="advice", text=text, remedy=remedy)


def problem(text: str, remedy: str = "") -> Finding:
    """It will let somebody down."""
    return Finding(level="problem", text=text, remedy=remedy)


def surviving(findings: Iterable[Finding], what: str) -> Iterator[Finding]:
    """What is found; and where that ended, if what is looked at raises whatever it likes."""
    try:
        yield from findings
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is another's code, and all else is still looked at
        said = str(error).strip().partition("\n")[0]
        yield problem(f"{what} cannot be looked at: {type(error).__name__}: {said}")
