# agentbench-canary: e36a94ee-5f71-45e8-b922-b71a82870e1b
"""The settings of a profile depend on the layers alone."""

import copy
import itertools
import tomllib

import pytest

from lintstack import ConfigError, Resolver
from lintstack.cli import main
from lintstack.merging import merge

CONFIG = """
[settings]
exclude = ["build"]
plugins.names = ["core"]

[profiles.base]
"+exclude" = ["vendor"]
paths = ["src"]

[profiles.ci]
extends = "base"
color = false
rules."+select" = ["W"]
"+paths" = ["ci"]

[profiles.dev]
extends = "base"
format = "short"
plugins."+names" = ["watch"]
"+paths" = ["dev"]

[profiles.both]
extends = ["ci", "dev"]
"+tags" = ["both"]

[profiles.more]
extends = ["base", "both", "ci"]
"+tags" = ["more"]

[profiles.egg]
extends = ["base", "hen"]

[profiles.hen]
extends = ["base", "egg"]

[profiles.self]
extends = "self"

[profiles.lost]
extends = ["base", "nowhere"]
"""
NAMES = [None, "base", "ci", "dev", "both", "more"]
OVERRIDES = {
    "environment": {"LINTSTACK_RULES__QUOTES": "single"},
    "options": ["+exclude=['x']", "rules.+select=['Q']", "+extra=[1]", "+extra=[2]"],
}


def tables():
    return tomllib.loads(CONFIG)


def alone(name, **overrides):
    return copy.deepcopy(Resolver(tables(), **overrides).settings(name))


def test_two_ways_to_one_profile():
    resolver = Resolver(tables())
    assert resolver.profiles.lineage("both") == ["base", "ci", "dev", "both"]
    assert resolver.profiles.lineage("more") == ["base", "ci", "dev", "both", "more"]
    settings = Resolver(tables()).settings("more")
    assert settings["paths"] == ["src", "ci", "dev"]
    assert settings["tags"] == ["both", "more"]
    assert settings["exclude"] == ["build", "vendor"]
    assert settings["rules"]["select"] == ["E", "F", "W"]


@pytest.mark.parametrize("overrides", [{}, OVERRIDES], ids=["plain", "overrides"])
@pytest.mark.parametrize("order", list(itertools.permutations(NAMES, 3)), ids=lambda order: "-".join(map(str, order)))
def test_in_any_order_and_any_number_of_times(order, overrides):
    resolver = Resolver(tables(), **overrides)
    for name in (*order, *order):
        assert resolver.settings(name) == alone(name, **overrides)


def test_exact_settings_after_others():
    resolver = Resolver(tables(), **OVERRIDES)
    for name in NAMES:
        resolver.settings(name)
    assert resolver.settings() == {
        "color": True,
        "exclude": ["build", "x"],
        "extra": [1, 2],
        "format": "text",
        "jobs": 1,
        "plugins": {"names": ["core"]},
        "rules": {"line-length": 88, "quotes": "single", "select": ["E", "F", "Q"]},
    }
    assert resolver.settings("base")["paths"] == ["src"]


def test_settings_that_were_handed_out_do_not_change():
    resolver = Resolver(tables(), **OVERRIDES)
    first = {name: resolver.settings(name) for name in NAMES}
    before = copy.deepcopy(first)
    for name in reversed(NAMES):
        resolver.settings(name)
    assert first == before


def test_the_tables_do_not_change():
    given = tables()
    resolver = Resolver(given, **OVERRIDES)
    for name in NAMES:
        resolver.settings(name)
    assert given == tables()


def test_two_resolvers_of_the_same_tables():
    given = tables()
    Resolver(given, **OVERRIDES).settings("more")
    assert Resolver(given).settings("ci") == alone("ci")


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(NAMES[1:], 2)))
def test_differences_both_ways(first, second):
    resolver = Resolver(tables())
    there = resolver.differences(first, second)
    back = resolver.differences(second, first)
    assert back == {name: (other, one) for name, (one, other) in there.items()}
    assert resolver.differences(first, first) == {}


@pytest.mark.parametrize(
    ("base", "layer"),
    [
        ({"a": [1]}, {"+a": [2]}),
        ({"t": {"a": [1], "u": {"b": [1]}}}, {"t": {"+a": [2], "u": {"+b": [3]}}}),
        ({}, {"+a": [1]}),
        ({"a": 1, "t": {"x": 1}}, {"t": {"y": 2}, "a": {"b": 1}}),
    ],
)
def test_merge_changes_neither_argument(base, layer):
    before = copy.deepcopy((base, layer))
    merged = merge(base, layer)
    merge(merged, {"+a": [9]} if isinstance(merged.get("a", []), list) else {"a": 9})
    merge(merge(merge({}, layer), {"+z": [1]}), {"+z": [2]})
    assert (base, layer) == before


def test_real_cycles_are_still_found():
    resolver = Resolver(tables())
    for _ in range(2):
        with pytest.raises(ConfigError, match="egg -> hen -> egg"):
            resolver.settings("egg")
        with pytest.raises(ConfigError, match="hen -> egg -> hen"):
            resolver.settings("hen")
        with pytest.raises(ConfigError, match="self -> self"):
            resolver.settings("self")
        assert resolver.settings("ci") == alone("ci")


def test_after_an_unknown_profile():
    resolver = Resolver(tables())
    for _ in range(2):
        with pytest.raises(ConfigError, match="no profile 'nowhere'"):
            resolver.settings("lost")
    assert resolver.settings("base") == alone("base")


def test_show_several(tmp_path, capsys):
    path = tmp_path / "lintstack.toml"
    path.write_text(CONFIG, encoding="utf-8")
    names = ["ci", "dev", "both", "ci"]
    expected = ""
    for name in names:
        assert main(["show", name, "--config", str(path)], {}) == 0
        expected += capsys.readouterr().out
    assert main(["show", *names, "--config", str(path)], {}) == 0
    assert capsys.readouterr().out == expected
