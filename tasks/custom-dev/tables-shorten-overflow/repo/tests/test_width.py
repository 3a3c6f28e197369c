import pytest

from plaintable import display_width, pad, shorten


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("ａ", 2)])
def test_display_width(text: str, width: int) -> None:
    assert display_width(text) == width


@pytest.mark.parametrize(("align", "expected"), [("left", "漢a   "), ("right", "   漢a"), ("center", " 漢a  ")])
def test_pad(align, expected: str) -> None:
    assert pad("漢a", 6, align) == expected


def test_pad_leaves_long_text_alone() -> None:
    assert pad("abcdef", 3) == "abcdef"


def test_shorten_leaves_what_fits() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("", 1) == ""


def test_shorten_without_ellipsis_room() -> None:
    assert shorten("abcdef", 2, "....") == ".."
