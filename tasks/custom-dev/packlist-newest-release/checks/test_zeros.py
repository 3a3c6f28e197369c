# agentbench-canary: d7d5dc9c-9341-414d-80b0-7dbe7e1c1289
"""Zeros that count and zeros that do not."""

import itertools
from collections import Counter

import pytest

from packlist import Index, InvalidVersion, NoRelease, Requirement, Version, lock

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


def test_every_release_of_a_long_life():
    texts = "2.0 1.100 1.9.10 1.1 0.9 1.10.0 1.0.10 1.10 10.0 0.10 1.90 1.9 10 2.0b10 1.9.1 0.90 1.100.10 2.0b1 1 0.9.0"
    assert (
        " ".join(map(str, Index({"x": texts.split()}).versions("x")))
        == "0.9 0.10 0.90 1 1.0.10 1.1 1.9 1.9.1 1.9.10 1.10.0 1.90 1.100 1.100.10 2.0b1 2.0b10 2.0 10.0"
    )


def test_places_in_order():
    texts = [
        "3.100",
        "3.1",
        "3.10rc2",
        "3.20.1",
        "3",
        "30",
        "3.10",
        "3.2",
        "3.9.10",
        "3.9.1",
        "3.30",
        "3.10.1",
        "3.2.10",
    ]
    assert sorted(range(len(texts)), key=lambda place: Version(texts[place])) == [
        4,
        1,
        7,
        12,
        9,
        8,
        2,
        6,
        11,
        3,
        10,
        0,
        5,
    ]


def test_how_many_are_the_same_key():
    texts = (
        "1.10 1.1 1.10.0 10 1.100 1 10.0 1.0 1.1.0 1.100.0.0 100 1.10.0.0 1.1.0.0 100.0 1.0.0 10a1 1a1 10.0a1".split()
    )
    assert {str(version): count for version, count in Counter(map(Version, texts)).items()} == {
        "1.10": 3,
        "1.1": 3,
        "10": 2,
        "1.100": 2,
        "1": 3,
        "100": 2,
        "10a1": 2,
        "1a1": 1,
    }


def test_what_each_requirement_allows():
    texts = ["4.2", "4.20rc1", "4.20", "4.200", "4.3", "4.30", "40", "4"]
    requirements = [">4.2", "<=4.3", "==4.20.0", "!=4.30, >4.3", ">=4.20", "<4.20, >=4.3", "<40", ">=4.20rc1, <=4.30"]
    assert [
        " ".join(text for text in texts if Requirement(requirement).allows(Version(text)))
        for requirement in requirements
    ] == [
        "4.20 4.200 4.3 4.30 40",
        "4.2 4.3 4",
        "4.20",
        "4.20 4.200 40",
        "4.20 4.200 4.30 40",
        "4.3",
        "4.2 4.20 4.200 4.3 4.30 4",
        "4.20rc1 4.20 4.30",
    ]


def test_lock_of_a_large_manifest():
    index = Index(
        {
            "brush": ["0.9", "0.10", "0.8"],
            "canvas": ["1.10", "1.1.1", "1.1"],
            "easel": ["2.9", "2.10", "2.11rc1", "2.20"],
            "glue": ["1.100.1", "1.99", "1.100", "1.10"],
            "ink": ["3.0", "3.0.10", "3.0.9"],
            "paper": ["7", "70", "8"],
            "pen": ["5.10b10", "5.10b9", "5.9"],
        }
    )
    manifest = "pen >=5.1b1\npaper <80\ncanvas\nbrush >0.8\nink\neasel !=2.20\nglue <=1.100"
    assert (
        lock(manifest, index)
        == "brush == 0.10\ncanvas == 1.10\neasel == 2.10\nglue == 1.100\nink == 3.0.10\npaper == 70\npen == 5.10b10"
    )


def test_newest_below_each():
    index = Index({"x": [f"{number // 8}.{number % 8 * 5}" for number in range(40)]})
    limits = ["4.20", "4.0", "3.30", "3.10", "2.5", "2.11", "1.20", "1.9", "1", "0.40"]
    assert [str(index.newest("x", f"<{limit}")) for limit in limits] == [
        "4.15",
        "3.35",
        "3.25",
        "3.5",
        "2.0",
        "2.10",
        "1.15",
        "1.5",
        "0.35",
        "0.35",
    ]
