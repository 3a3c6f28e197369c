import pytest

from pressroom import Engine, MemorySource


class CountingSource(MemorySource):
    """Remembers which templates were read."""

    def __init__(self, templates) -> None:
        super().__init__(templates)
        self.was_read: list[str] = []

    def read(self, name: str) -> str:
        self.was_read.append(name)
        return super().read(name)


@pytest.fixture
def source() -> CountingSource:
    return CountingSource(
        {
            "home": '{% include "layout" %} home',
            "news": '{% include "layout" %} news',
            "layout": '<{% include "menu" %}>',
            "menu": "menu 1",
        }
    )


def test_what_did_not_change_is_not_read_again(source: CountingSource) -> None:
    engine = Engine(source)
    assert engine.render("home") == engine.render("home") == "<menu 1> home"
    assert source.was_read == ["home", "layout", "menu"]
    assert (engine.cache.statistics.hits, engine.cache.statistics.misses) == (1, 3)


def test_a_change_is_seen_at_any_depth(source: CountingSource) -> None:
    engine = Engine(source)
    engine.render("home")
    source["menu"] = "menu 2"
    assert engine.render("home") == "<menu 2> home"
    source["home"] = "alone"
    assert engine.render("home") == "alone"


def test_pages_share_what_they_include(source: CountingSource) -> None:
    engine = Engine(source)
    engine.render("home")
    assert engine.render("news") == "<menu 1> news"
    assert source.was_read == ["home", "layout", "menu", "news"]


def test_a_change_is_seen_by_all_pages(source: CountingSource) -> None:
    engine = Engine(source)
    engine.render("home")
    engine.render("news")
    source["menu"] = "menu 2"
    assert engine.render("home") == "<menu 2> home"
    assert engine.render("news") == "<menu 2> news"


def test_variables_are_kept_apart() -> None:
    engine = Engine(MemorySource({"page": "{{ a | 0 }}{{ b | 0 }}"}))
    pages = [engine.render("page", values) for values in ({}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"a": 1})]
    assert pages == ["00", "10", "01", "11", "10"]
    assert engine.cache.statistics.hits == 1


def test_least_recently_used_texts_are_dropped() -> None:
    source = CountingSource({"a": "a", "b": "b", "c": "c"})
    engine = Engine(source, cache_size=2)
    for name in "abaca":
        engine.render(name)
    assert len(engine.cache) == 2
    assert engine.cache.statistics.hits == 2


def test_failures_are_not_kept() -> None:
    source = MemorySource({"page": '{% include "part" %}', "part": "{{ a }}"})
    engine = Engine(source)
    with pytest.raises(Exception, match="no value"):
        engine.render("page")
    source["part"] = "fine"
    assert engine.render("page") == "fine"
