import pytest

from spotlight import excerpt, mark


@pytest.mark.parametrize(
    ("queries", "marked"),
    [
        ([], "Notebooks and a note"),
        (["book"], "Note[book]s and a note"),
        (["note"], "[Note]books and a [note]"),
        (["note", "book"], "[Notebook]s and a [note]"),
        (["notebook", "books"], "[Notebooks] and a note"),
        (["A", "nd"], "Notebooks [and] [a] note"),
        (["pen"], "Notebooks and a note"),
    ],
)
def test_mark(queries: list[str], marked: str) -> None:
    assert mark("Notebooks and a note", queries) == marked


def test_own_marks() -> None:
    assert mark("a b", ["B"], before="<b>", after="</b>") == "a <b>b</b>"


@pytest.mark.parametrize(
    ("query", "around", "result"),
    [
        ("tall", 6, "…reen, [tall] trees…"),
        ("green", 3, "[green], t…"),
        ("trees", 100, "green, tall [trees] here"),
        ("here", 0, "…[here]"),
        ("house", 5, None),
    ],
)
def test_excerpt(query: str, around: int, result: str | None) -> None:
    assert excerpt("green, tall trees here", query, around=around) == result
