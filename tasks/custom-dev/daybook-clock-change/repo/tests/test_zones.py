import pickle
from datetime import UTC, datetime, timedelta

import pytest

from daybook.zones import BERLIN, NEW_YORK, SYDNEY


@pytest.mark.parametrize(
    ("zone", "local", "fold", "utc"),
    [
        (BERLIN, (2026, 1, 15, 12), 0, (2026, 1, 15, 11)),
        (BERLIN, (2026, 7, 15, 12), 0, (2026, 7, 15, 10)),
        (BERLIN, (2026, 3, 29, 1, 59), 0, (2026, 3, 29, 0, 59)),
        (BERLIN, (2026, 3, 29, 3), 0, (2026, 3, 29, 1)),
        (BERLIN, (2026, 10, 25, 2, 30), 0, (2026, 10, 25, 0, 30)),
        (BERLIN, (2026, 10, 25, 2, 30), 1, (2026, 10, 25, 1, 30)),
        (NEW_YORK, (2026, 3, 8, 3), 0, (2026, 3, 8, 7)),
        (NEW_YORK, (2026, 11, 1, 1, 30), 1, (2026, 11, 1, 6, 30)),
        (SYDNEY, (2026, 1, 15, 12), 0, (2026, 1, 15, 1)),
        (SYDNEY, (2026, 7, 15, 12), 0, (2026, 7, 15, 2)),
        (SYDNEY, (2026, 4, 5, 2, 30), 0, (2026, 4, 4, 15, 30)),
        (SYDNEY, (2026, 10, 4, 3), 0, (2026, 10, 3, 16)),
    ],
)
def test_both_directions(zone, local, fold, utc) -> None:
    there = datetime(*local, tzinfo=zone, fold=fold)
    here = datetime(*utc, tzinfo=UTC)
    assert there.astimezone(UTC) == here
    back = here.astimezone(zone)
    assert (back.replace(tzinfo=None), back.fold) == (there.replace(tzinfo=None), fold)


def test_skipped_time_moves_on_by_the_gap() -> None:
    skipped = datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)
    assert skipped.utcoffset() == timedelta(hours=1)
    assert skipped.replace(fold=1).utcoffset() == timedelta(hours=2)


def test_zones_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(BERLIN)).name == "Europe/Berlin"
