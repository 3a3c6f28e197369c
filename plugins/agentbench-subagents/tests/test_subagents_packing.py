"""Packing into a budget: whole files, parts, outlines, and the manifest."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from agentbench_subagents.packing import MIN_TOKENS, Omitted, Pack, pack, tokens_of
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


def test_files_that_do_not_fit_are_reduced_to_the_named_definitions() -> None:
    """With the imports, the class header of a method, and the first lines of the rest."""
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
    made = pack([candidate("a.py", lines=(line,))], {"a.py": source}, MIN_TOKENS)
    head = text.splitlines().index("class Cart:") + 1
    assert packed(made) == {"a.py": ((1, 3), (head, head), (line - 1, line + 1))}
    assert f"- a.py: lines 1-3, {head}-{head}, {line - 1}-{line + 1} of {source.total}, about" in made.text
    cut = "[...]\nclass Cart:\n[...]\n    def mean(self):\n        return 1\ndef last():"
    assert f"import os\n\ndef first():\n{cut}" in made.text


def test_a_definition_that_is_too_long_is_reduced_to_the_lines_around() -> None:
    source = Source.of("a.py", function("long", 500))
    assert packed(pack([candidate("a.py", lines=(200,))], {"a.py": source}, 400)) == {"a.py": ((1, 1), (185, 215))}
    assert packed(pack([candidate("a.py", symbols=("long",))], {"a.py": source}, 400)) == {"a.py": ((1, 16),)}


def test_a_file_without_a_syntax_tree_is_reduced_to_the_lines_around() -> None:
    source = Source.of("a.py", "def f(:\n" + "x = 1  # and so on\n" * 400)
    assert packed(pack([candidate("a.py", lines=(3, 100, 133))], {"a.py": source}, 900)) == {
        "a.py": ((1, 18), (85, 148))
    }


def test_parts_of_every_file_come_before_whole_files() -> None:
    """The better file does not use all the room: the named parts of the other are included too."""
    texts = {"a.py": function("f", 40) + function("g", 40), "b.py": function("h", 30) + function("i", 90)}
    sources = {path: Source.of(path, text) for path, text in texts.items()}
    ranked = [candidate("a.py", symbols=("f",)), candidate("b.py", Group.FRAME, symbols=("h",))]
    enough_for_one = tokens_of(texts["a.py"]) + 400
    assert packed(pack(ranked, sources, enough_for_one)) == {"a.py": ((1, 80),), "b.py": ((1, 31),)}


def test_a_file_without_named_parts_is_outlined_if_it_does_not_fit() -> None:
    text = "".join(function(f"f{number}", 30) for number in range(9))
    made = pack([candidate("a.py")], {"a.py": Source.of("a.py", text)}, 400)
    assert packed(made) == {"a.py": tuple((1 + 30 * n, 1 + 30 * n) for n in range(9))}


def test_free_room_is_used_for_calls_in_the_same_file() -> None:
    """Starting at the named location, also for methods of the same class; other definitions are outlined."""
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


def test_a_long_chain_of_calls_is_included_as_far_as_it_fits() -> None:
    """And of an outline that does not fit, the nearest part."""
    chain = "".join(f"def f{n}():\n    return f{n + 1}()\n" + "    # so it goes\n" * 9 for n in range(400))
    source = Source.of("a.py", chain)
    made = pack([candidate("a.py", lines=(2003,))], {"a.py": source}, 700)
    shown = {number for first, last in made.packed[0].spans for number in range(first, last + 1)}
    assert {first + line for first in range(2003, 2003 + 5 * 11, 11) for line in (0, 1)} <= shown
    assert made.tokens > 500
    assert all(first > 1000 and last < 3000 for first, last in made.packed[0].spans)
    assert re.search(r"- a.py: lines (\d+-\d+, ){11}\d+-\d+ and \d+ more parts of 4400, about", made.text)


def test_room_is_reserved_for_the_list_of_omitted_files() -> None:
    text = "".join(function(f"function_{number}", 10) for number in range(500))
    unread = [Omitted(path=f"{number}.py", reason="not read") for number in range(5)]
    made = pack([candidate("a.py", lines=(50,))], {"a.py": Source.of("a.py", text)}, 600, unread)
    assert all(f"\n- {each.path}: not read" in made.text for each in unread)


def test_a_file_with_lines_that_are_too_long_is_listed_as_omitted() -> None:
    """Also a file that was truncated before the named line, and has no definitions."""
    sources = {
        "a.py": Source.of("a.py", "a = 1;" * 100, of_lines=3),
        "b.py": Source.of("b.py", "x = 1\n" * 900 + "x =", of_lines=9000),
    }
    made = pack([candidate("a.py", lines=(2,)), candidate("b.py", lines=(8000,))], sources, 1000)
    assert made.packed == ()
    assert made.omitted == (
        Omitted(path="a.py", reason="its lines are too long to read"),
        Omitted(path="b.py", reason="900 of its 9000 lines were read; the failure names others"),
    )
    (_, other) = pack([candidate("a.py"), candidate("b.py", lines=(8000,))], sources, 1000, version="v1").omitted
    assert other.reason == "900 of its 9000 lines were read, and what is named is not among them"


def test_omitted_files_are_listed_with_the_reason() -> None:
    sources = {"a.py": Source.of("a.py", "x = 1\n"), "b.py": Source.of("b.py", "y = 2\n" * 2000)}
    unread = [Omitted(path="c.py", reason="not read: not_text")]
    made = pack([candidate("a.py"), candidate("b.py"), candidate("c.py")], sources, 1000, unread)
    assert made.omitted == (Omitted(path="b.py", reason="about 4000 tokens, which did not fit"), unread[0])
    assert "\n\nOmitted files:\n- b.py: about 4000 tokens, which did not fit\n- c.py: not read: not_text" in made.text


def test_a_long_list_of_omitted_files_is_counted() -> None:
    unread = [Omitted(path=f"{number:03}.py", reason="not read") for number in range(900)]
    made = pack([], {}, MIN_TOKENS, unread)
    assert made.tokens <= MIN_TOKENS
    assert made.text.endswith(" more")
    assert made.omitted == tuple(unread)


def test_nothing_to_pack() -> None:
    """An empty file is not included either."""
    for sources in ({}, {"a.py": Source.of("a.py", "")}):
        made = pack([candidate("a.py")], sources, MIN_TOKENS)
        assert made.text.endswith("\nnone")
        assert (made.packed, made.omitted) == ((), ())


def test_lines_beyond_the_truncated_beginning_of_a_long_file() -> None:
    """Only lines that were read are shown, and never as the whole file."""
    source = Source.of("a.py", "x = 1\n" * 5 + "x =", of_lines=400).with_lines(200, "y = 2\n" * 3)
    made = pack([candidate("a.py", lines=(201, 390))], {"a.py": source}, 1000)
    assert packed(made) == {"a.py": ((200, 202),)}
    assert "- a.py: lines 200-202 of 400, about" in made.text


@pytest.mark.parametrize("count", [2, 5])
def test_of_many_reasons_the_first_are_shown(count: int) -> None:
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
    st.integers(MIN_TOKENS, 900),
    st.lists(st.integers(-2, 60), max_size=4),
    st.lists(st.sampled_from(["f", "A", "x", ""]), max_size=2),
    st.lists(st.builds(Omitted, path=st.text(max_size=300), reason=st.text(max_size=300)), max_size=5),
    st.booleans(),
)
def test_the_pack_stays_within_the_budget_with_unchanged_lines(
    files: dict[str, str],
    max_tokens: int,
    lines: Sequence[int],
    symbols: Sequence[str],
    unread: Sequence[Omitted],
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
    assert known <= {each.path for each in made.packed} | {each.path for each in made.omitted}
