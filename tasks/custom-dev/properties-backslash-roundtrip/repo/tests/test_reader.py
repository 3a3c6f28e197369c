import pytest

from propfile import PropertiesError, loads


@pytest.mark.parametrize(
    "line",
    ["host=example.org", "host = example.org", "host: example.org", "host example.org", "  host\t:\texample.org"],
)
def test_separators(line: str) -> None:
    assert loads(line) == {"host": "example.org"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines(end: str) -> None:
    assert loads(f"a=1{end}{end}b=2{end}") == {"a": "1", "b": "2"}


def test_comments_and_blank_lines_are_skipped() -> None:
    assert loads("# one \\\n\n  ! two\na=1\n") == {"a": "1"}


def test_continuation() -> None:
    assert loads("fruits = apple, \\\n         pear\nnext = 1\n") == {"fruits": "apple, pear", "next": "1"}


def test_continuation_at_the_end_of_the_file() -> None:
    assert loads("a=1\\") == {"a": "1"}


def test_escapes() -> None:
    assert loads(r"a\ key\== tab\there, \u00e9, \#") == {"a key=": "tab\there, é, #"}


def test_surrogate_pairs_are_joined() -> None:
    assert loads(r"smile=\ud83d\ude00") == {"smile": "😀"}


def test_value_that_ends_with_a_backslash() -> None:
    assert loads("dir=C:\\\\\nnext=1\n") == {"dir": "C:\\", "next": "1"}


def test_key_alone() -> None:
    assert loads("flag\nother=") == {"flag": "", "other": ""}


def test_last_value_wins() -> None:
    assert loads("a=1\nb=2\na=3\n") == {"a": "3", "b": "2"}


def test_malformed_unicode_escape_names_the_line() -> None:
    with pytest.raises(PropertiesError, match="line 2: .*four hexadecimal digits"):
        loads("a=1\nb=\\u12\n")
