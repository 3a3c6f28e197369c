import pytest

from quayplan import NoRoom, Quay, QuayError, play

BOOK = """
    # Monday
    berth Aurora 120
    berth Brise 80 at 200
    close 150 160   # a bollard is missing

    gaps
    leave Aurora
    reopen 150 160
    gaps
"""


def test_play() -> None:
    assert play(Quay(300), BOOK.splitlines()) == [
        "Aurora 0-120",
        "Brise 200-280",
        "120-150 160-200 280-300",
        "0-200 280-300",
    ]


def test_nothing_free() -> None:
    assert play(Quay(300), ["berth Aurora 300", "gaps"]) == ["Aurora 0-300", "none"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("sail Aurora", QuayError),
        ("berth Aurora -5", QuayError),
        ("berth Aurora 301", NoRoom),
        ("close 5 5", QuayError),
    ],
)
def test_errors(line: str, kind: type[QuayError]) -> None:
    with pytest.raises(kind, match=r"^line 2: "):
        play(Quay(300), ["", line])
