"""Log books: one move a line."""

from __future__ import annotations

from collections.abc import Iterable

from quayplan.errors import QuayError
from quayplan.quay import Quay


def play(quay: Quay, lines: Iterable[str]) -> list[str]:
    """Do what the lines say; the answers of those that have something to tell. Raises QuayError."""
    answers = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            answer = _move(quay, words)
        except QuayError as error:
            raise type(error)(f"line {number}: {error}") from None
        if answer is not None:
            answers.append(answer)
    return answers


def _move(quay: Quay, words: list[str]) -> str | None:
    match words:
        case ["berth", ship, length]:
            return f"{ship} {quay.berth(ship, _metres(length))}"
        case ["berth", ship, length, "at", at]:
            return f"{ship} {quay.berth(ship, _metres(length), at=_metres(at))}"
        case ["leave", ship]:
            quay.leave(ship)
        case ["close", start, end]:
            quay.close(_metres(start), _metres(end))
        case ["reopen", start, end]:
            quay.reopen(_metres(start), _metres(end))
        case ["gaps"]:
            return " ".join(map(str, quay.gaps())) or "none"
        case _:
            raise QuayError(f"cannot read {' '.join(words)!r}")
    return None


def _metres(word: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise QuayError(f"not a number of metres: {word!r}")
    return int(word)
