import pytest

from propfile import dumps, loads


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("a", "1", "a=1"),
        ("a key", "a value", r"a\ key=a value"),
        ("a=b:c", "a=b:c", r"a\=b\:c=a=b:c"),
        ("#a", "#a", r"\#a=#a"),
        ("a", "  x ", r"a=\ \ x "),
        ("a", "one\ntwo\t\\", r"a=one\ntwo\t\\"),
        ("a", "\x01é", "a=\\u0001é"),
    ],
)
def test_write(key: str, value: str, line: str) -> None:
    assert dumps({key: value}) == line + "\n"


def test_ascii_only() -> None:
    assert dumps({"é": "😀"}, ascii_only=True) == "\\u00e9=\\ud83d\\ude00\n"


@pytest.mark.parametrize(
    "values",
    [
        {"a": "1", "b c": "  2\t", "": "empty key"},
        {"!important": "#1", "a=b": ":", "multi": "line\nline\r\n"},
        {"é": "😀", "control": "\x00\x1f"},
    ],
)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_read_back(values: dict[str, str], ascii_only: bool) -> None:
    assert loads(dumps(values, ascii_only=ascii_only)) == values


def test_windows_path_is_read_back() -> None:
    values = {"temp": "C:\\temp\\new"}
    assert loads(dumps(values)) == values
