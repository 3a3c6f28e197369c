import tomllib

import pytest

from lintstack import ConfigError, Resolver

TABLES = tomllib.loads(
    """
    [settings]
    exclude = ["build"]
    rules.line-length = 100

    [profiles.base]
    "+exclude" = ["vendor"]

    [profiles.ci]
    extends = "base"
    color = false
    rules."+select" = ["W"]

    [profiles.slow]
    jobs = 1
    rules.line-length = 120

    [profiles.nightly]
    extends = ["ci", "slow"]
    format = "json"

    [profiles.egg]
    extends = "hen"

    [profiles.hen]
    extends = "egg"
    """
)


def test_defaults_and_file() -> None:
    settings = Resolver(TABLES).settings()
    assert settings["exclude"] == ["build"]
    assert settings["rules"] == {"line-length": 100, "quotes": "double", "select": ["E", "F"]}


def test_profile_after_what_it_extends() -> None:
    resolver = Resolver(TABLES)
    assert resolver.profiles.lineage("nightly") == ["base", "ci", "slow", "nightly"]


def test_profile() -> None:
    settings = Resolver(TABLES).settings("nightly")
    assert (settings["color"], settings["format"], settings["exclude"]) == (False, "json", ["build", "vendor"])
    assert settings["rules"] == {"line-length": 120, "quotes": "double", "select": ["E", "F", "W"]}


def test_environment_and_options_win() -> None:
    environment = {"LINTSTACK_RULES__LINE_LENGTH": "60", "LINTSTACK_FORMAT": "xml", "PATH": "/bin"}
    options = ["rules.line-length=70", "color=true", "+exclude=['x']"]
    settings = Resolver(TABLES, environment=environment, options=options).settings("nightly")
    assert (settings["format"], settings["color"], settings["rules"]["line-length"]) == ("xml", True, 70)
    assert settings["exclude"] == ["build", "vendor", "x"]


def test_profiles_that_extend_each_other() -> None:
    with pytest.raises(ConfigError, match="hen -> egg -> hen"):
        Resolver(TABLES).settings("hen")


def test_unknown_profile() -> None:
    with pytest.raises(ConfigError, match="no profile 'nightyl'; did you mean 'nightly'"):
        Resolver(TABLES).settings("nightyl")


def test_differences() -> None:
    assert Resolver(TABLES).differences("ci", "slow") == {
        "color": (False, True),
        "exclude": (["build", "vendor"], ["build"]),
        "rules.line-length": (100, 120),
        "rules.select": (["E", "F", "W"], ["E", "F"]),
    }
