# agentbench-canary: b27661f9-6663-4d01-9acf-cb19fe167a78
"""Marks are where the words are, in any text."""

import itertools
import unicodedata

import pytest

from spotlight import Span, excerpt, find, mark

ACUTE, CEDILLA, DOTS = "\u0301", "\u0327", "\u0308"


def found(text, query):
    return [text[start:end] for start, end in find(text, query)]


@pytest.mark.parametrize(
    "front",
    [
        "ß",
        "Maß, Fuß, ẞ: ",
        "ﬁ ﬂ ﬃ ",
        "ŉ",
        "e" + ACUTE,
        "e" + ACUTE + DOTS + " " + "c" + CEDILLA + ACUTE,
        "ße" + ACUTE,
        "e" + ACUTE + "ß",
        "é è ü",
        "İ",
        "ᾳ",
        "α\u0345",
        "가각",
        ACUTE,
        ACUTE + "ß" + ACUTE + ACUTE,
    ],
)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_whatever_is_in_front(front, count):
    text = front * count + ". Haus, " + front * count + ".HAUS"
    first = len(front) * count + 2
    assert find(text, "haus") == [Span(first, first + 4), Span(len(text) - 4, len(text))]
    assert mark(text, ["haus"]).replace("[", "").replace("]", "") == text
    assert mark(text, ["haus"]) == front * count + ". [Haus], " + front * count + ".[HAUS]"
    assert excerpt(text, "haus", around=2) == ("…" if first > 2 else "") + ". [Haus], …"


@pytest.mark.parametrize(
    ("text", "query", "pieces"),
    [
        ("Straße STRASSE strasse", "strasse", ["Straße", "STRASSE", "strasse"]),
        ("Straße STRASSE STRAẞE", "straße", ["Straße", "STRASSE", "STRAẞE"]),
        ("Straße", "s", ["S", "ß"]),
        ("Straße", "ss", ["ß"]),
        ("Straße", "se", ["ße"]),
        ("Straße", "tras", ["traß"]),
        ("ßß", "s", ["ß", "ß"]),
        ("ßß", "sss", ["ßß"]),
        ("ßßß", "sss", ["ßß"]),
        ("sßs", "ss", ["sß"]),
        ("aßa", "sa", ["ßa"]),
        ("ßa ßa", "sa", ["ßa", "ßa"]),
        ("oﬀice, office", "off", ["oﬀ", "off"]),
        ("eﬃcient", "fi", ["ﬃ"]),
        ("ﬁnish", "finish", ["ﬁnish"]),
        ("ﬁnish", "in", ["ﬁn"]),
        ("ﬁnish", "f", ["ﬁ"]),
        ("finish", "ﬁ", ["fi"]),
    ],
)
def test_letters_that_fold_to_several(text, query, pieces):
    assert found(text, query) == pieces
    for form in ("NFC", "NFD"):
        assert found(unicodedata.normalize(form, text), query) == pieces


@pytest.mark.parametrize(
    ("text", "query", "pieces"),
    [
        ("cafe" + ACUTE, "cafe", ["cafe" + ACUTE]),
        ("cafe" + ACUTE, "café", ["cafe" + ACUTE]),
        ("cafe" + ACUTE, "cafe" + ACUTE, ["cafe" + ACUTE]),
        ("cafe" + ACUTE + "s", "cafe", ["cafe" + ACUTE]),
        ("cafe" + ACUTE + "s", "fes", ["fe" + ACUTE + "s"]),
        ("e" + ACUTE + DOTS + "e" + CEDILLA, "e", ["e" + ACUTE + DOTS, "e" + CEDILLA]),
        ("e" + ACUTE + DOTS + "e" + CEDILLA, "ee", ["e" + ACUTE + DOTS + "e" + CEDILLA]),
        ("é" + CEDILLA + "a", "e", ["é" + CEDILLA]),
        ("ß" + ACUTE + "e", "s", ["ß" + ACUTE]),
        ("ß" + ACUTE + "e", "se", ["ß" + ACUTE + "e"]),
        (ACUTE + "a" + ACUTE + ACUTE, "a", ["a" + ACUTE + ACUTE]),
        ("o" + DOTS + "o", "ö", ["o" + DOTS, "o"]),
        (ACUTE, "a", []),
    ],
)
def test_marks_belong_to_the_letter_before(text, query, pieces):
    assert found(text, query) == pieces


def test_composed_or_not():
    text = "Čáp, ČÁP a šňůra; Ünïcödé ǖ"
    for query in ("cap", "čáp", "snura", "unicode", "u", "Ü"):
        pieces = found(unicodedata.normalize("NFC", text), query)
        assert pieces
        assert [unicodedata.normalize("NFD", piece) for piece in pieces] == found(
            unicodedata.normalize("NFD", text), query
        )


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_short_texts(length):
    for chars in itertools.product(["a", "s", "ß", ACUTE], repeat=length):
        text = "".join(chars)
        for query in ("a", "s", "ss", "sa", "as"):
            end = 0
            for span in find(text, query):
                assert end <= span.start < span.end <= len(text)
                piece = text[span.start : span.end]
                assert query in piece.replace("ß", "ss").replace(ACUTE, "")
                assert piece[0] != ACUTE
                assert not text[span.end :].startswith(ACUTE)
                end = span.end
            rest = text[end:].replace("ß", "ss").replace(ACUTE, "")
            assert query not in rest


def test_long_text():
    text = "e" + ACUTE + "ß " + "Größe und Maß, " * 500 + "Ende"
    assert find(text, "ende") == [Span(len(text) - 4, len(text))]
    assert found(text, "masse") == []
    assert len(find(text, "mass")) == 500


@pytest.mark.parametrize(
    ("queries", "marked"),
    [
        (["notebook", "te"], "[Notebook]s"),
        (["te", "notebook"], "[Notebook]s"),
        (["notebook", "note", "boo", "t"], "[Notebook]s"),
        (["notebook", "te", "books"], "[Notebooks]"),
        (["notebook", "te", "s"], "[Notebooks]"),
        (["teboo", "bo", "ks"], "No[tebooks]"),
        (["no", "ot", "eb"], "[Noteb]ooks"),
        (["oo", "o"], "N[o]teb[oo]ks"),
        (["note", "note"], "[Note]books"),
        (["no", "s", "eboo", "b"], "[No]t[eboo]k[s]"),
    ],
)
def test_marked_together(queries, marked):
    for order in itertools.permutations(queries):
        assert mark("Notebooks", order) == marked


def test_marked_together_and_shifted():
    assert mark("Fußball, Fußballer", ["fussball", "sb", "er"]) == "[Fußball], [Fußballer]"
    assert mark("Fe" + ACUTE + "te " + "ße", ["fete", "e", "s"], before="<", after=">") == "<Fe" + ACUTE + "te> <ße>"


def test_excerpt_is_counted_in_the_text():
    text = "Große Füße, ﬂache Schuhe, breite Straße"
    assert excerpt(text, "schuhe", around=6) == "…ﬂache [Schuhe], brei…"
    assert excerpt(text, "strasse", around=3) == "…te [Straße]"
    assert excerpt(text, "grosse", around=0) == "[Große]…"
    assert excerpt(text, "stiefel") is None


def test_nothing_to_look_for():
    for query in ("", ACUTE, ACUTE + CEDILLA):
        with pytest.raises(ValueError, match="nothing to look for"):
            find("ßße" + ACUTE, query)
        with pytest.raises(ValueError, match="nothing to look for"):
            mark("", ["a", query])


PAGE = "Die große Straße führt ﬂach am Fluß entlang; SÜSSE Früchte, ﬁnstre Gassen und Soßen. Außen: Größe ß?"


def test_where_each_word_is():
    queries = ["strasse", "fluss", "s", "ss", "gross", "fr", "fl", "en", "sse", "fin"]
    assert [" ".join(f"{start}-{end}" for start, end in find(PAGE, query)) for query in queries] == [
        "10-16",
        "31-35",
        "7-8 10-11 14-15 34-35 45-46 47-48 48-49 62-63 69-70 70-71 78-79 80-81 87-88 95-96 98-99",
        "7-8 14-15 34-35 47-49 69-71 80-81 87-88 95-96 98-99",
        "4-8 92-96",
        "51-53",
        "23-24 31-33",
        "36-38 71-73 81-83 88-90",
        "7-9 14-16 47-50 69-72 80-82 87-89 95-97",
        "60-62",
    ]


def test_a_page_with_many_marks():
    assert mark(PAGE, ["s", "fluss", "gro", "en", "rosse", "lach am f", "gassen und sos"]).split(" ") == [
        "Die",
        "[große]",
        "[S]tra[ß]e",
        "führt",
        "[ﬂach",
        "am",
        "Fluß]",
        "[en]tlang;",
        "[S]Ü[SS]E",
        "Früchte,",
        "ﬁn[s]tre",
        "[Gassen",
        "und",
        "Soßen].",
        "Au[ßen]:",
        "[Größe]",
        "[ß]?",
    ]


def test_a_page_from_a_mac():
    text = unicodedata.normalize("NFD", "Über Ängste, Señor Müller & naïve Cafés: ÜBERSÜSS, Épée, übrig")
    marked = mark(text, ["uber", "ss", "a", "senor", "ee", "éf"], before="<", after=">")
    assert (
        unicodedata.normalize("NFC", marked)
        == "<Über> <Ä>ngste, <Señor> Müller & n<a>ïve C<a>fés: <ÜBER>SÜ<SS>, Ép<ée>, übrig"
    )


def test_what_is_around():
    queries = ["außen", "SUSSE", "finstre", "entlang", "ß", "gros", "sos", "grösse"]
    assert [excerpt(PAGE, query, around=4, before="{", after="}") for query in queries] == [
        "…en. {Außen}: Gr…",
        "…ng; {SÜSSE} Frü…",
        "…te, {ﬁnstre} Gas…",
        "…luß {entlang}; SÜ…",
        "… gro{ß}e St…",
        "Die {groß}e St…",
        "…und {Soß}en. …",
        "Die {große} Str…",
    ]


def test_accents_and_places():
    text = f"e{ACUTE}te{ACUTE} n{ACUTE}o{DOTS} ça c{CEDILLA}a{ACUTE}{DOTS} fe{ACUTE}e noe{DOTS}l ße{ACUTE}s"
    assert [[tuple(span) for span in find(text, query)] for query in ("ete", "no", "ca", "e", "se", "es")] == [
        [(0, 5)],
        [(6, 10), (25, 27)],
        [(11, 13), (14, 19)],
        [(0, 2), (3, 5), (21, 23), (23, 24), (27, 29), (32, 34)],
        [(31, 34)],
        [(32, 35)],
    ]
