import pytest

from plaintable import BOX, MARKDOWN, MINIMAL, Column, Table, display_width


def lines_of(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def cities(**options) -> Table:
    return Table([Column("city", **options), Column("people", align="right")], [("Oslo", 709037), ("Bern", 134794)])


def test_grid() -> None:
    assert cities().render() == lines_of(
        """
        +------+--------+
        | city | people |
        +------+--------+
        | Oslo | 709037 |
        | Bern | 134794 |
        +------+--------+
        """
    )


def test_box() -> None:
    assert cities().render(BOX).splitlines()[0] == "┌──────┬────────┐"


def test_minimal_has_no_trailing_spaces() -> None:
    table = Table([Column("a"), Column("note")], [(1, "long note"), (2, None)])
    assert table.render(MINIMAL).splitlines() == ["a  note", "-  ---------", "1  long note", "2"]


def test_markdown_marks_alignment() -> None:
    assert cities(align="center").render(MARKDOWN).splitlines()[1] == "|:----:|-------:|"


def test_values_are_formatted() -> None:
    table = Table([Column("x", format=".2f", missing="-")], [(1.005,), (2,), (None,)])
    assert [line.strip("| ") for line in table.render().splitlines()[3:-1]] == ["1.00", "2.00", "-"]


def test_values_are_one_line() -> None:
    assert "| a b c |" in Table([Column("text")], [("a\n  b\tc",)]).render()


def test_wide_characters_stay_aligned() -> None:
    table = Table([Column("name"), Column("n")], [("東京", 1), ("Rome", 2)])
    assert len({display_width(line) for line in table.render().splitlines()}) == 1


def test_long_cells_are_shortened() -> None:
    table = Table([Column("notes", max_width=8), Column("n")], [("a rather long note", 1), ("short", 2)])
    assert table.render() == lines_of(
        """
        +----------+---+
        | notes    | n |
        +----------+---+
        | a rathe… | 1 |
        | short    | 2 |
        +----------+---+
        """
    )


def test_wrong_number_of_values() -> None:
    with pytest.raises(ValueError, match="expected 2 values, got 1"):
        cities().add("Rome")


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="max_width"):
        Column("a", max_width=0)
    with pytest.raises(ValueError, match="alignment"):
        Column("a", align="middle")
