import pytest

from quayplan import NoRoom, Quay, QuayError, Span, UnknownShip


@pytest.fixture
def quay() -> Quay:
    """Three ships side by side, and 60 metres behind them."""
    quay = Quay(300)
    for ship, length in [("Aurora", 100), ("Brise", 80), ("Corona", 60)]:
        quay.berth(ship, length)
    return quay


def test_berth(quay: Quay) -> None:
    assert quay.ships() == {"Aurora": Span(0, 100), "Brise": Span(100, 180), "Corona": Span(180, 240)}
    assert quay.gaps() == [Span(240, 300)]


def test_shortest_gap_first(quay: Quay) -> None:
    quay.leave("Aurora")
    assert quay.berth("Delta", 60) == Span(240, 300)
    assert quay.berth("Egret", 60) == Span(0, 60)


def test_at_a_place(quay: Quay) -> None:
    assert quay.berth("Delta", 40, at=250) == Span(250, 290)
    assert quay.gaps() == [Span(240, 250), Span(290, 300)]


@pytest.mark.parametrize("order", [["Aurora", "Brise", "Corona"], ["Corona", "Brise", "Aurora"]])
def test_all_leave(quay: Quay, order: list[str]) -> None:
    for ship in order:
        quay.leave(ship)
    assert quay.gaps() == [Span(0, 300)]
    assert quay.longest_gap() == 300


def test_works(quay: Quay) -> None:
    quay.close(270, 300)
    assert quay.gaps() == [Span(240, 270)]
    with pytest.raises(NoRoom):
        quay.berth("Delta", 60)
    quay.reopen(270, 300)
    assert quay.berth("Delta", 60) == Span(240, 300)


def test_no_room(quay: Quay) -> None:
    for at in (None, 200):
        with pytest.raises(NoRoom):
            quay.berth("Delta", 61, at=at)
    assert quay.gaps() == [Span(240, 300)]
    assert "Delta" not in quay.ships()


def test_refused(quay: Quay) -> None:
    with pytest.raises(UnknownShip):
        quay.leave("Delta")
    with pytest.raises(QuayError):
        quay.berth("Aurora", 10)
    with pytest.raises(QuayError):
        quay.berth("Delta", 0)
    with pytest.raises(QuayError):
        quay.close(290, 301)
