import pytest

from lintstack import ConfigError
from lintstack.merging import merge, nested


def test_later_values_win() -> None:
    assert merge({"a": 1, "b": [1]}, {"b": [2], "c": 3}) == {"a": 1, "b": [2], "c": 3}


def test_tables_are_merged() -> None:
    base = {"rules": {"a": 1, "deep": {"x": 1}}}
    assert merge(base, {"rules": {"b": 2, "deep": {"y": 2}}}) == {"rules": {"a": 1, "b": 2, "deep": {"x": 1, "y": 2}}}
    assert base == {"rules": {"a": 1, "deep": {"x": 1}}}


def test_lists_are_extended() -> None:
    assert merge({"a": [1, 2]}, {"+a": [2, 3], "+b": [4]}) == {"a": [1, 2, 3], "b": [4]}
    assert merge({"rules": {"a": [1]}}, {"rules": {"+a": [2]}}) == {"rules": {"a": [1, 2]}}


@pytest.mark.parametrize(("base", "layer"), [({"a": 1}, {"+a": [1]}), ({"a": [1]}, {"+a": 1})])
def test_only_lists_are_extended(base, layer) -> None:
    with pytest.raises(ConfigError, match=r"'\+a' adds a list to a list"):
        merge(base, layer)


def test_nested() -> None:
    assert nested("a", 1) == {"a": 1}
    assert nested("a.b.+c", [1]) == {"a": {"b": {"+c": [1]}}}
    for path in ("", "a.", ".a", "a.+"):
        with pytest.raises(ConfigError, match="not the name of a setting"):
            nested(path, 1)
