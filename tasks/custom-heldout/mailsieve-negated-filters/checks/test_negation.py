# agentbench-canary: 58f9ec50-dd30-4dd6-88f9-5fce6d5ac281
"""What `not` applies to: when it is read, when it is written, and when both follow each other."""

import itertools

import pytest

from mailsieve import Query, QueryError, SavedSearches

NAMES = "abcd"
MESSAGES = [
    {"tag": [name for name, on in zip(NAMES, bits) if on]} for bits in itertools.product([False, True], repeat=4)
]


def term(name):
    return Query.parse(f"tag:{name}")


def matched(query):
    return [query.matches(message) for message in MESSAGES]


def by_rule(rule):
    """What a Python expression over a, b, c and d says about each message."""
    return [eval(rule, {}, {name: name in message["tag"] for name in NAMES}) for message in MESSAGES]


def tagged(text):
    return " ".join(
        word if word in ("and", "or", "not") else "".join(f"tag:{char}" if char in NAMES else char for char in word)
        for word in text.split()
    )


def test_messages_without_one_and_with_another():
    assert matched(Query.parse(tagged("not a b"))).count(True) == 4


def test_messages_without_one_and_with_two_others():
    assert matched(Query.parse(tagged("not a b c"))).count(True) == 2


def test_messages_without_two():
    assert matched(Query.parse(tagged("not a not b c or d"))).count(True) == 9


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("not a and b", "(not a) and b"),
        ("not a b", "(not a) and b"),
        ("not a b c", "(not a) and b and c"),
        ("a not b c", "a and (not b) and c"),
        ("a and not b and c", "a and (not b) and c"),
        ("a and not b c or d", "(a and (not b) and c) or d"),
        ("not a or b", "(not a) or b"),
        ("not a and b or c", "((not a) and b) or c"),
        ("a or not b and c", "a or ((not b) and c)"),
        ("a or not b c or d", "a or ((not b) and c) or d"),
        ("not a not b", "(not a) and (not b)"),
        ("not a and not b and c", "(not a) and (not b) and c"),
        ("not a -b", "(not a) and (not b)"),
        ("-a not b c", "(not a) and (not b) and c"),
        ("-a b or -c d", "((not a) and b) or ((not c) and d)"),
        ("not not a b", "a and b"),
        ("not not not a b", "(not a) and b"),
        ("not -a b", "a and b"),
        ("not (a b) c", "(not (a and b)) and c"),
        ("not (a or b) c", "(not (a or b)) and c"),
        ("-(a b) c", "(not (a and b)) and c"),
        ("(not a) b", "(not a) and b"),
        ("not (not a b) c", "(not ((not a) and b)) and c"),
        ("not (a) (b or c)", "(not a) and (b or c)"),
    ],
)
def test_read(text, rule):
    assert matched(Query.parse(tagged(text))) == by_rule(rule)
    assert matched(Query.parse(tagged(f"({text})"))) == by_rule(rule)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("-a b", "not a and b"),
        ("a -b", "a and not b"),
        ("-a -b", "not a and not b"),
        ("-(a b)", "not (a and b)"),
        ("-(a or b)", "not (a or b)"),
        ("not (a b) c", "not (a and b) and c"),
        ("(-a) or b", "not a or b"),
        ("-(a b) or c", "not (a and b) or c"),
        ("-(a -(b c))", "not (a and not (b and c))"),
    ],
)
def test_written(text, written):
    assert str(Query.parse(tagged(text))) == tagged(written)


def queries(depth):
    """Every query of this depth, over operators of the class."""
    if depth == 0:
        return [term(name) for name in "abc"]
    below = queries(depth - 1)
    few = below if len(below) < 40 else below[::11]
    pairs = list(itertools.product(few, few))
    return [*below, *(~one for one in below), *(a & b for a, b in pairs), *(a | b for a, b in pairs)]


EVERY = queries(2)


def test_whatever_is_written_is_read_back():
    assert len(EVERY) > 1000
    for query in EVERY[::2]:
        assert matched(Query.parse(str(query))) == matched(query), str(query)


def test_three_deep():
    for one, other in zip(EVERY[::29], reversed(EVERY[::29])):
        for query in (~(one & other), ~one & other, one | ~(other & ~one), ~~one & ~other, ~(~one | other) & one):
            assert matched(Query.parse(str(query))) == matched(query), str(query)


def test_no_more_parentheses_than_needed():
    """Without any pair of them, the expression is another one."""
    for query in EVERY[::3]:
        text = str(query)
        for start, end in parentheses(text):
            without = text[:start] + text[start + 1 : end] + text[end + 1 :]
            assert grouping(without) != grouping(text), text


def parentheses(text):
    opened = []
    for index, char in enumerate(text):
        if char == "(":
            opened.append(index)
        elif char == ")":
            yield opened.pop(), index


def grouping(text):
    """The expression as nested lists, from the table in the README."""
    words = text.replace("(", " ( ").replace(")", " ) ").split()

    def either():
        parts = [both()]
        while words[:1] == ["or"]:
            words.pop(0)
            parts.append(both())
        return flat("or", parts)

    def both():
        parts = [negated()]
        while words[:1] == ["and"]:
            words.pop(0)
            parts.append(negated())
        return flat("and", parts)

    def negated():
        word = words.pop(0)
        if word == "not":
            return ["not", negated()]
        if word == "(":
            inner = either()
            assert words.pop(0) == ")"
            return inner
        return word

    def flat(kind, parts):
        found = []
        for part in parts:
            found += part[1:] if isinstance(part, list) and part[0] == kind else [part]
        return [kind, *found] if len(parts) > 1 else parts[0]

    return either()


def test_combined_and_read_are_the_same():
    a, b, c = map(term, "abc")
    assert matched(~a & b) == matched(Query.parse(tagged("not a b")))
    assert matched(~(a & b) | c) == matched(Query.parse(tagged("not (a b) or c")))
    assert str(~(a & b) & c) == tagged("not (a and b) and c")
    assert str(~a & (b | ~c)) == tagged("not a and (b or not c)")


def test_saved_searches_keep_their_meaning():
    searches = SavedSearches({f"search {number}": query for number, query in enumerate(EVERY[::5])})
    text = searches.dumps()
    again = SavedSearches.loads(text)
    assert again.dumps() == text
    for name, query in searches.items():
        assert matched(again[name]) == matched(query)


@pytest.mark.parametrize("text", ["not", "not and a", "a not", "not or", "not )", "a and", "not a and or b", "--a"])
def test_what_is_no_expression(text):
    with pytest.raises(QueryError):
        Query.parse(text)


def test_quoted_words_are_no_operators():
    query = Query.parse('"not" -"and" b')
    assert query.matches({"text": "not b"})
    assert not query.matches({"text": "not b and c"})
    assert str(query) == '"not" and not "and" and b'


MAIL = [
    {"id": 11, "from": "ada", "subject": "Engine plans", "tag": ["work", "urgent"], "size": 120},
    {"id": 12, "from": "ada", "subject": "Lunch?", "tag": [], "size": 2.5},
    {"id": 13, "from": "grace", "subject": "Re: engine plans", "tag": ["work"], "size": 40},
    {"id": 14, "from": "mallory", "subject": "WIN a lunch", "tag": ["spam"], "size": 7},
    {"id": 15, "from": "ada", "subject": "Notes", "tag": ["home", "done"], "size": 900},
    {"id": 16, "from": "grace", "subject": "Compiler and lunch", "tag": ["urgent"], "size": 64},
    {"id": 17, "from": "alan", "subject": "Engine, again", "tag": ["work", "done"], "size": 81},
    {"id": 18, "from": "mallory", "subject": "urgent: plans", "tag": ["spam", "urgent"], "size": 300},
]


def test_what_is_found_in_the_mail():
    expressions = [
        "not tag:work from:ada",
        "not tag:spam not tag:work size>60",
        "lunch not from:ada",
        "not lunch tag:urgent or from:alan",
        "not (tag:done or tag:spam) plans",
        "from:ada or not tag:urgent not tag:done",
        "not size<50 not tag:work or not not lunch not tag:urgent",
        "not from:grace and not from:ada and size<100",
    ]
    assert [[message["id"] for message in Query.parse(text).select(MAIL)] for text in expressions] == [
        [12, 15],
        [15, 16],
        [14, 16],
        [11, 17, 18],
        [11, 13],
        [11, 12, 13, 14, 15],
        [12, 14, 15, 16, 18],
        [14, 17],
    ]


def test_saved_file_is_written():
    text = """
    later = not tag:work (lunch or size>100) -from:mallory
    all = not (not tag:done engine) or (not tag:work -tag:spam)
    best = (plans or engine) (not tag:spam) -(from:ada tag:urgent)
    calm= -(tag:urgent or tag:spam) (((size<100)))
    dull = (not lunch) (not (plans not engine))
    even = (not "not") or (from:alan -"and more")
    far = -(-tag:home lunch) not (tag:done) (from:ada or (from:grace -lunch))
    """
    searches = SavedSearches.loads("\n".join(line.strip() for line in text.splitlines()))
    assert searches.dumps().splitlines() == [
        "all = not (not tag:done and engine) or not tag:work and not tag:spam",
        "best = (plans or engine) and not tag:spam and not (from:ada and tag:urgent)",
        "calm = not (tag:urgent or tag:spam) and size<100",
        "dull = not lunch and not (plans and not engine)",
        'even = not "not" or from:alan and not "and more"',
        "far = not (not tag:home and lunch) and not tag:done and (from:ada or from:grace and not lunch)",
        "later = not tag:work and (lunch or size>100) and not from:mallory",
    ]


def test_sums_of_messages():
    expressions = [
        "not a b",
        "not a b or c d",
        "not a not b c",
        "d not c not b",
        "not (not a b) c",
        "a not b or not c d",
    ]
    weights = [3**place for place in range(len(MESSAGES))]
    assert [
        sum(weight for weight, found in zip(weights, matched(Query.parse(tagged(text)))) if found)
        for text in expressions
    ] == [3240, 14529321, 36, 19686, 19368108, 1857009]


def test_combined_with_operators_and_written():
    ada, work, lunch, big = (Query.parse(text) for text in ("from:ada", "tag:work", "lunch", "size>50"))
    combined = [
        ~ada & work,
        ~(ada & work) | ~lunch & big,
        (~ada | work) & ~(lunch | ~big),
        lunch & ~(ada & ~work) & ~big,
        ~(~(ada | lunch) & work),
        ~work & (big & ~ada | lunch) | ~(lunch & big),
    ]
    assert list(map(str, combined)) == [
        "not from:ada and tag:work",
        "not (from:ada and tag:work) or not lunch and size>50",
        "(not from:ada or tag:work) and not (lunch or not size>50)",
        "lunch and not (from:ada and not tag:work) and not size>50",
        "not (not (from:ada or lunch) and tag:work)",
        "not tag:work and (size>50 and not from:ada or lunch) or not (lunch and size>50)",
    ]


def test_read_and_written_once_more():
    text = "not tag:work from:ada or -(lunch not plans) (size>60 or not (tag:spam -engine))"
    again = str(Query.parse(text))
    assert (again, [message["id"] for message in Query.parse(again).select(MAIL)]) == (
        "not tag:work and from:ada or not (lunch and not plans) and (size>60 or not (tag:spam and not engine))",
        [11, 12, 13, 15, 17, 18],
    )


def test_where_every_message_goes():
    rules = SavedSearches.loads(
        "1 urgent = not tag:spam tag:urgent\n2 old = not tag:work not tag:spam size>500\n"
        "3 food = not from:mallory lunch\n4 rest = not tag:urgent tag:work or not tag:work tag:spam\n"
    )
    assert [" ".join(name[0] for name in rules if rules[name].matches(message)) for message in MAIL] == [
        "1",
        "3",
        "4",
        "4",
        "2",
        "1 3",
        "4",
        "4",
    ]
