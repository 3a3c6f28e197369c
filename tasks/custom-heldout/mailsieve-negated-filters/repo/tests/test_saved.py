import pytest

from mailsieve import Query, SavedSearches

MESSAGES = [{"tag": tags} for tags in ([], ["a"], ["b"], ["c"], ["a", "b"], ["a", "c"], ["b", "c"], ["a", "b", "c"])]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a b", "a and b"),
        ("a (b c)", "a and b and c"),
        ("(a or b) c", "(a or b) and c"),
        ("(a b) or (c)", "a and b or c"),
        ("-a", "not a"),
        ('"a b" "or" e-mail "-x"', '"a b" and "or" and e-mail and "-x"'),
        (r'say:"\"hi\" \\"', r'say:"\"hi\" \\"'),
        ("size>1e3", "size>1e3"),
    ],
)
def test_written(text: str, written: str) -> None:
    assert str(Query.parse(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        "tag:a or tag:b tag:c",
        "(tag:a or tag:b) tag:c",
        "not tag:a and tag:b",
        "tag:b and not tag:a",
        "(not tag:a) and tag:b",
        "not (tag:a or tag:b)",
        "-tag:a or tag:b",
    ],
)
def test_read_back(text: str) -> None:
    query = Query.parse(text)
    again = SavedSearches.loads(SavedSearches({"saved": query}).dumps())["saved"]
    assert again.select(MESSAGES) == query.select(MESSAGES)


def test_file() -> None:
    text = "# mine\n\nwork = tag:work (done)\nhome= tag:home or -from:mum\n"
    searches = SavedSearches.loads(text)
    assert searches.dumps() == "home = tag:home or not from:mum\nwork = tag:work and done\n"


def test_file_with_a_broken_line() -> None:
    with pytest.raises(ValueError, match="expected 'name = expression', not 'work'"):
        SavedSearches.loads("work\n")
