# agentbench-canary: be71dec2-5500-4ca0-ae31-9ce6c0656a58
"""A shortened text never takes more room than it was given, and uses what it was given."""

import pytest

from plaintable import BOX, GRID, MARKDOWN, MINIMAL, Column, Table, display_width, shorten

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


def test_menu():
    table = Table(
        [
            Column("dish of the day", max_width=11, ellipsis="..."),
            Column("with", max_width=9, ellipsis=" etc.", align="center"),
            Column("euro", format=".2f", align="right", max_width=5, ellipsis="~>"),
        ],
        [
            ("pumpkin soup", "bread", 6.5),
            ("lentils", "onion, garlic, thyme", 1234.5),
            ("a rather large pancake", "jam and cream", 98765.125),
            ("fish", "a lemon or two", None),
        ],
    )
    assert table.render().split("\n") == [
        "+-------------+-----------+-------+",
        "| dish of...  |   with    |  euro |",
        "+-------------+-----------+-------+",
        "| pumpkin...  |   bread   |  6.50 |",
        "| lentils     | onio etc. | 123~> |",
        "| a rather... | jam etc.  | 987~> |",
        "| fish        | a le etc. |       |",
        "+-------------+-----------+-------+",
    ]


def test_stations():
    table = Table(
        [Column("駅", max_width=9, ellipsis="〜"), Column("reading", max_width=8), Column("no", align="right")],
        [
            ("高輪ゲートウェイ", "takanawa gateway", 26),
            ("新宿", "shinjuku", 17),
            ("西日暮里 station", "nishi-nippori", 8),
        ],
    )
    assert table.render(BOX).splitlines() == [
        "┌───────────┬──────────┬────┐",
        "│ 駅        │ reading  │ no │",
        "├───────────┼──────────┼────┤",
        "│ 高輪ゲ〜  │ takanaw… │ 26 │",
        "│ 新宿      │ shinjuku │ 17 │",
        "│ 西日暮〜  │ nishi-n… │  8 │",
        "└───────────┴──────────┴────┘",
    ]


def test_notes_without_lines():
    table = Table(
        [Column("when and where", max_width=10), Column("what", max_width=12, ellipsis=" [...]"), Column("by")],
        [
            ("Monday, at noon", "lunch in the canteen", "Ada"),
            ("tomorrow", "a walk", "Grace"),
            ("at half past nine", "breakfast, if any", None),
        ],
    )
    assert table.render(MINIMAL).split("\n") == [
        "when and…   what          by",
        "----------  ------------  -----",
        "Monday, a…  lunch [...]   Ada",
        "tomorrow    a walk        Grace",
        "at half p…  breakf [...]",
    ]


def test_changes_in_markdown():
    table = Table(
        [
            Column("version number", max_width=7, ellipsis="....", align="right"),
            Column("change", max_width=16, ellipsis="〜〜"),
            Column("author", max_width=3, ellipsis="-----", align="center"),
        ],
        [("1.10.0rc1", "colours everywhere, at last", "Marie"), ("1.9", "fewer 漢字 in the manual", "Jo")],
    )
    assert table.render(MARKDOWN).split("\n") == [
        "| ver.... | change           | --- |",
        "|--------:|------------------|:---:|",
        "| 1.1.... | colours ever〜〜 | --- |",
        "|     1.9 | fewer 漢字 i〜〜 | Jo  |",
    ]


def test_shorter_and_shorter():
    text = "三 blind mice, 見る how they run"
    assert [shorten(text, width, "...") for width in range(27, 2, -3)] == [
        "三 blind mice, 見る how...",
        "三 blind mice, 見る h...",
        "三 blind mice, 見...",
        "三 blind mice,...",
        "三 blind mic...",
        "三 blind...",
        "三 bli...",
        "三...",
        "...",
    ]
    assert [shorten(text, width, "〜!") for width in range(30, 0, -4)] == [
        "三 blind mice, 見る how the〜!",
        "三 blind mice, 見る how〜!",
        "三 blind mice, 見る〜!",
        "三 blind mice,〜!",
        "三 blind mi〜!",
        "三 blin〜!",
        "三〜!",
        "〜",
    ]


def test_one_width_and_many_ellipses():
    ellipses = ["", "…", "..", "...", "〜", " (more)", "〜〜", "-" * 8, "続く"]
    assert (
        "|".join(shorten("open 24 hours a day", 8, ellipsis) for ellipsis in ellipses)
        == "open 24|open 24…|open 2..|open...|open 2〜|o (more)|open〜〜|--------|open続く"
    )
