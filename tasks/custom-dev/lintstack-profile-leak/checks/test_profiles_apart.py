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


APART = """
[settings]
"+exclude" = ["dist"]
rules."+select" = ["B"]
hooks = { before = ["fetch"], after = [] }
owners = ["al"]

[profiles.fast]
"+exclude" = ["slow", "docs"]
rules."+select" = ["C4", "I"]
"+owners" = ["ann"]

[profiles.full]
"+exclude" = ["tmp", "slow"]
rules."+select" = ["I", "UP", "N"]
rules.line-length = 99
hooks."+before" = ["clean", "build"]
"+owners" = ["bob"]

[profiles.docs]
hooks."+before" = ["spell"]
rules.select = ["D"]
"+exclude" = ["src"]
jobs = 8

[profiles.deploy]
extends = ["full", "docs"]
rules."+select" = ["S", "E"]
"+owners" = ["cy", "bob"]
hooks."+after" = ["tell"]

[profiles.night]
extends = ["docs", "full"]
rules."+select" = ["W", "D", "N"]
"+owners" = ["di"]
"""


@pytest.fixture
def run(tmp_path, capsys):
    """What a command prints."""
    path = tmp_path / "lintstack.toml"
    path.write_text(APART, encoding="utf-8")

    def run(*arguments):
        code = main([*arguments, "--config", str(path)], {})
        return [code, *capsys.readouterr().out.splitlines()]

    return run


def test_two_shown_at_once(run):
    assert run("show", "full", "fast") == [
        0,
        "[full]",
        "color = true",
        'exclude = [".git", ".venv", "dist", "tmp", "slow"]',
        'format = "text"',
        "hooks.after = []",
        'hooks.before = ["fetch", "clean", "build"]',
        "jobs = 1",
        'owners = ["al", "bob"]',
        "rules.line-length = 99",
        'rules.quotes = "double"',
        'rules.select = ["E", "F", "B", "I", "UP", "N"]',
        "[fast]",
        "color = true",
        'exclude = [".git", ".venv", "dist", "slow", "docs"]',
        'format = "text"',
        "hooks.after = []",
        'hooks.before = ["fetch"]',
        "jobs = 1",
        'owners = ["al", "ann"]',
        "rules.line-length = 88",
        'rules.quotes = "double"',
        'rules.select = ["E", "F", "B", "C4", "I"]',
    ]


def test_profiles_of_profiles_shown_at_once(run):
    assert run("show", "deploy", "night", "deploy", "--set", "+exclude=['z', 'dist']", "--set", "jobs=2") == [
        0,
        "[deploy]",
        "color = true",
        'exclude = [".git", ".venv", "dist", "tmp", "slow", "src", "z"]',
        'format = "text"',
        'hooks.after = ["tell"]',
        'hooks.before = ["fetch", "clean", "build", "spell"]',
        "jobs = 2",
        'owners = ["al", "bob", "cy"]',
        "rules.line-length = 99",
        'rules.quotes = "double"',
        'rules.select = ["D", "S", "E"]',
        "[night]",
        "color = true",
        'exclude = [".git", ".venv", "dist", "src", "tmp", "slow", "z"]',
        'format = "text"',
        "hooks.after = []",
        'hooks.before = ["fetch", "spell", "clean", "build"]',
        "jobs = 2",
        'owners = ["al", "bob", "di"]',
        "rules.line-length = 99",
        'rules.quotes = "double"',
        'rules.select = ["D", "I", "UP", "N", "W"]',
        "[deploy]",
        "color = true",
        'exclude = [".git", ".venv", "dist", "tmp", "slow", "src", "z"]',
        'format = "text"',
        'hooks.after = ["tell"]',
        'hooks.before = ["fetch", "clean", "build", "spell"]',
        "jobs = 2",
        'owners = ["al", "bob", "cy"]',
        "rules.line-length = 99",
        'rules.quotes = "double"',
        'rules.select = ["D", "S", "E"]',
    ]


def test_what_differs_is_printed(run):
    assert [run("diff", *pair) for pair in (["fast", "full"], ["full", "docs"], ["deploy", "night"])] == [
        [
            0,
            'exclude: [".git", ".venv", "dist", "slow", "docs"] -> [".git", ".venv", "dist", "tmp", "slow"]',
            'hooks.before: ["fetch"] -> ["fetch", "clean", "build"]',
            'owners: ["al", "ann"] -> ["al", "bob"]',
            "rules.line-length: 88 -> 99",
            'rules.select: ["E", "F", "B", "C4", "I"] -> ["E", "F", "B", "I", "UP", "N"]',
        ],
        [
            0,
            'exclude: [".git", ".venv", "dist", "tmp", "slow"] -> [".git", ".venv", "dist", "src"]',
            'hooks.before: ["fetch", "clean", "build"] -> ["fetch", "spell"]',
            "jobs: 1 -> 8",
            'owners: ["al", "bob"] -> ["al"]',
            "rules.line-length: 99 -> 88",
            'rules.select: ["E", "F", "B", "I", "UP", "N"] -> ["D"]',
        ],
        [
            0,
            'exclude: [".git", ".venv", "dist", "tmp", "slow", "src"] -> [".git", ".venv", "dist", "src", "tmp", "slow"]',
            'hooks.after: ["tell"] -> []',
            'hooks.before: ["fetch", "clean", "build", "spell"] -> ["fetch", "spell", "clean", "build"]',
            'owners: ["al", "bob", "cy"] -> ["al", "bob", "di"]',
            'rules.select: ["D", "S", "E"] -> ["D", "I", "UP", "N", "W"]',
        ],
    ]


def test_lists_of_one_profile_after_the_other():
    resolver = Resolver(tomllib.loads(APART))
    lists = []
    for name in ("fast", "docs", "full", None):
        settings = resolver.settings(name)
        lists.append([*settings["exclude"], "/", *settings["rules"]["select"], "/", *settings["hooks"]["before"]])
    assert [" ".join(words) for words in lists] == [
        ".git .venv dist slow docs / E F B C4 I / fetch",
        ".git .venv dist src / D / fetch spell",
        ".git .venv dist tmp slow / E F B I UP N / fetch clean build",
        ".git .venv dist / E F B / fetch",
    ]


def test_the_last_of_three():
    def owners(names):
        resolver = Resolver(tomllib.loads(APART), options=["+owners=['eve']"])
        return [" ".join(resolver.settings(name)["owners"]) for name in names][-1]

    orders = itertools.permutations(["fast", None, "docs", "full"], 3)
    assert [owners(order) for order in orders] == [
        "al eve",
        "al bob eve",
        "al eve",
        "al bob eve",
        "al eve",
        "al eve",
        "al eve",
        "al bob eve",
        "al ann eve",
        "al bob eve",
        "al ann eve",
        "al eve",
        "al eve",
        "al bob eve",
        "al ann eve",
        "al bob eve",
        "al ann eve",
        "al eve",
        "al eve",
        "al eve",
        "al ann eve",
        "al eve",
        "al ann eve",
        "al eve",
    ]


def test_layers_on_one_base():
    base = {"names": ["a", "b"], "deep": {"names": ["x"], "deeper": {"names": [1, 2]}}}
    layers = [
        {"+names": ["c"], "deep": {"+names": ["y", "x"]}},
        {"+names": ["b", "d"], "deep": {"deeper": {"+names": [3, 1]}}},
        {"deep": {"+names": ["z"], "deeper": {"+names": [2, 5]}}, "+names": ["e"]},
        {"+more": [0], "deep": {"+names": ["x", "w"]}},
    ]
    assert [merge(base, layer) for layer in layers] == [
        {"names": ["a", "b", "c"], "deep": {"names": ["x", "y"], "deeper": {"names": [1, 2]}}},
        {"names": ["a", "b", "d"], "deep": {"names": ["x"], "deeper": {"names": [1, 2, 3]}}},
        {"names": ["a", "b", "e"], "deep": {"names": ["x", "z"], "deeper": {"names": [1, 2, 5]}}},
        {"names": ["a", "b"], "deep": {"names": ["x", "w"], "deeper": {"names": [1, 2]}}, "more": [0]},
    ]


def test_orders_of_profiles():
    profiles = Resolver(
        {
            "profiles": {
                "top": {"extends": ["mid", "left", "right"]},
                "left": {"extends": ["low", "mid"]},
                "right": {"extends": ["low", "mid", "left", "far"]},
                "mid": {"extends": "low"},
                "far": {"extends": ["mid"]},
                "low": {},
            }
        }
    ).profiles
    assert [" < ".join(profiles.lineage(name)) for name in [*profiles.names(), "top", "right"]] == [
        "low < mid < far",
        "low < mid < left",
        "low",
        "low < mid",
        "low < mid < left < far < right",
        "low < mid < left < far < right < top",
        "low < mid < left < far < right < top",
        "low < mid < left < far < right",
    ]
