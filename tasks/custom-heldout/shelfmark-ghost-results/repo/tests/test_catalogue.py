import pytest

from shelfmark import Catalogue, Item

ENGINE = Item("b1", "Notes on the engine", ["history", "maths"])
COMPILERS = Item("b2", "Compilers", ["maths"])
ROSES = Item("b3", "Roses", ["garden"])


@pytest.fixture
def catalogue() -> Catalogue:
    catalogue = Catalogue()
    for item in (ENGINE, COMPILERS, ROSES):
        catalogue.put(item)
    return catalogue


def test_find(catalogue: Catalogue) -> None:
    assert catalogue.find("maths") == [COMPILERS, ENGINE]
    assert catalogue.find("history", "maths") == [ENGINE]
    assert catalogue.find("history", "garden") == []
    assert catalogue.find() == [COMPILERS, ENGINE, ROSES]


def test_get(catalogue: Catalogue) -> None:
    assert catalogue.get("b1") == ENGINE
    with pytest.raises(KeyError):
        catalogue.get("b4")


def test_overview(catalogue: Catalogue) -> None:
    assert catalogue.overview() == {"garden": 1, "history": 1, "maths": 2}


def test_remove(catalogue: Catalogue) -> None:
    assert catalogue.find("maths") == [COMPILERS, ENGINE]
    catalogue.remove("b2")
    assert catalogue.find("maths") == [ENGINE]
    with pytest.raises(KeyError):
        catalogue.remove("b2")


def test_new_tags(catalogue: Catalogue) -> None:
    assert catalogue.find("history") == [ENGINE]
    poem = Item("b4", "A poem", ["history"])
    catalogue.put(poem)
    assert catalogue.find("history") == [poem, ENGINE]


def test_other_tags(catalogue: Catalogue) -> None:
    assert catalogue.find("garden") == [ROSES]
    catalogue.put(Item("b3", "Roses", ["flowers"]))
    assert catalogue.find("flowers") == [Item("b3", "Roses", ["flowers"])]
    assert catalogue.find("garden") == []


def test_what_was_returned_belongs_to_the_caller(catalogue: Catalogue) -> None:
    catalogue.find("maths").clear()
    catalogue.overview().clear()
    assert len(catalogue.find("maths")) == 2
    assert len(catalogue.overview()) == 3


def test_questions_are_answered_without_a_scan(catalogue: Catalogue) -> None:
    for _ in range(3):
        catalogue.find("maths")
        catalogue.find("nothing")
        catalogue.overview()
    assert catalogue.scans == 3


def test_other_lists_are_kept(catalogue: Catalogue) -> None:
    catalogue.find("maths")
    catalogue.find("maths", "history")
    catalogue.put(Item("b4", "Tulips", ["garden", "history"]))
    catalogue.find("maths")
    catalogue.find("maths", "history")
    assert catalogue.scans == 2
