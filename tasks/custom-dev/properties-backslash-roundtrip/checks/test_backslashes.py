# agentbench-canary: b8430978-75ba-4bc2-a57a-deeba2a22d9d
"""Backslashes, alone and beside everything else the format gives a meaning."""

import itertools

import pytest

from propfile import Document, PropertiesError, dumps, loads


def test_length_of_a_backslash_before_a_letter():
    assert len(loads(r"a=\\n")["a"]) == 2


def test_length_of_two_backslashes_before_a_letter():
    assert len(loads(r"a=\\\\n")["a"]) == 3


def test_entries_after_an_escaped_backslash():
    assert len(loads("a=x\\\\\nb=1\nc=y\\\\\nd=2\n")) == 4


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"a=\\n", r"\n"),
        (r"a=\\\n", "\\\n"),
        (r"a=\\\\n", r"\\n"),
        (r"a=\\t\t", "\\t\t"),
        (r"a=\\u0041", r"\u0041"),
        (r"a=\\\u0041", r"\A"),
        (r"a=\u005cn", r"\n"),
        (r"a=\u005c\u005c", r"\\"),
        (r"a=\u005cu0041", r"\u0041"),
        (r"a=\\u", r"\u"),
        (r"a=\q\=\\", "q=\\"),
        (r"a=x\\ y", "x\\ y"),
    ],
)
def test_value(written, value):
    assert loads(written) == {"a": value}
    assert loads(f"{written}\nb=1\n") == {"a": value, "b": "1"}


@pytest.mark.parametrize(
    ("written", "key"),
    [(r"C:\\n", "C"), (r"C\:\\new=", r"C:\new"), (r"\\t=", r"\t"), (r"a\\=", "a\\"), (r"a\\\==", r"a\=")],
)
def test_key(written, key):
    assert list(loads(written)) == [key]


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_backslashes_at_the_end_of_a_line(count, end):
    text = "a=x" + "\\" * count + end + "  b=1" + end
    half = "\\" * (count // 2)
    expected = {"a": "x" + half + "b=1"} if count % 2 else {"a": "x" + half, "b": "1"}
    assert loads(text) == expected


def test_continued_line_that_ends_with_an_escaped_backslash():
    assert loads("a=x, \\\n  y\\\\\nb=1\n") == {"a": "x, y\\", "b": "1"}
    assert loads("a=x\\\\\\\n  y\\\\\\\n  z\nb=1\n") == {"a": "x\\y\\z", "b": "1"}


def test_continuation_before_a_line_of_backslashes():
    assert loads("a=x\\\n\\\\\nb=1") == {"a": "x\\", "b": "1"}
    assert loads("a=x\\\\\\\n\\\\\nb=1") == {"a": "x\\\\", "b": "1"}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_read_back_everything_short(ascii_only):
    for length in range(1, 5):
        for chars in itertools.product("\\nu \n=", repeat=length):
            text = "".join(chars)
            values = {text: text, "last": "1"}
            assert loads(dumps(values, ascii_only=ascii_only)) == values


def test_document_keeps_lines_that_end_with_backslashes():
    text = "# paths\nhome=C:\\\\\ntemp=C:\\\\temp\\\\new\\\\\nlast=1\n"
    document = Document(text)
    assert dict(document) == {"home": "C:\\", "temp": "C:\\temp\\new\\", "last": "1"}
    document["home"] = "D:\\new\\"
    assert str(document) == text.replace("home=C:\\\\", "home=D:\\\\new\\\\")
    assert dict(Document(str(document))) == dict(document)


@pytest.mark.parametrize("written", [r"a=\u12", r"a=\\\u", r"a=\uxyz0", r"\u1=a"])
def test_malformed_unicode_escape(written):
    with pytest.raises(PropertiesError, match="line 2"):
        loads("b=1\n" + written)
