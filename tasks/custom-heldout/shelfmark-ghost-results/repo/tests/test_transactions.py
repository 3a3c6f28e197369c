import pytest

from shelfmark import Catalogue, Item

ROSES = Item("b1", "Roses", ["garden"])
TULIPS = Item("b2", "Tulips", ["garden"])


def test_kept() -> None:
    catalogue = Catalogue()
    with catalogue.transaction():
        catalogue.put(ROSES)
        assert catalogue.find("garden") == [ROSES]
    assert catalogue.find("garden") == [ROSES]


def test_undone() -> None:
    catalogue = Catalogue()
    catalogue.put(ROSES)
    with pytest.raises(RuntimeError), catalogue.transaction():
        catalogue.put(TULIPS)
        catalogue.remove("b1")
        raise RuntimeError
    assert catalogue.find("garden") == [ROSES]
    assert catalogue.get("b1") == ROSES


def test_inner_one_undone() -> None:
    catalogue = Catalogue()
    with catalogue.transaction():
        catalogue.put(ROSES)
        with pytest.raises(RuntimeError), catalogue.transaction():
            catalogue.put(TULIPS)
            raise RuntimeError
    assert catalogue.find() == [ROSES]


def test_outer_one_undone() -> None:
    catalogue = Catalogue()
    with pytest.raises(RuntimeError), catalogue.transaction():
        with catalogue.transaction():
            catalogue.put(ROSES)
        catalogue.put(TULIPS)
        raise RuntimeError
    assert catalogue.find() == []
