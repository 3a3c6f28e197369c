# agentbench-canary: be71dec2-5500-4ca0-ae31-9ce6c0656a58
"""A shortened text never takes more room than it was given, and uses what it was given."""

import pytest

from plaintable import BOX, GRID, MARKDOWN, Column, Table, display_width, shorten

TEXTS = [
    "abcdefghij",
    "a b c d e f",
    "漢字漢字漢字",
    "a漢b字c漢d",
    "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301",
    "word  gap  word",
]
ELLIPSES = ["…", "...", "", "〜", "~>"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ellipsis", ELLIPSES)
@pytest.mark.parametrize("width", range(1, 16))
def test_never_wider_than_asked(text, ellipsis, width):
    short = shorten(text, width, ellipsis)
    assert display_width(short) <= width
    if display_width(text) <= width:
        assert short == text


@pytest.mark.parametrize(
    ("text", "width", "ellipsis", "expected"),
    [
        ("abcdef", 5, "…", "abcd…"),
        ("abcdef", 1, "…", "…"),
        ("abcdef", 2, "…", "a…"),
        ("abcdef", 5, "...", "ab..."),
        ("abcdef", 3, "...", "..."),
        ("abcdef", 2, "...", ".."),
        ("abcdef", 4, "", "abcd"),
        ("ab cdef", 4, "…", "ab…"),
        ("漢字漢字", 5, "…", "漢字…"),
        ("漢字漢字", 4, "…", "漢…"),
        ("漢字漢字", 6, "〜", "漢字〜"),
        ("漢字漢字", 5, "〜", "漢〜"),
        ("abcdef", 1, "〜", ""),
        ("e\u0301a\u0301o\u0301", 2, "…", "e\u0301…"),
    ],
)
def test_exact(text, width, ellipsis, expected):
    assert shorten(text, width, ellipsis) == expected


@pytest.mark.parametrize("style", [GRID, BOX, MARKDOWN], ids=["grid", "box", "markdown"])
@pytest.mark.parametrize("ellipsis", ELLIPSES)
@pytest.mark.parametrize("align", ["left", "right", "center"])
def test_all_lines_equally_wide(style, ellipsis, align):
    column = Column("a title that is long", max_width=7, ellipsis=ellipsis, align=align)
    table = Table([column, Column("n")], [(text, 1) for text in TEXTS])
    assert len({display_width(line) for line in table.render(style).splitlines()}) == 1


def test_title_is_shortened():
    assert Table([Column("population", max_width=4)], [(1,)]).render().splitlines()[1] == "| pop… |"


def test_wide_letters_and_a_narrow_ellipsis():
    assert shorten("漢字かな", 7, "…") == "漢字か…"


def test_letters_before_wide_ones():
    assert shorten("ab漢字cd", 6, "...") == "ab..."


def test_wide_ellipsis_after_narrow_letters():
    assert shorten("abcdefgh", 5, "〜") == "abc〜"


def test_how_wide_it_becomes():
    assert display_width(shorten("漢字漢字漢字", 8, "...")) == 7


def test_cell_is_shortened():
    table = Table([Column("name", max_width=6)], [("漢字漢字",)])
    assert table.render().splitlines()[3] == "| 漢字…  |"
