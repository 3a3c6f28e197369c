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


def test_a_day_in_the_log_book():
    book = """
        berth Aurora 70
        berth Brise 45
        berth Corona 60
        berth Drift 25
        close 50 90
        gaps
        leave Brise
        leave Aurora
        gaps            # 50 to 90 are closed
        berth Egret 24
        leave Corona
        gaps
        reopen 65 80
        leave Drift
        gaps
        leave Egret
        close 180 240
        berth Fulmar 40
        gaps
        reopen 0 240
        gaps
    """
    assert play(Quay(250), book.splitlines()) == [
        "Aurora 0-70",
        "Brise 70-115",
        "Corona 115-175",
        "Drift 175-200",
        "200-250",
        "0-50 90-115 200-250",
        "Egret 90-114",
        "0-50 114-175 200-250",
        "0-50 65-80 114-250",
        "Fulmar 0-40",
        "40-50 65-80 90-180 240-250",
        "40-250",
    ]


def test_how_long_gaps_become():
    quay = Quay(96)
    for number in range(12):
        quay.berth(f"ship {number}", 8)
    found = []
    for number in (11, 4, 5, 3, 9, 10, 0, 2, 7, 8, 6, 1):
        quay.leave(f"ship {number}")
        found.append((quay.longest_gap(), " ".join(map(str, quay.gaps()))))
    assert found == [
        (8, "88-96"),
        (8, "32-40 88-96"),
        (16, "32-48 88-96"),
        (24, "24-48 88-96"),
        (24, "24-48 72-80 88-96"),
        (24, "24-48 72-96"),
        (24, "0-8 24-48 72-96"),
        (32, "0-8 16-48 72-96"),
        (32, "0-8 16-48 56-64 72-96"),
        (40, "0-8 16-48 56-96"),
        (80, "0-8 16-96"),
        (96, "0-96"),
    ]


def test_metres_that_come_and_go():
    metres = SpanSet()
    seen = []
    for number in range(30):
        start = number * 37 % 51 * 4
        metres.add(Span(start, start + 4 + number % 6 // 5 * 28))
        if number % 6 == 4:
            metres.discard(Span(start - 2, start + 1))
        if number % 4 == 3:
            seen.append(f"{len(metres)}/{metres.total}")
    assert [*seen, *map(str, metres)] == [
        "4/16",
        "7/55",
        "11/98",
        "12/110",
        "10/141",
        "11/156",
        "12/168",
        "0-4",
        "8-40",
        "48-52",
        "53-56",
        "65-100",
        "104-112",
        "120-124",
        "125-172",
        "176-184",
        "185-188",
        "197-232",
    ]


def test_places_given_at_the_end_of_a_day():
    quay = Quay(200)
    for number, length in enumerate([30, 50, 20, 40, 35]):
        quay.berth(f"day {number}", length)
    quay.close(70, 130)
    for number in (3, 1, 2, 4, 0):
        quay.leave(f"day {number}")
    quay.close(10, 12)
    quay.reopen(110, 125)
    for number, length in enumerate([9, 55, 40, 11, 6]):
        quay.berth(f"night {number}", length)
    assert {ship: str(place) for ship, place in quay.ships().items()} == {
        "night 0": "0-9",
        "night 1": "12-67",
        "night 3": "110-121",
        "night 2": "130-170",
        "night 4": "170-176",
    }


def test_which_metres_are_in_it():
    metres = SpanSet(Span(start, start + 4) for start in (40, 8, 60, 20, 4, 24, 0, 44, 12, 16))
    metres.add(Span(28, 40))
    asked = [(0, 48), (3, 9), (27, 29), (36, 45), (47, 49), (60, 64), (4, 28), (10, 61)]
    assert ("".join("ny"[Span(*pair) in metres] for pair in asked), list(map(str, metres)), metres.total) == (
        "yyyynyyn",
        ["0-48", "60-64"],
        52,
    )
