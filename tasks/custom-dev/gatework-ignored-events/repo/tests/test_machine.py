import pytest

from gatework import Chart, Machine, MachineError, State, Transition


def oven(log: list[str], **entry_sends: str) -> Machine:
    """An oven that logs what it enters and leaves; ``on="fault"`` sends that event when "on" is entered."""

    def state(name: str, within: str | None = None, initial: str | None = None, **on: str | Transition) -> State:
        def enter(machine: Machine) -> None:
            log.append("+" + name)
            if name in entry_sends:
                machine.send(entry_sends[name])

        return State(name, within, initial, enter, lambda machine: log.append("-" + name), on)

    return Machine(
        Chart(
            state("off", power="on"),
            state("on", None, "idle", power="off", pause="paused", fault="broken"),
            state("idle", "on", start="heating"),
            state("heating", "on", "low", stop="idle"),
            state("low", "heating", more="high"),
            state("high", "heating", less="low", again="high"),
            state("paused", resume=Transition("on", history=True), stop="on"),
            state("broken"),
        )
    )


def sent(*events: str, **entry_sends: str) -> tuple[list[str], tuple[str, ...]]:
    """What the oven logs on the last event, and where it is then."""
    log: list[str] = []
    machine = oven(log, **entry_sends)
    machine.start()
    for event in events:
        log.clear()
        machine.send(event)
    return log, machine.active


def test_start() -> None:
    assert sent() == (["+off"], ("off",))


def test_initial_states_are_entered() -> None:
    assert sent("power") == (["-off", "+on", "+idle"], ("on", "idle"))
    assert sent("power", "start") == (["-idle", "+heating", "+low"], ("on", "heating", "low"))


def test_states_are_left_innermost_first() -> None:
    assert sent("power", "start", "power") == (["-low", "-heating", "-on", "+off"], ("off",))
    assert sent("power", "start", "more") == (["-low", "+high"], ("on", "heating", "high"))


def test_from_a_state_to_itself() -> None:
    assert sent("power", "start", "more", "again") == (["-high", "+high"], ("on", "heating", "high"))


def test_what_nobody_has_a_transition_for_is_ignored() -> None:
    assert sent("power", "more") == ([], ("on", "idle"))


def test_history() -> None:
    events = "power", "start", "more", "pause"
    assert sent(*events, "resume") == (["-paused", "+on", "+heating", "+low"], ("on", "heating", "low"))
    assert sent(*events, "stop") == (["-paused", "+on", "+idle"], ("on", "idle"))


def test_event_from_an_entry_action() -> None:
    log, active = sent("power", on="fault")
    assert log == ["-off", "+on", "+idle", "-idle", "-on", "+broken"]
    assert active == ("broken",)


def test_event_from_an_entry_action_for_a_state_that_is_not_entered_yet() -> None:
    log, active = sent("power", on="start")
    assert log == ["-off", "+on", "+idle", "-idle", "+heating", "+low"]
    assert active == ("on", "heating", "low")


def test_guards_and_actions() -> None:
    def add(machine: Machine) -> None:
        machine.data["coins"] = machine.data["coins"] + 1

    def enough(machine: Machine) -> bool:
        return machine.data["coins"] >= 2

    chart = Chart(
        State("locked", on={"coin": Transition("locked", action=add), "push": [Transition("open", enough)]}),
        State("open", on={"push": [Transition("locked", lambda machine: False), Transition("open")]}),
    )
    machine = Machine(chart, coins=0)
    machine.start()
    states = []
    for event in ("push", "coin", "push", "coin", "push", "push"):
        machine.send(event)
        states.append(machine.state)
    assert states == ["locked", "locked", "locked", "locked", "open", "open"]


def test_after_an_exception() -> None:
    def fail(machine: Machine) -> None:
        raise OSError("no power")

    chart = Chart(State("off", on={"power": "on", "test": Transition("off", action=fail)}), State("on", entry=fail))
    machine = Machine(chart)
    machine.start()
    with pytest.raises(OSError, match="no power"):
        machine.send("power")
    assert machine.active == ("on",)
    machine.send("power")
    assert machine.active == ("on",)


def test_at_the_wrong_time() -> None:
    machine = oven([])
    with pytest.raises(MachineError, match="'power' was sent before the start"):
        machine.send("power")
    machine.start()
    with pytest.raises(MachineError, match="started before"):
        machine.start()
