# agentbench-canary: 78b7f8b8-284e-490b-b623-bfe40600a532
"""A quay held against a plain list of metres, move by move."""

import itertools
import random

import pytest

from quayplan import NoRoom, Quay, QuayError, Span, SpanSet, UnknownShip, play

LENGTH = 24


def spans_of(flags):
    """The spans of the metres that are true, as few as possible."""
    found, at = [], 0
    for value, run in itertools.groupby(flags):
        size = len(list(run))
        if value:
            found.append(Span(at, at + size))
        at += size
    return found


class Ledger:
    """What the README says, metre by metre."""

    def __init__(self):
        self.closed = [False] * LENGTH
        self.ships = {}

    def gaps(self):
        taken = list(self.closed)
        for place in self.ships.values():
            taken[place.start : place.end] = [True] * place.length
        return spans_of([not each for each in taken])

    def shortest(self, length):
        fitting = [gap for gap in self.gaps() if gap.length >= length]
        return min(fitting, key=lambda gap: (gap.length, gap.start), default=None)


@pytest.mark.parametrize("seed", range(40))
def test_any_moves(seed):
    choose = random.Random(seed)
    quay, ledger = Quay(LENGTH), Ledger()
    for number in range(60):
        start = choose.randrange(LENGTH)
        end = choose.randint(start + 1, LENGTH)
        move = choose.choice(["berth", "berth", "at", "leave", "leave", "close", "reopen", "reopen"])
        if move == "berth":
            length = choose.randint(1, 8)
            gap = ledger.shortest(length)
            if gap is None:
                with pytest.raises(NoRoom):
                    quay.berth(f"ship {number}", length)
            else:
                place = Span(gap.start, gap.start + length)
                assert quay.berth(f"ship {number}", length) == place
                ledger.ships[f"ship {number}"] = place
        elif move == "at":
            if any(gap.start <= start and end <= gap.end for gap in ledger.gaps()):
                assert quay.berth(f"ship {number}", end - start, at=start) == Span(start, end)
                ledger.ships[f"ship {number}"] = Span(start, end)
            else:
                with pytest.raises(NoRoom):
                    quay.berth(f"ship {number}", end - start, at=start)
        elif move == "leave" and ledger.ships:
            ship = choose.choice(sorted(ledger.ships))
            quay.leave(ship)
            del ledger.ships[ship]
        elif move in ("close", "reopen"):
            getattr(quay, move)(start, end)
            ledger.closed[start:end] = [move == "close"] * (end - start)
        assert quay.gaps() == ledger.gaps()
        assert quay.ships() == ledger.ships
        assert quay.longest_gap() == max((gap.length for gap in ledger.gaps()), default=0)


def test_ships_leave_in_any_order():
    for order in itertools.permutations(range(4)):
        quay = Quay(40)
        for ship in range(4):
            quay.berth(f"ship {ship}", 10)
        for ship in order:
            quay.leave(f"ship {ship}")
        assert quay.berth("long one", 40) == Span(0, 40)


def test_works_below_a_ship():
    quay = Quay(100)
    quay.berth("Aurora", 60)
    quay.close(40, 80)
    assert quay.ships() == {"Aurora": Span(0, 60)}
    assert quay.gaps() == [Span(80, 100)]
    quay.leave("Aurora")
    assert quay.gaps() == [Span(0, 40), Span(80, 100)]
    with pytest.raises(NoRoom):
        quay.berth("Brise", 10, at=40)
    quay.reopen(50, 100)
    assert quay.gaps() == [Span(0, 40), Span(50, 100)]
    quay.reopen(0, 100)
    assert quay.gaps() == [Span(0, 100)]


def test_reopened_below_a_ship():
    quay = Quay(100)
    quay.berth("Aurora", 60)
    quay.close(0, 100)
    quay.reopen(0, 30)
    assert quay.gaps() == []
    quay.leave("Aurora")
    assert quay.gaps() == [Span(0, 30)]


def test_closed_twice():
    quay = Quay(100)
    quay.close(0, 50)
    quay.close(30, 70)
    quay.reopen(30, 50)
    assert quay.gaps() == [Span(30, 50), Span(70, 100)]


def test_one_ship_after_another_below_works():
    book = ["berth Aurora 60", "close 20 30", "leave Aurora", "berth Brise 20", "leave Brise", "gaps"]
    assert play(Quay(60), book)[1:] == ["Brise 0-20", "0-20 30-60"]


@pytest.mark.parametrize("seed", range(20))
def test_sets_of_spans(seed):
    choose = random.Random(seed)
    metres, flags = SpanSet(), [False] * LENGTH
    for _ in range(80):
        start = choose.randrange(LENGTH)
        span = Span(start, min(LENGTH, start + choose.randint(1, 7)))
        adding = choose.random() < 0.55
        (metres.add if adding else metres.discard)(span)
        flags[span.start : span.end] = [adding] * span.length
        assert list(metres) == spans_of(flags)
        assert (len(metres), metres.total) == (len(spans_of(flags)), sum(flags))
        start = choose.randrange(LENGTH)
        asked = Span(start, choose.randint(start + 1, LENGTH))
        assert (asked in metres) is all(flags[asked.start : asked.end])


def test_a_set_from_spans():
    for order in itertools.permutations([(0, 10), (10, 20), (25, 30), (5, 28), (30, 31)]):
        assert list(SpanSet(Span(*pair) for pair in order)) == [Span(0, 31)]


def test_a_span_over_several():
    metres = SpanSet([Span(10, 12), Span(20, 22), Span(30, 32), Span(40, 42)])
    metres.add(Span(12, 30))
    assert list(metres) == [Span(10, 32), Span(40, 42)]


def test_refused_as_ever():
    quay = Quay(100)
    quay.berth("Aurora", 60)
    for refused in (
        lambda: quay.berth("Aurora", 5),
        lambda: quay.close(90, 101),
        lambda: quay.reopen(90, 101),
        lambda: quay.close(20, 20),
        lambda: quay.berth("Brise", 41, at=60),
    ):
        with pytest.raises(QuayError):
            refused()
    with pytest.raises(UnknownShip):
        quay.leave("Brise")
    assert quay.gaps() == [Span(60, 100)]
    quay.leave("Aurora")
    with pytest.raises(UnknownShip):
        quay.leave("Aurora")
    assert quay.gaps() == [Span(0, 100)]
