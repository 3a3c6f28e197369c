# agentbench-canary: d7d5dc9c-9341-414d-80b0-7dbe7e1c1289
"""Zeros that count and zeros that do not."""

import itertools

import pytest

from packlist import Index, InvalidVersion, NoRelease, Version, lock

ASCENDING = [
    ["0", "0.0", "0.0.0"],
    ["0.0.1"],
    ["0.0.10"],
    ["0.1", "0.1.0"],
    ["0.10"],
    ["0.100"],
    ["1a1", "1.0a1"],
    ["1a10", "1.0.0a10"],
    ["1rc1"],
    ["1", "1.0", "1.0.0", "1.0.0.0"],
    ["1.0.1"],
    ["1.0.10"],
    ["1.1", "1.1.0"],
    ["1.2"],
    ["1.9"],
    ["1.10rc1", "1.10.0rc1"],
    ["1.10", "1.10.0", "1.10.0.0"],
    ["1.10.1"],
    ["1.11"],
    ["1.20"],
    ["1.100"],
    ["1.101"],
    ["2", "2.0"],
    ["9"],
    ["10b1"],
    ["10", "10.0", "10.0.0"],
    ["10.10"],
    ["20"],
    ["100", "100.0"],
    ["2000.10"],
    ["2010"],
]


@pytest.mark.parametrize("index", range(len(ASCENDING)), ids=lambda index: ASCENDING[index][0])
def test_order(index):
    for older, newer in itertools.product(ASCENDING[index], itertools.chain(*ASCENDING[index + 1 :])):
        assert Version(older) < Version(newer)
        assert Version(newer) >= Version(older)
        assert Version(older) != Version(newer)


@pytest.mark.parametrize("group", ASCENDING, ids=lambda group: group[0])
def test_equal(group):
    assert len({Version(text) for text in group}) == 1
    for one, other in itertools.product(group, repeat=2):
        assert Version(one) == Version(other)
        assert Version(one) <= Version(other)
        assert not Version(one) < Version(other)


def test_versions_are_listed_once_and_as_they_were_written():
    texts = [text for group in reversed(ASCENDING) for text in group]
    assert [str(version) for version in Index({"x": texts}).versions("x")] == [group[0] for group in ASCENDING]


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("", "30"),
        ("==3.20", "3.20"),
        ("==3.2.0", "3.2"),
        ("==3.20.0", "3.20"),
        ("!=30, !=3.20", "3.10"),
        ("<3.20", "3.10"),
        (">3.2, <=3.10", "3.10"),
        ("<30, >=3.20rc1", "3.20"),
        ("<3.20, >=3.20rc1", "3.20rc1"),
    ],
)
def test_requirement(requirement, version):
    releases = ["3.20", "3.2", "30", "3", "3.3", "3.10", "3.20rc1"]
    assert str(Index({"x": releases}).newest("x", requirement)) == version


def test_nothing_fits():
    with pytest.raises(NoRelease):
        Index({"x": ["3.2"]}).newest("x", "==3.20")


def test_lock():
    index = Index({"x": ["10", "9", "1"], "y": ["0", "0.0.1"]})
    assert lock("x <10.0\ny", index) == "x == 9\ny == 0.0.1"
    assert lock("x\ny ==0", index) == "x == 10\ny == 0"


@pytest.mark.parametrize("text", ["0.", ".0", "1..0", "0rc", "0x1", " 1.0"])
def test_not_a_version(text):
    with pytest.raises(InvalidVersion):
        Version(text)
