"""Known answers, and what must hold for every input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench_report.statistics import mean_of_means, wilson


@pytest.mark.parametrize(
    ("passed", "scored", "low", "high"),
    [
        # scipy 1.17.1 and statsmodels 0.15.0 (proportion_confint wilson), R prop.test(correct=FALSE), Hmisc::binconf
        (0, 20, 0.0, 0.1611251580528194),  # published: (0, .1611)
        (20, 20, 0.8388748419471804, 0.9999999999999999),
        (230, 500, 0.4167851025299866, 0.5038248447069378),
        (15, 148, 0.06238639953073628, 0.16048724172330803),  # published: (.0624, .1605)
        (81, 263, 0.2552885198782742, 0.36620957698280004),  # published: Newcombe 1998 (.2553, .3662)
        (0, 1, 0.0, 0.7934506856227627),
    ],
)
def test_wilson_known_answers(passed: int, scored: int, low: float, high: float) -> None:
    found = wilson(passed, scored)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_without_a_trial_everything_is_possible() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


@given(st.integers(0, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.999))
def test_wilson_holds_the_rate_and_is_never_empty(trial: tuple[int, int], confidence: float) -> None:
    passed, scored = trial
    found = wilson(passed, scored, confidence)
    assert 0 <= found.low < found.high <= 1
    assert not scored or found.low <= passed / scored <= found.high
    mirrored = wilson(scored - passed, scored, confidence)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-12)


@pytest.mark.parametrize(("passed", "scored", "confidence"), [(-1, 2, 0.95), (3, 2, 0.95), (1, 2, 0.0), (1, 2, 1.0)])
def test_what_has_no_interval(passed: int, scored: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="no interval for"):
        wilson(passed, scored, confidence)


def test_tasks_count_the_same_however_often_they_were_tried() -> None:
    """Pooled, this would be 10 of 14."""
    assert mean_of_means([(10, 10), (0, 4)]) == 0.5


def test_tasks_without_a_score_are_left_out() -> None:
    assert mean_of_means([(1, 2), (0, 0)]) == 0.5
    assert mean_of_means([(0, 0)]) is None
    assert mean_of_means([]) is None
