import pytest

from gatework import Chart, ChartError, State, Transition

CHART = Chart(
    State("off"),
    State("on", initial="a"),
    State("a", within="on", initial="a1"),
    State("a1", within="a"),
    State("a2", within="a"),
    State("b", within="on"),
)


def test_path() -> None:
    assert CHART.path("off") == ("off",)
    assert CHART.path("a2") == ("on", "a", "a2")


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [("a1", "a2", ("on", "a")), ("a1", "b", ("on",)), ("b", "off", ()), ("b", "b", ("on",)), ("off", "off", ())],
)
def test_common(one: str, other: str, common: tuple[str, ...]) -> None:
    assert CHART.common(one, other) == CHART.common(other, one) == common


@pytest.mark.parametrize(
    "states",
    [
        [],
        [State("a"), State("a")],
        [State("a", within="b")],
        [State("a", within="b", initial="b"), State("b", within="a", initial="a")],
        [State("a"), State("b", within="a")],
        [State("a", initial="c"), State("b", within="a", initial="c"), State("c", within="b")],
        [State("a", on={"x": "b"})],
        [State("a", on={"x": [Transition("a"), Transition("b")]})],
    ],
)
def test_states_that_do_not_fit_together(states: list[State]) -> None:
    with pytest.raises(ChartError):
        Chart(*states)
