from datetime import timedelta

import pytest

from daybook import SheetError, read_sheet
from daybook.zones import BERLIN

SHEET = """
# 2026-03-02
09:00-12:30 Release notes
22:00-01:30 Night shift

# 2026-03-03
13:15 - 17:00 Code review
"""


def test_entries() -> None:
    entries = list(read_sheet(SHEET, BERLIN))
    assert [entry.title for entry in entries] == ["Release notes", "Night shift", "Code review"]
    assert entries[1].end.isoformat() == "2026-03-03T01:30:00+01:00"


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ("09:00-10:00 Work", "line 1: an entry before"),
        ("# 2026-03-02\n\nwork", "line 3: neither"),
        ("# 2026-02-30", "line 1: day is out of range"),
        ("# 2026-03-02\n09:00-25:00 Work", "line 2: hour must be"),
    ],
)
def test_errors_name_the_line(sheet: str, message: str) -> None:
    with pytest.raises(SheetError, match=message):
        list(read_sheet(sheet, BERLIN))


def test_night_in_which_the_clocks_go_back() -> None:
    (entry,) = read_sheet("# 2026-10-25\n01:00-04:00 Migration", BERLIN)
    assert entry.duration == timedelta(hours=4)
