import pytest

from mailsieve import Query, QueryError

INBOX = [
    {"id": 1, "from": "ada", "subject": "Engine plans", "tag": ["work", "urgent"], "size": 120},
    {"id": 2, "from": "ada", "subject": "Lunch?", "tag": [], "size": 2.5},
    {"id": 3, "from": "Grace", "subject": "Re: engine plans", "tag": ["work"], "size": 40},
    {"id": 4, "from": "spammer", "subject": "WIN a lunch", "tag": ["spam"], "size": 7},
]


def found(text: str) -> list[int]:
    return [message["id"] for message in Query.parse(text).select(INBOX)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lunch", [2, 4]),
        ("from:grace", [3]),
        ("tag:work", [1, 3]),
        ('subject:"engine plans"', [1]),
        ("size>7", [1, 3]),
        ("size<2.6", [2]),
        ("size:7", [4]),
        ("missing:ada", []),
        ("subject>3", []),
    ],
)
def test_terms(text: str, expected: list[int]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tag:work and from:ada", [1]),
        ("tag:work from:ada", [1]),
        ("tag:spam or from:ada tag:work", [1, 4]),
        ("(tag:spam or from:ada) lunch", [2, 4]),
        ("not tag:work", [2, 4]),
        ("-tag:work lunch", [2, 4]),
        ("-(tag:work or lunch)", []),
        ("lunch -tag:spam", [2]),
        ("tag:work or lunch and not tag:spam", [1, 2, 3]),
        ("not (tag:work or tag:spam)", [2]),
        ("not not lunch", [2, 4]),
    ],
)
def test_operators(text: str, expected: list[int]) -> None:
    assert found(text) == expected


def test_not_before_and() -> None:
    assert found("not tag:work and from:ada") == [2]


def test_combined() -> None:
    lunch, work = Query.parse("lunch"), Query.parse("tag:work")
    assert (~lunch & work).select(INBOX) == [INBOX[0], INBOX[2]]
    assert (lunch | work).select(INBOX) == INBOX


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), ("a or", 4), ("(a", 2), ("a)", 1), ("and a", 0), ("a not", 5), ("size>big", 0), ('a "b', 2), ("--a", 1)],
)
def test_errors(text: str, position: int) -> None:
    with pytest.raises(QueryError) as caught:
        Query.parse(text)
    assert caught.value.position == position
