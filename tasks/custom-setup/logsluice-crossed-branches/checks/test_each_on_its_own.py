# agentbench-canary: bef95c6a-cd36-4c91-9b69-cb997a716959
"""Branches, records, runs and steps know nothing of each other; and streams stay streams."""

import copy
import itertools
import random

import pytest

from logsluice import ConfigError, build, load

STEPS = {
    "redacting": [{"redact": ["user.email", "user.home.street"]}],
    "renaming": [{"rename": {"user.email": "contact.mail", "user.home.city": "city"}}],
    "setting": [{"set": {"user.home.city": "hidden", "http.status": 500}}],
    "appending": [{"append": {"tags": "seen", "user.roles": "guest"}}],
    "choosing": [{"keep": {"user.home.city": "Oslo"}}, {"head": 3}],
    "plain": [],
    "all of it": [
        {"append": {"user.roles": "one"}, "when": {"level": ["error", "info"]}},
        {"rename": {"user.roles": "roles"}},
        {"append": {"roles": "two"}},
        {"redact": ["user"], "when": {"level": "error"}},
    ],
}


def branches(*names):
    """Branches of their own for each test, in case that a pipeline changes its document."""
    return copy.deepcopy({name: STEPS[name] for name in names or STEPS})


def records():
    cities = ["Oslo", "Lima", "Oslo", "Kobe", "Oslo", "Oslo"]
    return [
        {
            "number": number,
            "level": ["info", "error", "debug"][number % 3],
            "user": {"email": f"{number}@example.org", "home": {"city": city, "street": "Main"}, "roles": ["user"]},
            "tags": ["web"],
        }
        for number, city in enumerate(cities)
    ]


def alone(name, steps=()):
    """What a branch gives when it is the only one."""
    return list(build({"steps": list(steps), "branches": branches(name)}).run(records())[name])


def by_turns(results, choose):
    """Read all branches, some records of one and some of another."""
    found = {name: [] for name in results}
    open_ones = sorted(results)
    while open_ones:
        name = choose.choice(open_ones)
        for _ in range(choose.randint(1, 3)):
            record = next(results[name], None)
            if record is None:
                open_ones.remove(name)
                break
            found[name].append(record)
    return found


@pytest.mark.parametrize("order", [*itertools.permutations(sorted(STEPS), 2)], ids=" then ".join)
def test_two_branches_one_after_the_other(order):
    results = build({"branches": branches()}).run(records())
    for name in order:
        assert list(results[name]) == alone(name)


@pytest.mark.parametrize("seed", range(10))
def test_branches_by_turns(seed):
    common = [{"set": {"user.home.country": "?"}}, {"append": {"tags": "common"}}]
    results = build({"steps": common, "branches": branches()}).run(records())
    assert by_turns(results, random.Random(seed)) == {name: alone(name, common) for name in STEPS}


@pytest.mark.parametrize("name", STEPS)
def test_what_was_handed_in(name):
    given = records()
    for document in ({"branches": branches(name)}, {"steps": branches(name)[name], "branches": {"all": []}}):
        for result in build(document).run(given).values():
            list(result)
    assert given == records()


def test_values_of_the_configuration():
    document = {
        "steps": [{"set": {"tags": ["log"], "http": {"method": "GET"}}}],
        "branches": {
            "one": [{"append": {"tags": "one"}}, {"set": {"http.status": 200}, "when": {"number": 0}}],
            "other": [{"rename": {"http.method": "verb"}}],
        },
    }
    before = copy.deepcopy(document)
    pipeline = build(document)
    for _ in range(2):
        results = pipeline.run([{"number": 0}, {"number": 1}])
        assert list(results["one"]) == [
            {"number": 0, "tags": ["log", "one"], "http": {"method": "GET", "status": 200}},
            {"number": 1, "tags": ["log", "one"], "http": {"method": "GET"}},
        ]
        assert list(results["other"]) == [
            {"number": number, "tags": ["log"], "http": {}, "verb": "GET"} for number in range(2)
        ]
    assert document == before


def test_values_set_within_a_branch():
    steps = [{"set": {"tags": []}}, {"append": {"tags": "a"}}, {"append": {"tags": "b"}, "when": {"number": 1}}]
    results = build({"branches": {"all": steps}}).run({"number": number} for number in range(3))
    assert [record["tags"] for record in results["all"]] == [["a"], ["a", "b"], ["a"]]


ANCHORS = """
any key: &mine {level: error}
shared:
  - &mark {set: {marked: true}, when: *mine}
  - &scrub
    redact: [user.email]
    when: {level: [error, info]}
lists:
  support: &support
    - *scrub
    - {append: {tags: support}, when: *mine}
steps:
  - *mark
branches:
  first: *support
  second: *support
  third: [*mark, {keep: {level: debug}}, *mark]
  fourth: [*scrub, {rename: {user.email: mail}}, {redact: [mail], when: {level: debug}}, *scrub]
"""


def test_written_once_and_used_often():
    results = load(ANCHORS).run(records())
    expected = records()
    for record in expected:
        if record["level"] == "error":
            record["marked"] = True
    debug = [copy.deepcopy(record) for record in expected if record["level"] == "debug"]
    for record in expected:
        if record["level"] != "debug":
            record["user"]["email"] = "***"
        if record["level"] == "error":
            record["tags"].append("support")
    assert list(results["second"]) == expected
    assert list(results["first"]) == expected
    assert list(results["third"]) == debug
    assert [record["mail"] for record in results["fourth"]] == ["***"] * 6
    assert [record["level"] for record in debug] == ["debug", "debug"]


def test_one_step_in_many_places():
    step = {"append": {"tags": "x"}, "when": {"number": [1, 2]}}
    document = {"steps": [step, step], "branches": {"one": [step], "other": [step, step]}}
    before = copy.deepcopy(document)
    for _ in range(2):  # the document can be used again
        results = build(document).run({"number": number, "tags": []} for number in range(3))
        assert [len(record["tags"]) for record in results["other"]] == [0, 4, 4]
        assert [len(record["tags"]) for record in results["one"]] == [0, 3, 3]
        assert document == before


def test_runs_at_once():
    pipeline = build({"branches": {"all": [{"unique": "user.home.city"}, {"append": {"tags": "x"}}, {"head": 3}]}})
    first, second = (pipeline.run(records())["all"] for _ in range(2))
    pairs = list(zip(first, second, strict=True))
    assert [one["number"] for one, _ in pairs] == [0, 1, 3]
    assert all(one == other and one["tags"] == ["web", "x"] for one, other in pairs)
    assert [record["number"] for record in pipeline.run(records())["all"]] == [0, 1, 3]


def test_reads_only_what_is_needed():
    taken = []

    def endless():
        for number in itertools.count():
            assert number < 1000, "who reads so far never ends"
            taken.append(number)
            yield {"number": number, "level": ["info", "error"][number % 2], "user": {"email": "a@example.org"}}

    pipeline = build(
        {
            "steps": [{"set": {"seen": True}}],
            "branches": {
                "errors": [{"keep": {"level": "error"}}, {"redact": ["user.email"], "when": {"number": 3}}],
                "few": [{"head": 2}],
                "all": [],
            },
        }
    )
    results = pipeline.run(endless())
    assert taken == []
    assert next(results["errors"])["number"] == 1
    assert taken == [0, 1]
    assert next(results["errors"])["user"] == {"email": "***"}
    assert taken == [0, 1, 2, 3]
    assert [record["number"] for record in results["few"]] == [0, 1]
    assert [record["user"]["email"] for record in itertools.islice(results["all"], 4)] == ["a@example.org"] * 4
    assert taken == [0, 1, 2, 3]
    assert next(results["all"])["number"] == 4


def test_others_pass_by_in_their_place():
    results = load("branches: {all: [{drop: {level: info}, when: {user.home.city: Oslo}}]}").run(records())
    assert [record["number"] for record in results["all"]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", ["head", "unique"])
def test_still_refused(name):
    step = {name: {"head": 2, "unique": "number"}[name], "when": {"level": "info"}}
    for _ in range(2):
        with pytest.raises(ConfigError):
            build({"branches": {"one": [step], "other": [step]}})
    with pytest.raises(ConfigError):
        build({"branches": {"one": [{"when": {"level": "info"}}]}})
    with pytest.raises(ConfigError):
        build({"branches": {"one": [{"when": "info", "head": 2}]}})


DESKS = """
private: &private {redact: [user.email, card], when: {level: [info, debug]}}
counted: &counted
  - &one {append: {tags: one}, when: {shop: [north, east]}}
  - *private
  - *one
  - {set: {user.seen: []}}
  - {append: {user.seen: desk}, when: {level: error}}
steps:
  - *private
  - {rename: {place.shop: shop}}
branches:
  front: *counted
  back: [*one, {set: {card: gone}, when: {shop: east}}, {rename: {user.email: mail}}, *private]
  cellar: *counted
  all: []
"""


def sales():
    return [
        {
            "number": number,
            "level": ["error", "info", "warning", "debug"][number * 3 % 4],
            "place": {"shop": ["north", "south", "east"][number % 3], "till": number % 2},
            "user": {"email": f"{'abcdefg'[number]}@shop"},
            "card": 1000 + 37 * number,
            "tags": [],
        }
        for number in range(7)
    ]


def summary(record):
    user, tags = record["user"], len(record["tags"])
    return f"{record['number']} {user.get('email')} {record.get('mail')} {record['card']} {tags} {user.get('seen')}"


def test_desks_one_after_the_other():
    results = load(DESKS).run(sales())
    found = {name: [summary(record) for record in results[name]] for name in ("cellar", "all", "back", "front")}
    assert found == {
        "cellar": [
            "0 a@shop None 1000 2 ['desk']",
            "1 *** None *** 0 []",
            "2 c@shop None 1074 2 []",
            "3 *** None *** 2 []",
            "4 e@shop None 1148 0 ['desk']",
            "5 *** None *** 2 []",
            "6 g@shop None 1222 2 []",
        ],
        "all": [
            "0 a@shop None 1000 0 None",
            "1 *** None *** 0 None",
            "2 c@shop None 1074 0 None",
            "3 *** None *** 0 None",
            "4 e@shop None 1148 0 None",
            "5 *** None *** 0 None",
            "6 g@shop None 1222 0 None",
        ],
        "back": [
            "0 None a@shop 1000 1 None",
            "1 None *** *** 0 None",
            "2 None c@shop gone 1 None",
            "3 None *** *** 1 None",
            "4 None e@shop 1148 0 None",
            "5 None *** *** 1 None",
            "6 None g@shop 1222 1 None",
        ],
        "front": [
            "0 a@shop None 1000 2 ['desk']",
            "1 *** None *** 0 []",
            "2 c@shop None 1074 2 []",
            "3 *** None *** 2 []",
            "4 e@shop None 1148 0 ['desk']",
            "5 *** None *** 2 []",
            "6 g@shop None 1222 2 []",
        ],
    }


def test_desks_by_turns():
    results = load(DESKS).run(sales())
    found = [summary(next(results[name])) for _ in range(4) for name in ("back", "front", "all")]
    assert found == [
        "0 None a@shop 1000 1 None",
        "0 a@shop None 1000 2 ['desk']",
        "0 a@shop None 1000 0 None",
        "1 None *** *** 0 None",
        "1 *** None *** 0 []",
        "1 *** None *** 0 None",
        "2 None c@shop gone 1 None",
        "2 c@shop None 1074 2 []",
        "2 c@shop None 1074 0 None",
        "3 None *** *** 1 None",
        "3 *** None *** 2 []",
        "3 *** None *** 0 None",
    ]


def test_the_same_record_three_times():
    record = {"number": 1, "tags": ["a"], "deep": {"list": [], "more": {"text": "x"}}}
    steps = [
        {"append": {"tags": "b", "deep.list": 1}},
        {"set": {"deep.more.text": ["y"]}, "when": {"deep.more.text": "x"}},
        {"append": {"deep.more.text": "z"}},
        {"rename": {"deep.more": "less"}},
    ]
    results = build({"steps": steps[:1], "branches": {"short": steps[:2], "long": steps}}).run([record] * 3)
    longs, shorts = list(results["long"]), list(results["short"])
    assert [longs, shorts, record] == [
        [
            {"number": 1, "tags": ["a", "b", "b"], "deep": {"list": [1, 1]}, "less": {"text": ["y", "z"]}},
            {"number": 1, "tags": ["a", "b", "b"], "deep": {"list": [1, 1]}, "less": {"text": ["y", "z"]}},
            {"number": 1, "tags": ["a", "b", "b"], "deep": {"list": [1, 1]}, "less": {"text": ["y", "z"]}},
        ],
        [
            {"number": 1, "tags": ["a", "b", "b"], "deep": {"list": [1, 1], "more": {"text": ["y"]}}},
            {"number": 1, "tags": ["a", "b", "b"], "deep": {"list": [1, 1], "more": {"text": ["y"]}}},
            {"number": 1, "tags": ["a", "b", "b"], "deep": {"list": [1, 1], "more": {"text": ["y"]}}},
        ],
        {"number": 1, "tags": ["a"], "deep": {"list": [], "more": {"text": "x"}}},
    ]


def test_lists_that_are_set_and_grow():
    words = {"set": {"words": ["start"], "note": {"by": []}}}
    grow = {"append": {"words": "more", "note.by": "me"}, "when": {"number": [1, 2, 4]}}
    pipeline = build(
        {"steps": [words], "branches": {"a": [grow, grow], "b": [grow, words, grow], "c": [grow, grow, grow]}}
    )
    runs = [pipeline.run({"number": number} for number in range(5)) for _ in range(2)]
    found = [
        " ".join(f"{len(each['words'])}{len(each['note']['by'])}" for each in run[name])
        for run in runs
        for name in "cab"
    ]
    assert found == [
        "10 43 43 10 43",
        "10 32 32 10 32",
        "10 21 21 10 21",
        "10 43 43 10 43",
        "10 32 32 10 32",
        "10 21 21 10 21",
    ]


def test_cities_in_every_branch():
    results = build({"steps": [{"append": {"tags": "in"}}], "branches": branches()}).run(records())
    cities = {
        name: [f"{get_in(record, 'user', 'home', 'city')}{len(record['tags'])}" for record in results[name]]
        for name in ("setting", "renaming", "appending", "redacting", "choosing", "all of it", "plain")
    }
    assert cities == {
        "setting": ["hidden2", "hidden2", "hidden2", "hidden2", "hidden2", "hidden2"],
        "renaming": ["None2", "None2", "None2", "None2", "None2", "None2"],
        "appending": ["Oslo3", "Lima3", "Oslo3", "Kobe3", "Oslo3", "Oslo3"],
        "redacting": ["Oslo2", "Lima2", "Oslo2", "Kobe2", "Oslo2", "Oslo2"],
        "choosing": ["Oslo2", "Oslo2", "Oslo2"],
        "all of it": ["Oslo2", "***2", "Oslo2", "Kobe2", "***2", "Oslo2"],
        "plain": ["Oslo2", "Lima2", "Oslo2", "Kobe2", "Oslo2", "Oslo2"],
    }


def get_in(record, *names):
    for name in names:
        record = record.get(name) if isinstance(record, dict) else record
    return record
