import pytest

from packlist import Index, NoRelease, lock

INDEX = Index({"paint": ["1.3", "1.2", "2.0rc1", "1.3.0"], "brush": ["0.5", "0.4"]})


def test_oldest_first() -> None:
    assert [str(version) for version in INDEX.versions("paint")] == ["1.2", "1.3", "2.0rc1"]
    assert INDEX.versions("easel") == []


@pytest.mark.parametrize(
    ("requirement", "version"),
    [("", "1.3"), ("<1.3", "1.2"), (">=1.2, !=1.3.0", "1.2"), ("==1.2.0", "1.2"), (">=2.0a1", "2.0rc1")],
)
def test_newest(requirement: str, version: str) -> None:
    assert str(INDEX.newest("paint", requirement)) == version


def test_nothing_fits() -> None:
    with pytest.raises(NoRelease, match=r"no release of 'paint' fits '>1\.3'"):
        INDEX.newest("paint", ">1.3")
    with pytest.raises(NoRelease):
        INDEX.newest("easel")


def test_tenth_release() -> None:
    index = Index({"paint": ["1.8", "1.9", "1.10"]})
    assert str(index.newest("paint")) == "1.10"


def test_lock() -> None:
    assert lock("# tools\nbrush\n\npaint  >=1.2, <1.3\n", INDEX) == "brush == 0.5\npaint == 1.2"
