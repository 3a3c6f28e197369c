# agentbench-canary: 5f145ad2-56cf-4208-9afa-87b4c703306b
"""The cache never changes what render returns, and still does its work."""

import itertools

import pytest

from pressroom import DirectorySource, Engine, IncludeCycle, MemorySource, TemplateNotFound


class Counting(MemorySource):
    def __init__(self, templates):
        super().__init__(templates)
        self.was_read = []

    def read(self, name):
        self.was_read.append(name)
        return super().read(name)


def site():
    return Counting(
        {
            "home": '{% include "layout" %} home',
            "news": '{% include "layout" %} news {% include "extra" optional %}',
            "about": '{% include "menu" %} about',
            "layout": '<{% include "menu" %}{% include "banner" optional %}>',
            "menu": '[{% include "link" %}]',
            "link": "1",
        }
    )


PAGES = ("home", "news", "about", "layout", "menu")


def assert_all_right(engine, source, pages=PAGES, values=None):
    for page in pages:
        assert engine.render(page, values) == Engine(MemorySource(source)).render(page, values)


@pytest.mark.parametrize("order", list(itertools.permutations(PAGES, 3)), ids="-".join)
@pytest.mark.parametrize("changed", ["link", "menu", "layout"])
def test_change_seen_whatever_was_rendered_first(order, changed):
    source = site()
    engine = Engine(source)
    for page in order:
        engine.render(page)
    source[changed] = "changed" + source[changed]
    assert_all_right(engine, source, reversed(order))
    source[changed] = "again" + source[changed]
    assert_all_right(engine, source, order)


def test_change_of_what_was_taken_from_the_cache_twice():
    source = Counting(
        {"page": '{% include "a" %}{% include "b" %}{% include "a" %}', "a": "a", "b": '{% include "a" %}'}
    )
    engine = Engine(source)
    assert engine.render("page") == "aaa"
    source["a"] = "x"
    assert engine.render("page") == "xxx"
    source["b"] = "b"
    assert engine.render("page") == "xbx"


@pytest.mark.parametrize("optional", ["banner", "extra"])
def test_optional_template_comes_and_goes(optional):
    source = site()
    engine = Engine(source)
    assert_all_right(engine, source)
    for text in ("new!", "newer!", '{% include "link" %}'):
        source[optional] = text
        assert_all_right(engine, source)
    source["link"] = "2"
    assert_all_right(engine, source)
    del source[optional]
    assert_all_right(engine, source)
    source[optional] = "back"
    assert_all_right(engine, source)


def test_optional_template_in_an_optional_template():
    source = Counting({"page": '{% include "a" optional %}.', "a": '{% include "b" optional %}'})
    engine = Engine(source)
    assert engine.render("page") == "."
    source["b"] = "b"
    assert engine.render("page") == "b."
    del source["a"]
    assert engine.render("page") == "."
    source["a"] = '{% include "b" optional %}!'
    assert engine.render("page") == "b!."


def test_required_template_goes_away():
    source = site()
    engine = Engine(source)
    for page in PAGES:
        engine.render(page)
    del source["link"]
    for page in PAGES:
        with pytest.raises(TemplateNotFound, match="'link'"):
            engine.render(page)
    source["link"] = "3"
    assert_all_right(engine, source)


def test_cycle_that_comes_into_being():
    source = site()
    engine = Engine(source)
    for page in PAGES:
        engine.render(page)
    source["link"] = '{% include "layout" %}'
    for page in PAGES:
        with pytest.raises(IncludeCycle):
            engine.render(page)


def test_cycle_through_an_optional_template():
    source = site()
    engine = Engine(source)
    for page in PAGES:
        engine.render(page)
    source["banner"] = '{% include "home" %}'
    for page in ("home", "news", "layout"):
        with pytest.raises(IncludeCycle):
            engine.render(page)
    assert engine.render("about") == "[1] about"


def test_after_a_failure():
    source = Counting(
        {"page": '{% include "a" %}{% include "b" %}', "a": '{% include "c" %}', "b": "{{ x }}", "c": "c"}
    )
    engine = Engine(source)
    with pytest.raises(Exception, match="no value"):
        engine.render("page")
    source["b"] = "b"
    assert engine.render("page") == "cb"
    source["c"] = "d"
    assert engine.render("page") == "db"


def test_variables_at_depth():
    source = Counting(
        {"page": '{% include "a" %}', "other": '{% include "a" %}', "a": '{% include "b" %}', "b": "{{ x }}"}
    )
    engine = Engine(source)
    for values in ({"x": 1}, {"x": 2}, {"x": 1}):
        assert_all_right(engine, source, ("page", "other"), values)
    source["b"] = "<{{ x }}>"
    for values in ({"x": 1}, {"x": 2}):
        assert_all_right(engine, source, ("page", "other"), values)


def test_files(tmp_path):
    def write(name, text):
        (tmp_path / f"{name}.tmpl").write_text(text, encoding="utf-8")

    write("one", '{% include "part" %}1')
    write("two", '{% include "part" %}2{% include "foot" optional %}')
    write("part", "a")
    engine = Engine(DirectorySource(tmp_path))
    assert [engine.render("one"), engine.render("two")] == ["a1", "a2"]
    write("part", "b")
    write("foot", "!")
    assert [engine.render("one"), engine.render("two")] == ["b1", "b2!"]


def test_nothing_is_read_while_nothing_changes():
    source = site()
    engine = Engine(source)
    for page in PAGES:
        engine.render(page)
    source.was_read.clear()
    before = engine.cache.statistics.hits, engine.cache.statistics.misses
    for page in PAGES:
        engine.render(page)
    assert source.was_read == []
    assert engine.cache.statistics.hits == before[0] + len(PAGES)
    assert engine.cache.statistics.misses == before[1]


def test_pages_share_what_they_include():
    source = Counting({"one": '{% include "part" %}1', "two": '{% include "part" %}2', "part": "part"})
    engine = Engine(source)
    engine.render("one")
    assert (engine.cache.statistics.hits, engine.cache.statistics.misses) == (0, 2)
    engine.render("two")
    assert (engine.cache.statistics.hits, engine.cache.statistics.misses) == (1, 3)


def test_what_is_included_often_is_rendered_once():
    class Asked(MemorySource):
        count = 0

        def fingerprint(self, name):
            self.count += 1
            return super().fingerprint(name)

    depth = 14
    source = Asked({f"t{level}": f'{{% include "t{level + 1}" %}}' * 2 for level in range(depth)})
    source[f"t{depth}"] = "x"
    engine = Engine(source)
    assert engine.render("t0") == "x" * 2**depth
    assert source.count < 2000
    source[f"t{depth}"] = "y"
    assert engine.render("t0") == "y" * 2**depth
    assert source.count < 4000


def test_only_what_is_concerned_is_rendered_anew():
    source = site()
    engine = Engine(source)
    for page in PAGES:
        engine.render(page)
    source["extra"] = "new"
    source.was_read.clear()
    before = engine.cache.statistics.misses
    assert engine.render("home") == "<[1]> home"
    assert engine.render("about") == "[1] about"
    assert engine.cache.statistics.misses == before
    assert engine.render("news") == "<[1]> news new"
    assert source.was_read == ["extra"]


def shop():
    return Counting(
        {
            "start": '{% include "frame" %}: {% include "offers" %}',
            "cart": '{% include "frame" %}: {{ who | nobody }} {% include "sum" %}{% include "gift" optional %}',
            "help": '{% include "foot" %} {% include "frame" %}',
            "frame": '{{ who | guest }}/{% include "bar" %}/{% include "alert" optional %}',
            "offers": 'tea {% include "price" %} {% include "season" optional %}',
            "sum": '{% include "price" %}+{% include "price" %}',
            "bar": '({% include "foot" %})',
            "foot": "f1",
            "price": "3",
        }
    )


def test_prices_and_feet():
    source = shop()
    engine = Engine(source)
    texts = []
    for name, text in [("price", "4"), ("foot", "f2"), ("alert", 'now: {% include "price" %}'), ("price", "5.50")]:
        for page in ("help", "cart", "start", "frame"):
            engine.render(page, {"who": "Ada"})
        source[name] = text
        texts += [engine.render("start", {"who": "Ada"}), engine.render("cart", {"who": "Ada"})]
    assert texts == [
        "Ada/(f1)/: tea 4 ",
        "Ada/(f1)/: Ada 4+4",
        "Ada/(f2)/: tea 4 ",
        "Ada/(f2)/: Ada 4+4",
        "Ada/(f2)/now: 4: tea 4 ",
        "Ada/(f2)/now: 4: Ada 4+4",
        "Ada/(f2)/now: 5.50: tea 5.50 ",
        "Ada/(f2)/now: 5.50: Ada 5.50+5.50",
    ]


def test_a_year_of_seasons():
    source = shop()
    engine = Engine(source)
    seasons = []
    for season in ("", "spring", 'summer at {% include "price" %}', None, "autumn", None, "{{ who | winter }}"):
        if season is None:
            del source["season"]
        elif season:
            source["season"] = season
        source["price"] += "0"
        seasons.append((engine.render("offers"), engine.render("start")))
    assert seasons == [
        ("tea 30 ", "guest/(f1)/: tea 30 "),
        ("tea 300 spring", "guest/(f1)/: tea 300 spring"),
        ("tea 3000 summer at 3000", "guest/(f1)/: tea 3000 summer at 3000"),
        ("tea 30000 ", "guest/(f1)/: tea 30000 "),
        ("tea 300000 autumn", "guest/(f1)/: tea 300000 autumn"),
        ("tea 3000000 ", "guest/(f1)/: tea 3000000 "),
        ("tea 30000000 winter", "guest/(f1)/: tea 30000000 winter"),
    ]


def test_which_templates_are_read_and_when():
    source = shop()
    engine = Engine(source)
    pages = ("cart", "help", "start")
    read = []
    for changed in (None, "foot", "gift", "price", "alert", "help"):
        if changed:
            source[changed] = source.get(changed, "") + "+"
        source.was_read.clear()
        texts = [engine.render(page) for page in pages]
        read.append(" ".join([*sorted(set(source.was_read)), "->", *texts]))
    assert read[1:] == [
        "foot -> guest/(f1+)/: nobody 3+3 f1+ guest/(f1+)/ guest/(f1+)/: tea 3 ",
        "gift -> guest/(f1+)/: nobody 3+3+ f1+ guest/(f1+)/ guest/(f1+)/: tea 3 ",
        "price -> guest/(f1+)/: nobody 3++3++ f1+ guest/(f1+)/ guest/(f1+)/: tea 3+ ",
        "alert -> guest/(f1+)/+: nobody 3++3++ f1+ guest/(f1+)/+ guest/(f1+)/+: tea 3+ ",
        "help -> guest/(f1+)/+: nobody 3++3++ f1+ guest/(f1+)/++ guest/(f1+)/+: tea 3+ ",
    ]


def test_visitors_and_a_new_frame():
    source = shop()
    engine = Engine(source)
    visitors = [{}, {"who": "Bo & Co"}, {"who": 7}]
    before = [engine.render(page, visitor) for page in ("help", "start", "cart") for visitor in visitors]
    source["bar"] = '{{ who | - }}{% include "foot" %}'
    source["gift"] = '<{% include "foot" %}>'
    after = [engine.render(page, visitor) for page in ("cart", "help", "start") for visitor in visitors]
    assert [len("".join(before)), *after] == [
        174,
        "guest/-f1/: nobody 3+3<f1>",
        "Bo &amp; Co/Bo &amp; Cof1/: Bo &amp; Co 3+3<f1>",
        "7/7f1/: 7 3+3<f1>",
        "f1 guest/-f1/",
        "f1 Bo &amp; Co/Bo &amp; Cof1/",
        "f1 7/7f1/",
        "guest/-f1/: tea 3 ",
        "Bo &amp; Co/Bo &amp; Cof1/: tea 3 ",
        "7/7f1/: tea 3 ",
    ]


def test_files_that_come_and_go(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.tmpl").write_text(text, encoding="utf-8")

    write(a='{% include "c" %}a{% include "d" optional %}', b='{% include "c" %}b{% include "a" %}')
    write(c='{% include "e" optional %}c', f='{% include "b" %}f')
    engine = Engine(DirectorySource(tmp_path))
    seen = []
    for texts in ({}, {"d": "D"}, {"e": 'E{% include "d" %}'}, {"d": "dd"}, {"c": "C"}, {"e": "never"}):
        write(**texts)
        seen.append("|".join(engine.render(name) for name in "fab"))
    assert seen == [
        "cbcaf|ca|cbca",
        "cbcaDf|caD|cbcaD",
        "EDcbEDcaDf|EDcaD|EDcbEDcaD",
        "EddcbEddcaddf|Eddcadd|EddcbEddcadd",
        "CbCaddf|Cadd|CbCadd",
        "CbCaddf|Cadd|CbCadd",
    ]
