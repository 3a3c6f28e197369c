# agentbench-canary: 61dbfe4a-fca4-4078-af0e-ec2dde6010c1
"""Events wait for their turn, and a transition concerns what it should."""

import itertools

import pytest

from gatework import Chart, Machine, MachineError, State, Transition


class Probe:
    """A machine that logs what its actions do: "+a" enters a, "-a" leaves it, "!x" is the action of the event x.

    ``sends`` says which events an action sends when it is run for the first time.
    """

    def __init__(self, states, sends=None, history=()):
        self.log = []
        self.sends = dict(sends or {})
        self.history = history
        self.machine = Machine(Chart(*itertools.starmap(self.state, states)))

    def state(self, name, within, initial, on):
        transitions = {
            event: Transition(target, action=self.action("!" + event), history=event in self.history)
            for event, target in on.items()
        }
        return State(name, within, initial, self.action("+" + name), self.action("-" + name), transitions)

    def action(self, place):
        def act(machine):
            self.log.append(place)
            for event in self.sends.pop(place, ()):
                before = list(self.log), machine.active
                machine.send(event)
                assert (self.log, machine.active) == before
            if place[0] in "+-":
                assert machine.state == machine.active[-1] == place[1:]

        return act

    def after(self, *events):
        """The log of the last event, or of the start, and the active states."""
        self.machine.start()
        for event in events:
            self.log.clear()
            self.machine.send(event)
        return " ".join(self.log), self.machine.active


OVEN = [
    ("off", None, None, {"power": "on"}),
    ("on", None, "idle", {"power": "off", "fault": "broken", "reset": "on", "boost": "high"}),
    ("idle", "on", None, {"start": "heating", "next": "on"}),
    ("heating", "on", "low", {"stop": "idle", "finish": "on", "again": "heating", "cool": "low"}),
    ("low", "heating", None, {"next": "high"}),
    ("high", "heating", None, {"next": "low", "back": "heating", "out": "on"}),
    ("broken", None, None, {"power": "off", "repair": "on"}),
]


@pytest.mark.parametrize("place", ["-off", "!power", "+on", "+idle"])
def test_any_action_may_send(place):
    log, active = Probe(OVEN, {place: ["fault"]}).after("power")
    assert log == "-off !power +on +idle -idle -on !fault +broken"
    assert active == ("broken",)


@pytest.mark.parametrize(
    ("sends", "log", "active"),
    [
        (
            {"-idle": ["next"], "!start": ["back"], "+heating": ["next"], "+low": ["finish"]},
            "-idle !start +heating +low -low !next +high -high -heating !back +heating +low"
            " -low !next +high -high -heating -on !finish +on +idle",
            ("on", "idle"),
        ),
        (
            {"+heating": ["next", "fault", "power", "power"]},
            "-idle !start +heating +low -low !next +high -high -heating -on !fault +broken"
            " -broken !power +off -off !power +on +idle",
            ("on", "idle"),
        ),
        (
            {"+heating": ["next", "stop"], "+high": ["power"], "+low": ["again"], "-idle": ["nonsense"]},
            "-idle !start +heating +low -low !next +high -high -heating !stop +idle -idle -on !power +off",
            ("off",),
        ),
        (
            {"+low": ["next"], "!next": ["next", "out"], "+high": ["start"]},
            "-idle !start +heating +low -low !next +high -high !next +low",
            ("on", "heating", "low"),
        ),
        (
            {"-idle": ["stop", "start", "next"], "+idle": ["start"]},
            "-idle !start +heating +low -low -heating !stop +idle -idle !start +heating +low -low !next +high",
            ("on", "heating", "high"),
        ),
    ],
    ids=["one each", "several at once", "in the order sent", "ignored when it is its turn", "back and forth"],
)
def test_first_sent_first_dealt_with(sends, log, active):
    probe = Probe(OVEN)
    probe.after("power")
    probe.log.clear()
    probe.sends.update(sends)
    probe.machine.send("start")
    assert (" ".join(probe.log), probe.machine.active) == (log, active)


def test_at_the_start():
    sends = {"+off": ["nonsense", "power"], "+on": ["start"], "+idle": ["reset"]}
    log, active = Probe(OVEN, sends).after()
    assert log == "+off -off !power +on +idle -idle !start +heating +low -low -heating -on !reset +on +idle"
    assert active == ("on", "idle")


@pytest.mark.parametrize("place", ["+outer", "+middle", "+inner"])
def test_at_the_start_in_the_middle_of_what_is_entered(place):
    states = [
        ("outer", None, "middle", {"x": "other"}),
        ("middle", "outer", "inner", {}),
        ("inner", "middle", None, {}),
        ("other", None, None, {}),
    ]
    log, active = Probe(states, {place: ["x"]}).after()
    assert log == "+outer +middle +inner -inner -middle -outer !x +other"
    assert active == ("other",)


def test_guards_are_asked_when_it_is_their_turn():
    asked = []

    def may_go(machine):
        asked.append((machine.state, machine.data["ready"]))
        return machine.data["ready"]

    def prepare(machine):
        machine.send("go")
        machine.send("done")
        machine.send("go")
        machine.data["ready"] = False

    def done(machine):
        machine.data["ready"] = True

    chart = Chart(
        State("a", on={"prepare": Transition("b", action=prepare)}),
        State("b", on={"done": Transition("b", action=done), "go": [Transition("c", may_go), Transition("d")]}),
        State("c"),
        State("d", on={"done": Transition("d", action=done), "go": Transition("e", may_go)}),
        State("e"),
    )
    machine = Machine(chart, ready=True)
    machine.start()
    machine.send("prepare")
    assert machine.state == "e"
    assert asked == [("b", False), ("d", True)]


def test_any_number_of_events():
    def count(machine):
        machine.data["left"] -= 1
        if machine.data["left"]:
            machine.send("tick")

    machine = Machine(Chart(State("a", on={"tick": Transition("a", action=count)})), left=20_000)
    machine.start()
    machine.send("tick")
    assert machine.data["left"] == 0

    def many(machine):
        for _ in range(5000):
            machine.send("tick")

    machine = Machine(Chart(State("a", entry=many, on={"tick": "b"}), State("b", on={"tick": "c"}), State("c")))
    machine.start()
    assert machine.state == "c"


def test_machines_do_not_wait_for_each_other():
    log = []

    def step(name, other, event):
        def act(machine):
            log.append(name + " begins")
            if other:
                other[0].send(event)
            log.append(name + " ends")

        return act

    one, two = [], []
    chart_one = Chart(
        State("a", on={"x": Transition("b", action=step("x", two, "y")), "z": "wrong"}),
        State("b", on={"z": Transition("c", action=step("z", None, ""))}),
        State("c"),
        State("wrong"),
    )
    chart_two = Chart(State("a", on={"y": Transition("b", action=step("y", one, "z"))}), State("b"))
    one.append(Machine(chart_one))
    two.append(Machine(chart_two))
    one[0].start()
    two[0].start()
    one[0].send("x")
    assert log == ["x begins", "y begins", "y ends", "x ends", "z begins", "z ends"]
    assert (one[0].state, two[0].state) == ("c", "b")


class Failure(Exception):
    pass


def fail(machine):
    raise Failure


def test_what_waits_is_dropped_after_an_exception():
    def send_all(machine):
        for event in ("first", "bad", "third", "fourth"):
            machine.send(event)

    chart = Chart(
        State("a", on={"all": Transition("b", action=send_all)}),
        State("b", on={"first": "c"}),
        State("c", on={"bad": Transition("c", fail), "third": "wrong", "fourth": "wrong", "next": "d"}),
        State("d", on={"third": "wrong", "fourth": "wrong", "all": Transition("b", action=send_all)}),
        State("wrong"),
    )
    machine = Machine(chart)
    machine.start()
    for _ in range(2):
        with pytest.raises(Failure):
            machine.send("all" if machine.state != "c" else "bad")
        assert machine.active == ("c",)
        machine.send("nonsense")
        assert machine.active == ("c",)
    machine.send("next")
    assert machine.active == ("d",)
    with pytest.raises(Failure):
        machine.send("all")
    assert machine.active == ("c",)


def test_nothing_is_active_when_all_was_left():
    chart = Chart(State("a", on={"go": Transition("b", action=fail)}), State("b", on={"go": "a"}))
    machine = Machine(chart)
    machine.start()
    with pytest.raises(Failure):
        machine.send("go")
    machine.send("go")
    assert (machine.active, machine.state) == ((), None)


@pytest.mark.parametrize(
    ("place", "active"),
    [("exit", ("on", "idle")), ("action", ("on",)), ("entry", ("on", "busy")), ("guard", ("on", "idle"))],
)
@pytest.mark.parametrize("event", ["go", "check"])
def test_where_a_transition_ends_with_an_exception(place, active, event):
    def send(machine):
        machine.send("go")
        machine.send("power")

    go = Transition("busy", fail if place == "guard" else None, fail if place == "action" else None)
    chart = Chart(
        State("on", initial="start", on={"power": "off"}),
        State("start", "on", on={"check": Transition("idle", action=send), "go": "idle"}),
        State("idle", "on", exit=fail if place == "exit" else None, on={"go": go}),
        State("busy", "on", entry=fail if place == "entry" else None),
        State("off", on={"power": "on"}),
    )
    machine = Machine(chart)
    machine.start()
    if event == "go":
        machine.send("go")
    with pytest.raises(Failure):
        machine.send(event)
    assert machine.active == active
    machine.send("nonsense")
    assert machine.active == active
    if place != "exit":
        machine.send("power")
        assert machine.active == ("off",)
        machine.send("power")
        assert machine.active == ("on", "start")


def test_an_action_does_not_see_what_its_events_raise():
    seen = []

    def careful(machine):
        try:
            machine.send("bad")
        except Failure as failure:
            seen.append(failure)

    chart = Chart(
        State("a", on={"go": Transition("b", action=careful)}), State("b", on={"bad": "c"}), State("c", entry=fail)
    )
    machine = Machine(chart)
    machine.start()
    with pytest.raises(Failure):
        machine.send("go")
    assert seen == []
    assert machine.state == "c"


def test_exception_at_the_start():
    chart = Chart(
        State("a", initial="b", entry=lambda machine: machine.send("go"), on={"go": "c"}),
        State("b", "a", entry=fail),
        State("c"),
    )
    machine = Machine(chart)
    with pytest.raises(Failure):
        machine.start()
    assert machine.active == ("a", "b")
    machine.send("nonsense")
    assert machine.active == ("a", "b")
    machine.send("go")
    assert machine.active == ("c",)


def test_start_and_send_at_the_wrong_time():
    probe = Probe(OVEN)
    with pytest.raises(MachineError):
        probe.machine.send("power")
    assert probe.after("power") == ("-off !power +on +idle", ("on", "idle"))
    with pytest.raises(MachineError):
        probe.machine.start()
    restarted = Machine(Chart(State("a", entry=lambda machine: machine.start())))
    with pytest.raises(MachineError):
        restarted.start()


@pytest.mark.parametrize(
    ("events", "log", "active"),
    [
        ("power reset", "-idle -on !reset +on +idle", ("on", "idle")),
        ("power start reset", "-low -heating -on !reset +on +idle", ("on", "idle")),
        ("power start next reset", "-high -heating -on !reset +on +idle", ("on", "idle")),
        ("power next", "-idle -on !next +on +idle", ("on", "idle")),
        ("power start finish", "-low -heating -on !finish +on +idle", ("on", "idle")),
        ("power start next finish", "-high -heating -on !finish +on +idle", ("on", "idle")),
        ("power start again", "-low -heating !again +heating +low", ("on", "heating", "low")),
        ("power start next again", "-high -heating !again +heating +low", ("on", "heating", "low")),
        ("power start cool", "-low -heating !cool +heating +low", ("on", "heating", "low")),
        ("power start next cool", "-high -heating !cool +heating +low", ("on", "heating", "low")),
        ("power start next back", "-high -heating !back +heating +low", ("on", "heating", "low")),
        ("power start next out", "-high -heating -on !out +on +idle", ("on", "idle")),
        ("power boost", "-idle -on !boost +on +heating +high", ("on", "heating", "high")),
        ("power start boost", "-low -heating -on !boost +on +heating +high", ("on", "heating", "high")),
        ("power boost boost", "-high -heating -on !boost +on +heating +high", ("on", "heating", "high")),
        ("power start next next", "-high !next +low", ("on", "heating", "low")),
        ("power start stop", "-low -heating !stop +idle", ("on", "idle")),
        ("power start fault", "-low -heating -on !fault +broken", ("broken",)),
    ],
)
def test_what_is_left_and_entered(events, log, active):
    assert Probe(OVEN).after(*events.split()) == (log, active)


TREE = [
    ("a", None, "b"),
    ("b", "a", "d"),
    ("c", "a", "f"),
    ("d", "b", None),
    ("e", "b", None),
    ("f", "c", None),
    ("g", None, "h"),
    ("h", "g", None),
    ("i", None, None),
]
NAMES = [name for name, _, _ in TREE]
WITHIN = {name: within for name, within, _ in TREE}
INITIAL = {name: initial for name, _, initial in TREE}


def containing(name):
    """The states that contain a state, innermost first."""
    names = []
    while WITHIN[name]:
        name = WITHIN[name]
        names.append(name)
    return names


@pytest.mark.parametrize(("having", "target"), list(itertools.product(NAMES, NAMES)))
def test_every_transition(having, target):
    both = [name for name in containing(having) if name in containing(target)]
    for leaf in (name for name in NAMES if not INITIAL[name] and having in [name, *containing(name)]):
        states = [(*state, {"x": target} if state[0] == having else {}) for state in TREE]
        states[-1][-1]["go"] = leaf  # "i" is where it starts
        states.insert(0, states.pop())
        left = [name for name in [leaf, *containing(leaf)] if name not in both]
        entered = [name for name in [*reversed(containing(target)), target] if name not in both]
        while INITIAL[entered[-1]]:
            entered.append(INITIAL[entered[-1]])
        log, active = Probe(states).after(*["go"] * (leaf != "i"), "x")
        assert log.split() == ["-" + name for name in left] + ["!x"] + ["+" + name for name in entered]
        assert active == (*reversed(both), *entered)


def test_history():
    states = [
        ("on", None, "idle", {"pause": "paused", "again": "on", "reset": "on"}),
        ("idle", "on", None, {"start": "heating"}),
        ("heating", "on", "low", {"out": "on", "stop": "idle"}),
        ("low", "heating", None, {"next": "high"}),
        ("high", "heating", None, {}),
        ("paused", None, None, {"resume": "on", "warm": "heating", "restart": "on"}),
    ]

    def after(*events, **sends):
        return Probe(states, sends, {"resume", "again", "warm", "out"}).after(*events)

    assert after("pause", "resume") == ("-paused !resume +on +idle", ("on", "idle"))
    assert after("start", "pause", "resume") == ("-paused !resume +on +heating +low", ("on", "heating", "low"))
    assert after("start", "next", "pause", "resume")[1] == ("on", "heating", "low")
    assert after("start", "next", "pause", "warm") == ("-paused !warm +on +heating +high", ("on", "heating", "high"))
    assert after("start", "next", "pause", "restart")[1] == ("on", "idle")
    assert after("pause", "warm") == ("-paused !warm +on +heating +low", ("on", "heating", "low"))
    assert after("start", "stop", "pause", "resume")[1] == ("on", "idle")
    assert after("start", "next", "again") == ("-high -heating -on !again +on +heating +low", ("on", "heating", "low"))
    assert after("start", "next", "out") == ("-high -heating -on !out +on +heating +low", ("on", "heating", "low"))
    assert after("start", "reset", "pause", "resume")[1] == ("on", "idle")


def test_history_with_events_that_wait():
    states = [
        ("on", None, "idle", {"pause": "paused", "resume": "on"}),
        ("idle", "on", None, {"start": "heating"}),
        ("heating", "on", None, {}),
        ("paused", None, None, {"resume": "on"}),
    ]
    probe = Probe(states, {"-idle": ["pause"], "+paused": ["resume"]}, {"resume"})
    assert probe.after("start") == (
        "-idle !start +heating -heating -on !pause +paused -paused !resume +on +heating",
        ("on", "heating"),
    )
