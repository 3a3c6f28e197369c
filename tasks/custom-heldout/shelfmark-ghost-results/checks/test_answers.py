# agentbench-canary: 64136a4f-8243-44bc-856a-73352ef87e26
"""The cache never changes an answer, and still saves the scans that it can save."""

import itertools
import random

import pytest

from shelfmark import Catalogue, Item

TAGS = ["a", "b", "c"]
SETS = [frozenset(tags) for length in range(4) for tags in itertools.combinations(TAGS, length)]


class Undo(Exception):
    pass


def questions(catalogue):
    return [catalogue.find(*tags) for tags in SETS], catalogue.overview()


def fresh(items):
    catalogue = Catalogue()
    for item in items:
        catalogue.put(item)
    return catalogue


def assert_right(catalogue, items):
    """Every answer is that of a catalogue without a past."""
    items = list(items)
    assert questions(catalogue) == questions(fresh(items))
    for item in items:
        assert catalogue.get(item.id) == item


@pytest.mark.parametrize("after", SETS, ids=lambda tags: "".join(sorted(tags)) or "-")
@pytest.mark.parametrize("before", SETS, ids=lambda tags: "".join(sorted(tags)) or "-")
def test_item_with_other_tags(before, after):
    other = Item("2", "other", ["a", "b"])
    catalogue = fresh([Item("1", "item", before), other])
    questions(catalogue)
    catalogue.put(Item("1", "item", after))
    assert_right(catalogue, [Item("1", "item", after), other])
    catalogue.remove("1")
    assert_right(catalogue, [other])


def test_other_title():
    catalogue = fresh([Item("1", "x", "a"), Item("2", "y", "a")])
    questions(catalogue)
    catalogue.put(Item("1", "z", "a"))
    assert [item.title for item in catalogue.find("a")] == ["y", "z"]
    assert [item.title for item in catalogue.find()] == ["y", "z"]


@pytest.mark.parametrize("after", SETS, ids=lambda tags: "".join(sorted(tags)) or "-")
@pytest.mark.parametrize(
    "before", [None, *SETS], ids=lambda tags: "none" if tags is None else "".join(sorted(tags)) or "-"
)
def test_asked_in_a_transaction_that_is_undone(before, after):
    items = [Item("2", "other", ["b", "c"])] + ([] if before is None else [Item("1", "item", before)])
    for asked_before in (False, True):
        catalogue = fresh(items)
        if asked_before:
            questions(catalogue)
        with pytest.raises(Undo), catalogue.transaction():
            catalogue.put(Item("1", "item", after))
            questions(catalogue)
            raise Undo
        assert_right(catalogue, items)


def test_removal_that_is_undone():
    items = [Item("1", "item", "ab"), Item("2", "other", "b")]
    catalogue = fresh(items)
    with pytest.raises(Undo), catalogue.transaction():
        catalogue.remove("1")
        questions(catalogue)
        raise Undo
    assert_right(catalogue, items)
    with pytest.raises(Undo), catalogue.transaction():
        catalogue.remove("1")
        catalogue.put(Item("1", "again", "c"))
        catalogue.remove("2")
        questions(catalogue)
        raise Undo
    assert_right(catalogue, items)


def test_inner_transaction_kept_and_outer_one_undone():
    items = [Item("1", "item", "a")]
    catalogue = fresh(items)
    with pytest.raises(Undo), catalogue.transaction():
        with catalogue.transaction():
            catalogue.put(Item("1", "item", "b"))
            with catalogue.transaction():
                catalogue.put(Item("2", "new", "c"))
            questions(catalogue)
        questions(catalogue)
        raise Undo
    assert_right(catalogue, items)


def test_inner_transaction_undone_and_outer_one_kept():
    catalogue = fresh([Item("1", "item", "a")])
    with catalogue.transaction():
        catalogue.put(Item("1", "item", "b"))
        questions(catalogue)
        with pytest.raises(Undo), catalogue.transaction():
            catalogue.put(Item("1", "item", "c"))
            questions(catalogue)
            raise Undo
        assert_right(catalogue, [Item("1", "item", "b")])
    assert_right(catalogue, [Item("1", "item", "b")])


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, KeyError])
def test_undone_by_any_exception(error):
    catalogue = fresh([Item("1", "item", "a")])
    with pytest.raises(error), catalogue.transaction():
        catalogue.put(Item("1", "item", "b"))
        questions(catalogue)
        raise error
    assert_right(catalogue, [Item("1", "item", "a")])


@pytest.mark.parametrize("seed", range(40))
def test_anything(seed):
    chance = random.Random(seed)
    catalogue = Catalogue()

    def some_writes(items, depth):
        for _ in range(chance.randrange(2, 7)):
            id = chance.choice("12345")
            what = chance.random()
            if what < 0.25 and depth < 3:
                inner = dict(items)
                try:
                    with catalogue.transaction():
                        some_writes(inner, depth + 1)
                        if chance.random() < 0.5:
                            raise Undo
                    items.clear()
                    items.update(inner)
                except Undo:
                    pass
            elif what < 0.4 and id in items:
                catalogue.remove(id)
                del items[id]
            else:
                items[id] = Item(id, chance.choice("xyz"), chance.choice(SETS))
                catalogue.put(items[id])
            if chance.random() < 0.7:
                assert_right(catalogue, items.values())

    items = {}
    for _ in range(5):
        some_writes(items, 0)
        assert_right(catalogue, items.values())


def asked(catalogue, *tags):
    """How many scans it takes to find these."""
    before = catalogue.scans
    catalogue.find(*tags)
    return catalogue.scans - before


def test_writes_keep_other_lists():
    catalogue = fresh([Item("1", "one", "a"), Item("2", "two", "b"), Item("3", "three", "cd")])
    for tags in ("c", "d", "cd", "e", "ec"):
        catalogue.find(*tags)
    catalogue.put(Item("1", "one", "b"))
    catalogue.put(Item("2", "two", ""))
    catalogue.remove("1")
    catalogue.put(Item("4", "four", "ab"))
    assert [asked(catalogue, *tags) for tags in ("c", "d", "cd", "e", "ec")] == [0] * 5
    catalogue.put(Item("3", "three", "c"))
    assert [asked(catalogue, *tags) for tags in ("c", "d", "cd", "e", "ec")] == [1, 1, 1, 0, 0]


def test_undone_transactions_keep_other_lists():
    catalogue = fresh([Item("1", "one", "a"), Item("2", "two", "b")])
    for tags in ("a", "b", "c"):
        catalogue.find(*tags)
    with pytest.raises(Undo), catalogue.transaction():
        catalogue.put(Item("1", "one", "d"))
        with catalogue.transaction():
            catalogue.put(Item("3", "three", "e"))
        raise Undo
    assert [asked(catalogue, *tags) for tags in ("b", "c")] == [0, 0]
    catalogue.overview()
    scans = catalogue.scans
    with pytest.raises(Undo), catalogue.transaction():
        raise Undo
    questions_that_are_known = [catalogue.find("b"), catalogue.find("c"), catalogue.overview()]
    assert questions_that_are_known == [[Item("2", "two", "b")], [], {"a": 1, "b": 1}]
    assert catalogue.scans == scans


def test_kept_transactions_keep_answers():
    catalogue = fresh([Item("1", "one", "a")])
    with catalogue.transaction():
        catalogue.put(Item("2", "two", "b"))
        questions(catalogue)
    scans = catalogue.scans
    assert_right(catalogue, [Item("1", "one", "a"), Item("2", "two", "b")])
    assert catalogue.scans == scans


def test_catalogues_are_apart():
    one, other = fresh([Item("1", "one", "a")]), fresh([])
    questions(one)
    questions(other)
    other.put(Item("1", "one", "b"))
    assert_right(one, [Item("1", "one", "a")])


def test_what_was_returned_belongs_to_the_caller():
    catalogue = fresh([Item("1", "one", "a")])
    with pytest.raises(Undo), catalogue.transaction():
        catalogue.put(Item("2", "two", "a"))
        found, overview = catalogue.find("a"), catalogue.overview()
        raise Undo
    assert len(found) == 2
    found.clear()
    overview["a"] = 9
    assert_right(catalogue, [Item("1", "one", "a")])


PLANTS = [
    Item("p1", "Asters", ["autumn", "blue", "shop"]),
    Item("p2", "Bluebells", ["blue", "spring"]),
    Item("p3", "Crocuses", ["shop", "spring"]),
    Item("p4", "Dahlias", ["autumn", "shop"]),
    Item("p5", "Elders", ["hedge", "spring", "shop"]),
    Item("p6", "Ferns", ["shade"]),
    Item("p7", "Gentians", ["blue", "shade", "shop"]),
]
PLANT_TAGS = ["autumn", "blue", "hedge", "shade", "shop", "sold", "spring"]


def titles(catalogue):
    """What is found by each tag, with all caches in use."""
    return {tag: " ".join(item.title for item in catalogue.find(tag)) for tag in PLANT_TAGS}


def test_shop_at_the_end_of_the_day():
    catalogue = fresh(PLANTS)
    titles(catalogue)
    for id, tags in [("p1", ["sold"]), ("p3", ["sold", "spring"]), ("p5", ["hedge"]), ("p7", ["blue", "sold", "sun"])]:
        before = catalogue.get(id)
        catalogue.put(Item(id, before.title.upper(), tags))
    assert titles(catalogue) == {
        "autumn": "Dahlias",
        "blue": "Bluebells GENTIANS",
        "hedge": "ELDERS",
        "shade": "Ferns",
        "shop": "Dahlias",
        "sold": "ASTERS CROCUSES GENTIANS",
        "spring": "Bluebells CROCUSES",
    }


def test_import_that_fails_at_its_last_line():
    catalogue = fresh(PLANTS)
    with pytest.raises(Undo), catalogue.transaction():
        for number, tags in enumerate([["blue", "sold"], ["shade", "shop"], ["hedge", "sold"], ["spring"]]):
            catalogue.put(Item(f"new {number}", "Yew Zinnias Ulex Vetch".split()[number], tags))
        catalogue.put(Item("p2", "Bluebells", ["sold"]))
        catalogue.remove("p6")
        titles(catalogue)
        catalogue.overview()
        raise Undo
    catalogue.put(Item("p8", "Heather", ["autumn", "hedge"]))
    assert [titles(catalogue), catalogue.overview()] == [
        {
            "autumn": "Asters Dahlias Heather",
            "blue": "Asters Bluebells Gentians",
            "hedge": "Elders Heather",
            "shade": "Ferns Gentians",
            "shop": "Asters Crocuses Dahlias Elders Gentians",
            "sold": "",
            "spring": "Bluebells Crocuses Elders",
        },
        {"autumn": 3, "blue": 3, "hedge": 2, "shade": 2, "shop": 5, "spring": 3},
    ]


def test_overview_in_the_middle_and_at_the_end():
    catalogue = fresh(PLANTS)
    overviews = []
    with pytest.raises(Undo), catalogue.transaction():
        for item in PLANTS[::2]:
            catalogue.put(Item(item.id, item.title, sorted(item.tags)[1:] + ["sold"]))
        with catalogue.transaction():
            catalogue.remove("p2")
            overviews.append(catalogue.overview())
        raise Undo
    overviews.append(catalogue.overview())
    with catalogue.transaction():
        catalogue.remove("p4")
        with pytest.raises(Undo), catalogue.transaction():
            catalogue.put(Item("p9", "Ivy", ["hedge", "shade", "sold"]))
            catalogue.remove("p1")
            overviews.append(catalogue.overview())
            raise Undo
        overviews.append(catalogue.overview())
    assert overviews[1:] == [
        {"autumn": 2, "blue": 3, "hedge": 1, "shade": 2, "shop": 5, "spring": 3},
        {"blue": 2, "hedge": 2, "shade": 3, "shop": 3, "sold": 1, "spring": 3},
        {"autumn": 1, "blue": 3, "hedge": 1, "shade": 2, "shop": 4, "spring": 3},
    ]


def test_forty_writes_every_third_undone():
    catalogue = Catalogue()
    answers = []
    for number in range(40):
        tags = [tag for place, tag in enumerate(PLANT_TAGS) if (number + 3) ** 2 % 41 >> place & 1]
        try:
            with catalogue.transaction():
                catalogue.put(Item(f"id {number % 9}", f"{number:02}", tags))
                titles(catalogue)
                if number % 3 == 1:
                    raise Undo
        except Undo:
            answers.append(titles(catalogue)["shop"])
    assert (answers, titles(catalogue)) == (
        [
            "",
            "02",
            "02 05",
            "02 05 09",
            "05 09 12",
            "09 12",
            "12 17 18",
            "17 18",
            "17 18 23",
            "23 26",
            "23 26 30",
            "26 30 33",
            "30 33",
        ],
        {
            "autumn": "33 35 39",
            "blue": "",
            "hedge": "32 36",
            "shade": "33 35",
            "shop": "33",
            "sold": "32",
            "spring": "",
        },
    )


def test_pairs_of_tags_after_a_removal_was_undone():
    catalogue = fresh(PLANTS)
    pairs = list(itertools.combinations(PLANT_TAGS[:5], 2))
    with pytest.raises(Undo), catalogue.transaction():
        for id in ("p1", "p5", "p7"):
            catalogue.remove(id)
        catalogue.put(Item("p3", "Crocuses", ["blue", "shade", "hedge", "autumn", "shop"]))
        for pair in pairs:
            catalogue.find(*pair)
        raise Undo
    assert ["+".join(item.id for item in catalogue.find(*pair)) for pair in pairs] == [
        "p1",
        "",
        "",
        "p1+p4",
        "",
        "p7",
        "p1+p7",
        "",
        "p5",
        "p7",
    ]
