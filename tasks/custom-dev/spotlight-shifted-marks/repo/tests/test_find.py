import pytest

from spotlight import Span, find


@pytest.mark.parametrize(
    ("text", "query", "spans"),
    [
        ("one two one", "one", [(0, 3), (8, 11)]),
        ("Notes on NOTES", "notes", [(0, 5), (9, 14)]),
        ("crème, creme, CRÈME", "crème", [(0, 5), (7, 12), (14, 19)]),
        ("resume", "re\u0301sume\u0301", [(0, 6)]),
        ("ΟΔΟΣ οδος", "οδός", [(0, 4), (5, 9)]),
        ("banana", "ana", [(1, 4)]),
        ("nothing", "something", []),
        ("", "a", []),
    ],
)
def test_find(text: str, query: str, spans: list[tuple[int, int]]) -> None:
    assert find(text, query) == [Span(*span) for span in spans]


def test_find_after_a_letter_that_folds_to_two() -> None:
    text = "Lange Straße 5, Haus 2"
    (span,) = find(text, "haus")
    assert text[span.start : span.end] == "Haus"


@pytest.mark.parametrize("query", ["", "\u0301"])
def test_nothing_to_look_for(query: str) -> None:
    with pytest.raises(ValueError, match="nothing to look for"):
        find("text", query)
