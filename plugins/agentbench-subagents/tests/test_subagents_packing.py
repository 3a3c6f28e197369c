"""Packing into a budget: whole files, parts, outlines, and a manifest that says so."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from agentbench_subagents.packing import SMALLEST, LeftOut, Pack, pack, tokens_of
from agentbench_subagents.ranking import Candidate, Group
from agentbench_subagents.sources import Source


def function(name: str, lines: int) -> str:
    body = "".join(f"    {name}_{number} = {number}\n" for number in range(lines - 1))
    return f"def {name}():\n{body}"


def candidate(path: str, group: Group = Group.RAISED, **more: object) -> Candidate:
    return Candidate(path=path, group=group, why="named", **more)  # type: ignore[arg-type]


def packed(pack_: Pack) -> dict[str, tuple[tuple[int, int], ...]]:
    return {each.path: each.spans for each in pack_.packed}


def test_whole_files_with_their_manifest() -> None:
    sources = {"a.py": Source.of("a.py", "x = 1\ny = 2\n"), "b.py": Source.of("b.py", "z = 3")}
    made = pack([candidate("a.py", lines=(2,)), candidate("b.py")], sources, 1000)
    assert made.text == (
        "Included files, most relevant first (at most 1000 tokens, estimated at 3 bytes each):\n"
        "- a.py: all 2 lines, about 11 tokens: named\n"
        "- b.py: all 1 lines, about 9 tokens: named\n"
        "\n=== a.py, all 2 lines\nx = 1\ny = 2\n"
        "\n=== b.py, all 1 lines\nz = 3"
    )


def test_what_does_not_fit_whole_is_cut_to_the_definitions_that_are_named() -> None:
    """With the imports, the head of the class that a method stands in, and the first lines of the rest."""
    text = (
        "import os\n\n"
        + function("first", 60)
        + "class Cart:\n    size = 1\n"
        + "".join(f"    size_{number} = {number}\n" for number in range(60))
        + "    def mean(self):\n        return 1\n"
        + function("last", 60)
    )
    source = Source.of("a.py", text)
    line = text.splitlines().index("        return 1") + 1
    made = pack([candidate("a.py", lines=(line,))], {"a.py": source}, SMALLEST)
    head = text.splitlines().index("class Cart:") + 1
    assert packed(made) == {"a.py": ((1, 3), (head, head), (line - 1, line + 1))}
    assert f"- a.py: lines 1-3, {head}-{head}, {line - 1}-{line + 1} of {source.total}, about" in made.text
    cut = "[...]\nclass Cart:\n[...]\n    def mean(self):\n        return 1\ndef last():"
    assert f"import os\n\ndef first():\n{cut}" in made.text


def test_a_definition_that_is_too_long_is_cut_to_the_lines_around() -> None:
    source = Source.of("a.py", function("long", 500))
    assert packed(pack([candidate("a.py", lines=(200,))], {"a.py": source}, 400)) == {"a.py": ((1, 1), (185, 215))}
    assert packed(pack([candidate("a.py", symbols=("long",))], {"a.py": source}, 400)) == {"a.py": ((1, 16),)}


def test_a_file_without_a_tree_is_cut_to_the_lines_around() -> None:
    source = Source.of("a.py", "def f(:\n" + "x = 1  # and so on\n" * 400)
    assert packed(pack([candidate("a.py", lines=(3, 100, 133))], {"a.py": source}, 900)) == {
        "a.py": ((1, 18), (85, 148))
    }


def test_parts_of_every_file_come_before_whole_ones() -> None:
    """The better file does not take all the room: what is named of the other one is there too."""
    texts = {"a.py": function("f", 40) + function("g", 40), "b.py": function("h", 30) + function("i", 90)}
    sources = {path: Source.of(path, text) for path, text in texts.items()}
    ranked = [candidate("a.py", symbols=("f",)), candidate("b.py", Group.FRAME, symbols=("h",))]
    enough_for_one = tokens_of(texts["a.py"]) + 400
    assert packed(pack(ranked, sources, enough_for_one)) == {"a.py": ((1, 80),), "b.py": ((1, 31),)}


def test_what_is_named_by_nothing_is_outlined_when_there_is_no_room() -> None:
    text = "".join(function(f"f{number}", 30) for number in range(9))
    made = pack([candidate("a.py")], {"a.py": Source.of("a.py", text)}, 400)
    assert packed(made) == {"a.py": tuple((1 + 30 * n, 1 + 30 * n) for n in range(9))}


def test_free_room_is_for_what_is_called_in_the_same_file() -> None:
    """From the place that is named on, also by methods of one class; what nobody calls is outlined."""
    calls = "    def mean(self):\n        return self.total()\n    def total(self):\n        return summed()\n"
    others = "".join(function(f"f{number}", 60) for number in range(6))
    text = f"class Cart:\n{calls}{others}def summed():\n    return 1\n{others}"
    source = Source.of("a.py", text)
    spans = packed(pack([candidate("a.py", lines=(3,))], {"a.py": source}, 500))["a.py"]
    shown = {number for first, last in spans for number in range(first, last + 1)}
    assert {1, 2, 3, 4, 5, 366, 367} <= shown
    heads = {definition.head[0] for definition in source.definitions}
    assert heads <= shown
    assert len(shown) < 40


def test_of_a_long_chain_of_calls_as_much_as_fits() -> None:
    """And of an outline that has no room the part that is nearest to what is named."""
    chain = "".join(f"def f{n}():\n    return f{n + 1}()\n" + "    # so it goes\n" * 9 for n in range(400))
    source = Source.of("a.py", chain)
    made = pack([candidate("a.py", lines=(2003,))], {"a.py": source}, 700)
    shown = {number for first, last in made.packed[0].spans for number in range(first, last + 1)}
    assert {first + line for first in range(2003, 2003 + 5 * 11, 11) for line in (0, 1)} <= shown
    assert made.tokens > 500
    assert all(first > 1000 and last < 3000 for first, last in made.packed[0].spans)
    assert re.search(r"- a.py: lines (\d+-\d+, ){11}\d+-\d+ and \d+ more parts of 4400, about", made.text)


def test_free_room_leaves_some_for_saying_what_was_left_out() -> None:
    text = "".join(function(f"function_{number}", 10) for number in range(500))
    unread = [LeftOut(path=f"{number}.py", reason="not read") for number in range(5)]
    made = pack([candidate("a.py", lines=(50,))], {"a.py": Source.of("a.py", text)}, 600, unread)
    assert all(f"\n- {each.path}: not read" in made.text for each in unread)


def test_a_file_with_lines_that_are_too_long_to_be_read_is_said() -> None:
    """Also a file that was cut before what is named in it, and that defines nothing."""
    sources = {
        "a.py": Source.of("a.py", "a = 1;" * 100, of_lines=3),
        "b.py": Source.of("b.py", "x = 1\n" * 900 + "x =", of_lines=9000),
    }
    made = pack([candidate("a.py", lines=(2,)), candidate("b.py", lines=(8000,))], sources, 1000)
    assert made.packed == ()
    assert made.left_out == (
        LeftOut(path="a.py", reason="its lines are too long to read"),
        LeftOut(path="b.py", reason="900 of its 9000 lines were read; the failure names others"),
    )
    (_, other) = pack([candidate("a.py"), candidate("b.py", lines=(8000,))], sources, 1000, version="v1").left_out
    assert other.reason == "900 of its 9000 lines were read, and what is named is not among them"


def test_what_is_left_out_is_said_with_the_reason() -> None:
    sources = {"a.py": Source.of("a.py", "x = 1\n"), "b.py": Source.of("b.py", "y = 2\n" * 2000)}
    unread = [LeftOut(path="c.py", reason="not read: not_text")]
    made = pack([candidate("a.py"), candidate("b.py"), candidate("c.py")], sources, 1000, unread)
    assert made.left_out == (LeftOut(path="b.py", reason="about 4000 tokens, which did not fit"), unread[0])
    assert "\n\nOmitted files:\n- b.py: about 4000 tokens, which did not fit\n- c.py: not read: not_text" in made.text


def test_a_long_list_of_what_is_left_out_is_counted() -> None:
    unread = [LeftOut(path=f"{number:03}.py", reason="not read") for number in range(900)]
    made = pack([], {}, SMALLEST, unread)
    assert made.tokens <= SMALLEST
    assert made.text.endswith(" more")
    assert made.left_out == tuple(unread)


def test_nothing_to_pack() -> None:
    """Also of an empty file, which nobody needs to see."""
    for sources in ({}, {"a.py": Source.of("a.py", "")}):
        made = pack([candidate("a.py")], sources, SMALLEST)
        assert made.text.endswith("\nnone")
        assert (made.packed, made.left_out) == ((), ())


def test_lines_behind_the_cut_of_a_long_file() -> None:
    """Only what was read is shown, and never as the whole."""
    source = Source.of("a.py", "x = 1\n" * 5 + "x =", of_lines=400).with_lines(200, "y = 2\n" * 3)
    made = pack([candidate("a.py", lines=(201, 390))], {"a.py": source}, 1000)
    assert packed(made) == {"a.py": ((200, 202),)}
    assert "- a.py: lines 200-202 of 400, about" in made.text


@pytest.mark.parametrize("count", [2, 5])
def test_of_many_reasons_the_first_are_named(count: int) -> None:
    many = Candidate(path="a.py", group=Group.FRAME, why="; ".join(f"reason {n}" for n in range(count)))
    made = pack([many], {"a.py": Source.of("a.py", "x = 1")}, 1000)
    more = f"; and {count - 2} more" if count > 2 else ""
    assert f"tokens: reason 0; reason 1{more}\n" in made.text


_texts = st.text(st.sampled_from('ab1 \n\t()":=.,é\ud800'), max_size=60)
_lines = st.lists(
    st.one_of(_texts, st.just("def f():\n    return 1"), st.just("class A:\n  x = 1"), st.just("import a"))
)
_files = st.dictionaries(st.sampled_from(["a.py", "b/c.py", "b/d.py", "e.py"]), _lines.map("\n".join), max_size=4)


@given(
    _files,
    st.integers(SMALLEST, 900),
    st.lists(st.integers(-2, 60), max_size=4),
    st.lists(st.sampled_from(["f", "A", "x", ""]), max_size=2),
    st.lists(st.builds(LeftOut, path=st.text(max_size=300), reason=st.text(max_size=300)), max_size=5),
    st.booleans(),
)
def test_never_more_than_the_budget_and_every_line_as_it_is(
    files: dict[str, str],
    max_tokens: int,
    lines: Sequence[int],
    symbols: Sequence[str],
    unread: Sequence[LeftOut],
    cut: bool,
) -> None:
    sources = {path: Source.of(path, text, of_lines=99 if cut else None) for path, text in files.items()}
    ranked = [candidate(path, lines=tuple(lines), symbols=tuple(symbols)) for path in sources]
    made = pack(ranked, sources, max_tokens, unread)
    assert tokens_of(made.text) <= max_tokens
    for each in made.packed:
        for first, last in each.spans:
            assert 1 <= first <= last <= each.total
            assert "\n".join(sources[each.path].lines[number] for number in range(first, last + 1)) in made.text
    known = {path for path, source in sources.items() if source.lines}
    assert {each.path for each in made.packed} <= known
    assert known <= {each.path for each in made.packed} | {each.path for each in made.left_out}
