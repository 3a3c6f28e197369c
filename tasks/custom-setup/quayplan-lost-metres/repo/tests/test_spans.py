import pytest

from quayplan import QuayError, Span, SpanSet


def spans(*pairs: tuple[int, int]) -> list[Span]:
    return [Span(*pair) for pair in pairs]


def test_span() -> None:
    assert str(Span(120, 200)) == "120-200"
    assert Span(120, 200).length == 80
    assert sorted(spans((5, 9), (0, 7))) == spans((0, 7), (5, 9))


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 5), (5, 4)])
def test_not_a_span(start: int, end: int) -> None:
    with pytest.raises(QuayError):
        Span(start, end)


def test_add() -> None:
    metres = SpanSet(spans((50, 60), (0, 10), (80, 90)))
    metres.add(Span(60, 65))
    metres.add(Span(85, 99))
    assert list(metres) == spans((0, 10), (50, 65), (80, 99))
    assert (len(metres), metres.total) == (3, 44)


def test_discard() -> None:
    metres = SpanSet(spans((0, 100)))
    metres.discard(Span(20, 30))
    metres.discard(Span(50, 60))
    assert list(metres) == spans((0, 20), (30, 50), (60, 100))
    metres.discard(Span(10, 70))
    metres.discard(Span(40, 45))
    assert list(metres) == spans((0, 10), (70, 100))


def test_contains() -> None:
    metres = SpanSet(spans((10, 20), (30, 40)))
    assert Span(10, 20) in metres
    assert Span(12, 15) in metres
    assert Span(9, 15) not in metres
    assert Span(15, 35) not in metres
