"""Properties that are true for every input, and edge cases with little or no data."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st

from agentbench_report import statistics as of
from agentbench_report.statistics import power as power_of
from agentbench_report.statistics.bootstrap import bca_parameters, resampled_means
from agentbench_report.statistics.means import unseen_bounds
from agentbench_report.statistics.paired import tango_score


def table(both_pass: int, regressions: int, improvements: int, both_fail: int) -> of.PairTable:
    return of.PairTable(both_pass=both_pass, regressions=regressions, improvements=improvements, both_fail=both_fail)


def swapped(found: of.PairTable) -> of.PairTable:
    return table(found.both_pass, found.improvements, found.regressions, found.both_fail)


def tables(most: int) -> st.SearchStrategy[of.PairTable]:
    few = st.integers(0, 8)
    return st.builds(table, *4 * [st.one_of(few, st.integers(0, most // 4))])


LAW = settings(deadline=None)
CONFIDENCE = st.floats(0.01, 0.999)
COUNTS = st.integers(0, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
RATES = st.builds(lambda c, n: min(c, n) / n, st.integers(0, 9), st.integers(1, 9))
DIFFERENCES = st.lists(st.builds(lambda a, b: b - a, RATES, RATES), max_size=30)


# One run


@LAW
@given(COUNTS, CONFIDENCE)
def test_intervals_contain_the_rate_and_are_never_empty(trial: tuple[int, int], confidence: float) -> None:
    passed, scored = trial
    narrow, exact = of.wilson(passed, scored, confidence), of.clopper_pearson(passed, scored, confidence)
    for found in (narrow, exact):
        assert 0 <= found.low < found.high <= 1
        assert not scored or found.low <= passed / scored <= found.high


@LAW
@given(COUNTS, CONFIDENCE, st.sampled_from([of.wilson, of.clopper_pearson]))
def test_intervals_of_failures_mirror_those_of_passes(
    trial: tuple[int, int], confidence: float, interval: Callable[[int, int, float], of.Interval]
) -> None:
    passed, scored = trial
    found, mirrored = interval(passed, scored, confidence), interval(scored - passed, scored, confidence)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-10)


@LAW
@given(st.integers(1, 60), st.data())
def test_clopper_and_pearson_by_their_definition(n: int, data: st.DataObject) -> None:
    """The tail probability at the lower bound is half of 1 - confidence."""
    passed = data.draw(st.integers(1, n))
    low = Fraction(of.clopper_pearson(passed, n, 0.9).low)
    tail = sum(math.comb(n, k) * low**k * (1 - low) ** (n - k) for k in range(passed, n + 1))
    assert float(tail) == pytest.approx(0.05, abs=1e-9)


@LAW
@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.integers(1, 300))
def test_pass_at_k_and_pass_hat_k(counts: tuple[int, int], k: int) -> None:
    n, c = counts
    assert of.pass_at_k(n, c, 1) == of.pass_hat_k(n, c, 1) == c / n
    some, all_ = of.pass_at_k(n, c, k), of.pass_hat_k(n, c, k)
    if k > n:
        assert some is None
        assert all_ is None
    else:
        assert some is not None
        assert all_ is not None
        assert 0 <= all_ <= c / n <= some <= 1
        assert some == pytest.approx(1 - (of.pass_hat_k(n, n - c, k) or 0), abs=1e-12)


def test_tasks_have_equal_weight_for_any_number_of_attempts() -> None:
    """The pooled rate would be 10 of 14."""
    assert of.mean_of_means([(10, 10), (0, 4)]) == 0.5


def test_tasks_without_a_score_are_left_out() -> None:
    assert of.mean_of_means([(1, 2), (0, 0)]) == 0.5
    assert of.mean_of_means([(0, 0)]) is None
    assert of.mean_of_means([]) is None
    assert of.task_interval([(1, 2), (0, 0), (3, 4)]) == of.task_interval([(1, 2), (3, 4)])


def test_repeated_attempts_do_not_count_as_more_tasks() -> None:
    five = of.task_interval([(100, 100)] * 5)
    assert five == of.task_interval([(1, 1)] * 5)
    assert five.low < 0.5
    pooled = of.korn_graubard([1.0] * 500, [task for task in range(5) for _ in range(100)])
    assert pooled == five
    assert of.wilson(500, 500).low > 0.99


def test_identical_attempts_do_not_narrow_the_interval() -> None:
    """Four of five tasks pass, whether tried once or a hundred times."""
    once = of.task_interval([(1, 1)] * 4 + [(0, 1)])
    often = of.task_interval([(100, 100)] * 4 + [(0, 100)])
    attempts = [float(task < 4) for task in range(5) for _ in range(100)]
    pooled = of.korn_graubard(attempts, [task for task in range(5) for _ in range(100)])
    assert once == often
    assert (pooled.low, pooled.high) == pytest.approx((once.low, once.high), abs=1e-12)


@LAW
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=2, max_size=40), CONFIDENCE)
def test_task_intervals_contain_the_mean(counts: list[tuple[int, int]], confidence: float) -> None:
    groups = [(min(counted), counted[1]) for counted in counts]
    found, mean = of.task_interval(groups, confidence), of.mean_of_means(groups)
    assert mean is not None
    assert 0 <= found.low <= mean + 1e-12
    assert mean - 1e-12 <= found.high <= 1
    assert found.low < found.high
    estimate = of.cluster_mean([passed / scored for passed, scored in groups], range(len(groups)), confidence)
    assert estimate.mean == pytest.approx(mean)
    assert estimate.interval.low - 1e-12 <= mean <= estimate.interval.high + 1e-12
    assert estimate.interval.low < estimate.interval.high


def test_one_cluster_has_no_standard_error() -> None:
    assert of.cluster_se([1, 0, 1], [0, 0, 0]) is None
    found = of.cluster_mean([1, 0, 1], [0, 0, 0])
    assert (found.mean, found.se, found.df) == (pytest.approx(2 / 3), None, 0)
    nothing = of.cluster_mean([], [])
    assert nothing.mean is None
    assert (
        found.interval == nothing.interval == of.korn_graubard([1], [0]) == of.Interval(low=0, high=1, confidence=0.95)
    )


def test_cluster_error_with_one_score_each_is_the_usual_error() -> None:
    scores = [0.2, 0.9, 0.4, 0.7, 1.0]
    assert of.cluster_se(scores, "abcde") == pytest.approx(of.se_clt(scores), rel=1e-12)


def test_unknown_variance_components_are_none() -> None:
    one_each = of.variance_components([[1.0], [0.0]])
    assert (one_each.of_means, one_each.within, one_each.between) == (0.5, None, None)
    one_task = of.variance_components([[1.0, 0.0], []])
    assert (one_task.of_means, one_task.within, one_task.between, one_task.se) == (None, 0.5, None, None)
    assert of.variance_components([]).mean is None
    chance = of.variance_components([[1.0, 0.0], [0.0, 1.0]])
    assert chance.between == 0


def test_variance_within_tasks_depends_on_the_number_of_attempts() -> None:
    """The variance of the means 1/2, 1 and 0 is 1/4. Of this, 1/4 · (1/2 + 1/4 + 1)/3 is within tasks."""
    found = of.variance_components([[1.0, 0.0], [1.0] * 4, [0.0]])
    assert (found.of_means, found.within) == pytest.approx((0.25, 0.25))
    assert found.between == pytest.approx(0.25 - 0.25 * 7 / 12)


# Pairs


@LAW
@given(tables(10**6), CONFIDENCE)
def test_paired_intervals_contain_the_difference_and_mirror(found: of.PairTable, confidence: float) -> None:
    for interval in (of.tango, of.newcombe10):
        there, back = interval(found, confidence), interval(swapped(found), confidence)
        assert -1 <= there.low < there.high <= 1
        assert found.difference is None or there.low <= found.difference <= there.high
        assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-12)


@LAW
@given(tables(10**6), CONFIDENCE, CONFIDENCE)
def test_more_confidence_is_more_width(found: of.PairTable, one: float, other: float) -> None:
    less, more = sorted((one, other))
    for interval in (of.tango, of.newcombe10, of.discordant_odds_ratio):
        narrow, wide = interval(found, less), interval(found, more)
        assert wide.low <= narrow.low + 1e-12
        assert narrow.high <= wide.high + 1e-12


@LAW
@given(tables(10**6), CONFIDENCE)
def test_the_score_at_tangos_bounds_is_the_quantile(found: of.PairTable, confidence: float) -> None:
    b, c, n = found.regressions, found.improvements, found.n
    assume(n)
    interval, z = of.tango(found, confidence), NormalDist().inv_cdf((1 + confidence) / 2)
    if interval.high < 1 - 1e-9:
        assert tango_score(b, c, n, interval.high) == pytest.approx(-z, rel=1e-6, abs=1e-9)
    if interval.low > -1 + 1e-9:
        assert tango_score(b, c, n, interval.low) == pytest.approx(z, rel=1e-6, abs=1e-9)


@LAW
@given(tables(10**6))
def test_p_values_of_pairs(found: of.PairTable) -> None:
    exact, midp, (chi_square, asymptotic) = (
        of.mcnemar_exact(found),
        of.mcnemar_midp(found),
        of.mcnemar_asymptotic(found),
    )
    for p in (exact, midp, asymptotic):
        assert 0 <= p <= 1
    assert chi_square >= 0
    assert midp <= exact
    other = swapped(found)
    assert (of.mcnemar_exact(other), of.mcnemar_midp(other)) == (exact, midp)
    if found.regressions == found.improvements:
        assert exact == 1
        assert found.discordant == 0 or midp < 1


@LAW
@given(st.integers(0, 150), st.integers(0, 150))
def test_mcnemar_by_counting(b: int, c: int) -> None:
    fewer, m = min(b, c), b + c
    tail, at = sum(math.comb(m, k) for k in range(fewer + 1)), math.comb(m, fewer)
    assert of.mcnemar_exact(table(3, b, c, 4)) == pytest.approx(
        float(min(Fraction(1), Fraction(2 * tail, 2**m))), rel=1e-9
    )
    midp = Fraction(2 * tail - at, 2**m) if b != c else 1 - Fraction(at, 2 ** (m + 1))
    assert of.mcnemar_midp(table(3, b, c, 4)) == pytest.approx(float(midp) if m else 1.0, rel=1e-9)


@LAW
@given(tables(10**6), st.floats(0.0, 0.99), st.floats(0.001, 0.499))
def test_noninferiority_bound_and_p_value_agree(found: of.PairTable, margin: float, alpha: float) -> None:
    answer = of.noninferiority(found, margin, alpha)
    assert 0 <= answer.p <= 1
    assert answer.interval == of.tango(found, 1 - 2 * alpha)
    assert (answer.verdict == "pass") == (answer.interval.low > -margin)
    if found.n and abs(answer.interval.low + margin) > 1e-9:
        assert (answer.interval.low > -margin) == (answer.p < alpha)
    if answer.verdict == "fail":
        assert answer.interval.high < 0


@LAW
@given(tables(10**6), st.floats(0.0, 0.99), st.floats(0.0, 0.99))
def test_pass_also_holds_for_a_wider_margin(found: of.PairTable, one: float, other: float) -> None:
    strict, lax = sorted((one, other))
    assert of.noninferiority(found, strict).verdict != "pass" or of.noninferiority(found, lax).verdict == "pass"


@pytest.mark.parametrize(
    ("found", "margin", "verdict"),
    [
        (table(10, 0, 0, 0), 0.015, "inconclusive"),
        (table(5, 0, 0, 5), 0.015, "inconclusive"),
        (table(235, 15, 15, 235), 0.03, "pass"),
        (table(100, 0, 0, 0), 0.05, "pass"),
        (table(50, 0, 0, 0), 0.05, "inconclusive"),
        (table(52, 0, 0, 0), 0.05, "pass"),
        (table(51, 0, 0, 0), 0.05, "inconclusive"),
        (table(400, 60, 10, 30), 0.03, "fail"),
        (table(480, 12, 2, 6), 0.05, "pass"),  # certainly worse, but not by the margin
        (table(460, 20, 2, 18), 0.03, "fail"),  # certainly worse, and perhaps by the margin
        (table(0, 0, 0, 0), 0.5, "inconclusive"),
    ],
)
def test_verdicts(found: of.PairTable, margin: float, verdict: str) -> None:
    assert of.noninferiority(found, margin).verdict == verdict


@pytest.mark.parametrize(
    ("differences", "margin", "verdict"),
    [
        ([0.0] * 10, 0.015, "inconclusive"),
        ([0.1] + [0.0] * 9, 0.015, "inconclusive"),  # t alone would let it pass
        ([0.0] * 52, 0.05, "pass"),
        ([0.0] * 51, 0.05, "inconclusive"),
        ([0.5, 0.4, 0.6] * 4, 0.05, "pass"),
        ([0.2, -0.2] * 500, 0.02, "inconclusive"),  # t alone would let it pass
        ([0.2, -0.2] * 500, 0.03, "pass"),
        ([-0.2] * 40, 0.05, "fail"),
        ([-0.3, -0.1] * 40, 0.05, "fail"),
        ([1.0], 0.05, "inconclusive"),
        ([], 0.05, "inconclusive"),
    ],
)
def test_verdicts_with_repeats(differences: list[float], margin: float, verdict: str) -> None:
    assert of.noninferiority_mean(differences, margin).verdict == verdict


@LAW
@given(DIFFERENCES, st.floats(0.0, 0.99), st.floats(0.001, 0.499))
def test_pass_with_repeats_needs_a_small_p_and_enough_tasks(
    differences: list[float], margin: float, alpha: float
) -> None:
    answer = of.noninferiority_mean(differences, margin, alpha)
    assert -1 <= answer.interval.low < answer.interval.high <= 1
    assert answer.verdict != "pass" or answer.z is None or answer.p < alpha + 1e-9
    perfect = of.tango(table(len(differences), 0, 0, 0), 1 - 2 * alpha)
    agreed = of.noninferiority_mean([0.0] * len(differences), margin, alpha)
    assert len(differences) < 2 or (agreed.interval.low, agreed.interval.high) == pytest.approx(
        (perfect.low, perfect.high), abs=1e-12
    )


def test_no_pairs() -> None:
    nothing = table(0, 0, 0, 0)
    assert (nothing.difference, nothing.discordance) == (None, None)
    assert of.mcnemar_exact(nothing) == of.mcnemar_midp(nothing) == of.mcnemar_asymptotic(nothing)[1] == 1
    everything = of.Interval(low=-1, high=1, confidence=0.95)
    assert of.tango(nothing) == of.newcombe10(nothing) == everything
    assert of.mean_difference([]).interval == of.bootstrap_mean([], 1).interval == everything
    assert of.mean_difference([]).p == of.sign_flip([], 1).two_sided == 1
    assert of.discordant_odds_ratio(nothing) == of.Interval(low=0, high=math.inf, confidence=0.95)


def test_interval_of_agreeing_pairs_has_nonzero_width() -> None:
    for agreeing in (table(100, 0, 0, 0), table(0, 0, 0, 100), table(70, 0, 0, 30)):
        found = of.tango(agreeing)
        assert (found.low, found.high) == pytest.approx((-0.0370, 0.0370), abs=5e-5)
        assert of.mcnemar_exact(agreeing) == of.mcnemar_midp(agreeing) == 1


@pytest.mark.parametrize("counts", [(-1, 0, 0, 0), (0, -1, 0, 0), (0, 0, 0.5, 0), (0, 0, 0, math.nan)])
def test_invalid_tables_are_refused(counts: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="must be a non-negative integer"):
        table(*counts)


# Means, permutation, bootstrap


@LAW
@given(DIFFERENCES, CONFIDENCE)
def test_mean_differences(differences: list[float], confidence: float) -> None:
    there = of.mean_difference(differences, confidence)
    back = of.mean_difference([-difference for difference in differences], confidence)
    assert -1 <= there.interval.low < there.interval.high <= 1
    assert (back.interval.low, back.interval.high) == pytest.approx(
        (-there.interval.high, -there.interval.low), abs=1e-12
    )
    assert there.p is None or 0 <= there.p <= 1
    if there.mean is not None:
        assert there.interval.low - 1e-12 <= there.mean <= there.interval.high + 1e-12
    wider = of.mean_difference(differences, (1 + confidence) / 2).interval
    assert wider.low <= there.interval.low + 1e-12
    assert there.interval.high <= wider.high + 1e-12


def test_differences_equal_up_to_rounding_are_equal() -> None:
    differences = [1 - 2 / 3, 1 / 3 - 0.0]
    assert differences[0] != differences[1]
    assert of.mean_difference(differences).degenerate
    assert of.bootstrap_mean(differences, 1).degenerate
    assert of.cluster_se(differences, [0, 1]) == 0


@pytest.mark.parametrize("difference", [-1.0, 0.0, 1.0])
def test_equal_differences_have_the_tango_interval(difference: float) -> None:
    found = of.mean_difference([difference] * 6)
    expected = of.tango(table(6 * (difference == 0), 6 * (difference < 0), 6 * (difference > 0), 0))
    assert found.degenerate
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@LAW
@given(DIFFERENCES.filter(lambda differences: len(differences) > 1), CONFIDENCE)
def test_tango_mean(differences: list[float], confidence: float) -> None:
    there, mean = of.tango_mean(differences, confidence), of.mean_difference(differences).mean
    back = of.tango_mean([-difference for difference in differences], confidence)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-9)
    assert mean is not None
    assert -1 <= there.low <= mean + 1e-9
    assert mean - 1e-9 <= there.high <= 1
    agreed = of.tango(table(len(differences), 0, 0, 0), confidence)
    assert there.high - there.low >= agreed.high - agreed.low - 1e-9


@pytest.mark.parametrize(("b", "c"), [(0, 40), (30, 70), (100, 100)])
def test_tango_mean_of_single_attempts_equals_tango(b: int, c: int) -> None:
    found = of.tango_mean([-1.0] * b + [1.0] * c + [0.0] * (2000 - b - c))
    expected = of.tango(table(2000 - b - c, b, c, 0))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=5e-5)


def test_only_independent_repeats_narrow_the_interval() -> None:
    """20 of 200 tasks differ in all attempts, or 40 tasks differ in half of the attempts."""
    for_good = of.tango_mean([-1.0] * 20 + [0.0] * 180)
    halves = of.tango_mean([-0.5] * 40 + [0.0] * 160)
    assert halves.high - halves.low < for_good.high - for_good.low
    by_t = of.mean_difference([-0.5] * 40 + [0.0] * 160).interval
    assert halves.high - halves.low == pytest.approx(by_t.high - by_t.low, rel=0.1)


def test_interval_with_one_small_difference_is_not_too_narrow() -> None:
    differences = [-1 / 7] + [0.0] * 19
    assert of.mean_difference(differences).interval.high < 0.01
    found = of.tango_mean(differences)
    assert (found.low, found.high) == pytest.approx((-0.1671, 0.1551), abs=1e-4)


def test_one_task_has_no_standard_error() -> None:
    found = of.mean_difference([0.5])
    assert (found.mean, found.se, found.df, found.p) == (0.5, None, 0, None)
    assert of.mean_difference([0.5, 0.5]).p is None
    assert (found.interval.low, found.interval.high) == (-1, 1)


@LAW
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=60))
def test_flipping_signs_of_single_attempts_is_mcnemars_exact_test(differences: list[float]) -> None:
    down, up = differences.count(-1.0), differences.count(1.0)
    found = of.sign_flip(differences, seed=1)
    assert found.exact
    assert found.two_sided == of.mcnemar_exact(table(1, down, up, 1))


@LAW
@given(st.lists(st.integers(-9, 9), max_size=10))
def test_flipping_signs_by_definition(numbers: list[int]) -> None:
    """Integer sums are exact; zeros are flipped here as well."""
    sums = [0]
    for number in numbers:
        sums = [total + sign * number for total in sums for sign in (1, -1)]
    seen = sum(numbers)
    found = of.sign_flip([number / 9 for number in numbers], seed=1)
    assert found.two_sided == pytest.approx(sum(abs(total) >= abs(seen) for total in sums) / len(sums), abs=1e-12)
    assert found.greater == pytest.approx(sum(total >= seen for total in sums) / len(sums), abs=1e-12)


def test_sampled_sign_flips_approximate_the_exact_test() -> None:
    differences = [0.2, 0.5, -0.1, 0.4, 0.0, 0.3, 0.1, -0.2, 0.6, -0.3]
    every, some = of.sign_flip(differences, seed=7), of.sign_flip(differences, seed=7, exact_up_to=0)
    assert every.exact
    assert not some.exact
    for p, sampled in ((every.two_sided, some.two_sided), (every.greater, some.greater)):
        assert sampled == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 10_000))
    assert some == of.sign_flip(differences, seed=7, exact_up_to=0)
    assert some != of.sign_flip(differences, seed=8, exact_up_to=0)
    assert of.bootstrap_mean(differences, 7) != attrs.evolve(of.bootstrap_mean(differences, 8), seed=7)


@LAW
@given(DIFFERENCES, st.integers(0, 2**48 - 1), CONFIDENCE)
def test_a_bootstrap_depends_on_its_seed_only_and_mirrors(
    differences: list[float], seed: int, confidence: float
) -> None:
    found = of.bootstrap_mean(differences, seed, 500, confidence)
    assert found == of.bootstrap_mean(differences, seed, 500, confidence)
    back = of.bootstrap_mean([-difference for difference in differences], seed, 500, confidence)
    for there, mirrored in ((found.interval, back.interval), (found.percentile, back.percentile)):
        assert there.low <= there.high
        assert (mirrored.low, mirrored.high) == pytest.approx((-there.high, -there.low), abs=1e-9)
        if differences:
            assert min(differences) - 1e-12 <= there.low
            assert there.high <= max(differences) + 1e-12
    assert found.degenerate == (not differences or max(differences) - min(differences) < 1e-12)


def test_means_equal_up_to_rounding_are_ties() -> None:
    """Resamples of .1, .2 and .3 are symmetric about .2, so the bias is 0."""
    values = [0.1, 0.2, 0.3]
    means = np.array([sum(drawn) / 3 for drawn in itertools.product(values, repeat=3)])
    assert len({mean for mean in means if abs(mean - 0.2) < 1e-9}) > 1
    assert bca_parameters(values, means)[0] == pytest.approx(0, abs=1e-12)


def test_bootstrap_approximates_the_exact_error() -> None:
    differences = [1.0] * 25 + [-1.0] * 12 + [0.0] * 463
    mean = sum(differences) / 500
    exact = math.sqrt(sum((difference - mean) ** 2 for difference in differences)) / 500
    found = of.bootstrap_mean(differences, of.seed_of("a", "b"))
    assert found.se == pytest.approx(exact, rel=0.04)
    assert found.interval.low < mean < found.interval.high
    score = of.tango(table(200, 12, 25, 263))
    assert (found.interval.low, found.interval.high) == pytest.approx((score.low, score.high), abs=0.003)


def test_chunks_of_a_bootstrap_differ() -> None:
    """With this many tasks, 17 resamples are drawn at a time."""
    values = [float(index % 7) for index in range(60_000)]
    means = resampled_means(values, 3, 100)
    assert len(set(means)) > 90
    error = math.sqrt(4 / 60_000)  # 0 to 6 have the variance 4
    assert all(abs(mean - 3) < 6 * error for mean in means)
    assert sum(means) / 100 == pytest.approx(3, abs=6 * error / 10)


def test_seed_does_not_depend_on_the_order_of_runs() -> None:
    assert of.seed_of("run-a", "run-b") == of.seed_of("run-b", "run-a") == 220665283370021
    assert of.seed_of("run-a", "run-b") != of.seed_of("run-a")
    assert of.seed_of("ab", "c") != of.seed_of("a", "bc")
    assert 0 <= of.seed_of() < 2**48


# Many comparisons


PS = st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=20)


@LAW
@given(PS, st.sampled_from([of.holm, of.benjamini_hochberg, of.benjamini_yekutieli]))
def test_adjusted_ps(ps: list[float], adjust: Callable[[list[float]], list[float]]) -> None:
    found = adjust(ps)
    assert [math.isnan(p) for p in found] == [math.isnan(p) for p in ps]
    finite = sorted((p, adjusted) for p, adjusted in zip(ps, found, strict=True) if not math.isnan(p))
    assert all(p <= adjusted + 1e-12 <= 1 + 1e-12 for p, adjusted in finite)
    assert [adjusted for _, adjusted in finite] == sorted(adjusted for _, adjusted in finite)
    assert [p for p in found if not math.isnan(p)] == adjust([p for p in ps if not math.isnan(p)])


def test_infinite_p_counts_in_the_adjustment() -> None:
    assert of.holm([0.01, math.inf, 0.04]) == pytest.approx([0.02, math.nan, 0.04], nan_ok=True)
    with pytest.raises(ValueError, match="between 0 and 1"):
        of.holm([1.5])


def test_cochran_of_two_variants_is_mcnemars_chi_square() -> None:
    rows = [[1, 1]] * 5 + [[1, 0]] * 3 + [[0, 1]] * 9 + [[0, 0]] * 2
    assert of.cochran_q(rows) == pytest.approx(of.mcnemar_asymptotic(table(5, 3, 9, 2)))
    assert of.cochran_q([[1, 1, 1], [0, 0, 0]]) == of.cochran_q([]) == (0, 1)


# Power


EFFECTS = st.tuples(st.floats(0.01, 0.45), st.floats(0.01, 0.45)).filter(lambda rates: abs(rates[0] - rates[1]) > 0.02)


@LAW
@given(EFFECTS, st.floats(0.55, 0.97), st.floats(0.001, 0.2))
def test_tasks_power_and_detectable_effect_are_inverse(rates: tuple[float, float], power: float, alpha: float) -> None:
    tasks = math.ceil(of.connor_tasks(*rates, power, alpha))
    reached = of.connor_power(tasks, *rates, alpha)
    assert reached >= power - 1e-12
    assert of.connor_tasks(*rates, power, alpha) == pytest.approx(of.connor_tasks(*rates[::-1], power, alpha))
    detectable = of.minimum_detectable(tasks, sum(rates), power, alpha)
    assert detectable is not None
    assert detectable <= abs(rates[0] - rates[1]) + 1e-9
    half = sum(rates) / 2
    assert of.connor_power(tasks, half - detectable / 2, half + detectable / 2, alpha) == pytest.approx(power, abs=1e-9)


@settings(LAW, max_examples=30)
@given(EFFECTS, st.sampled_from([0.5, 0.8, 0.9]), st.booleans())
def test_exact_tasks_reach_the_power_and_one_less_does_not(
    rates: tuple[float, float], power: float, midp: bool
) -> None:
    tasks = of.exact_tasks(*rates, power, midp=midp)
    assert tasks is not None
    assert of.exact_power(tasks, *rates, midp=midp) >= power > of.exact_power(tasks - 1, *rates, midp=midp)
    assert of.exact_tasks(*rates, power, midp=midp, at_most=tasks - 1) is None


@LAW
@given(st.integers(0, 14), st.floats(0, 0.5), st.floats(0, 0.5), st.booleans())
def test_exact_power_by_counting(n: int, p_regress: float, p_improve: float, midp: bool) -> None:
    test, expected = of.mcnemar_midp if midp else of.mcnemar_exact, 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            if test(table(0, b, c, 0)) <= 0.05 + 1e-12:
                ways = math.comb(n, b) * math.comb(n - b, c)
                expected += ways * p_regress**b * p_improve**c * max(0.0, 1 - p_regress - p_improve) ** (n - b - c)
    assert of.exact_power(n, p_regress, p_improve, midp=midp) == pytest.approx(expected, abs=1e-9)


def test_power_without_tasks_or_effect() -> None:
    assert of.exact_power(50, 0, 0) == of.exact_power(0, 0.1, 0.2) == of.connor_power(0, 0.1, 0.2) == 0
    assert of.connor_power(50, 0.1, 0.1) == 0
    assert of.minimum_detectable(0, 0.2) is None
    assert of.minimum_detectable(10, 0.1) is None  # it would be more than 0.1
    assert of.minimum_detectable(100, 0.0) is None
    assert of.minimum_detectable_mean(None) is None
    assert of.minimum_detectable_mean(0.0) is None
    with pytest.raises(ValueError, match="difference of 0"):
        of.connor_tasks(0.1, 0.1)


def test_detectable_means() -> None:
    assert of.minimum_detectable_mean(0.02) == pytest.approx(2.8016 * 0.02, abs=1e-6)
    few = of.minimum_detectable_mean(0.02, df=9)
    assert few == pytest.approx((2.262157 + 0.883404) * 0.02, abs=1e-6)  # tables of t


# Invalid input


@pytest.mark.parametrize(
    "call",
    [
        lambda: of.wilson(-1, 2),
        lambda: of.wilson(3, 2),
        lambda: of.wilson(1, 2, 0.0),
        lambda: of.wilson(1, 2, 1.0),
        lambda: of.wilson(0, 0, math.nan),
        lambda: of.clopper_pearson(3, 2),
        lambda: of.clopper_pearson(1, 2, 95),
        lambda: of.pass_at_k(2, 3, 1),
        lambda: of.pass_hat_k(2, 1, 0),
        lambda: of.tango(table(1, 1, 1, 1), 95),
        lambda: of.newcombe10(table(0, 0, 0, 0), 0),
        lambda: of.noninferiority(table(1, 1, 1, 1), -0.01),
        lambda: of.noninferiority(table(1, 1, 1, 1), 1.5),
        lambda: of.noninferiority(table(1, 1, 1, 1), 0.1, 0.5),
        lambda: of.noninferiority_mean([0.0, 0.1], math.nan),
        lambda: of.mean_difference([1.5, 0.0]),
        lambda: of.mean_difference([math.nan, 0.0]),
        lambda: of.cluster_mean([0.5], [1, 2]),
        lambda: of.cluster_mean([2.0, 0.5], [1, 2]),
        lambda: of.korn_graubard([math.nan, 0.5], [1, 2]),
        lambda: of.cluster_se([math.inf, 0.5], [1, 2]),
        lambda: of.se_clt([math.nan, 0.5]),
        lambda: of.variance_components([[math.nan]]),
        lambda: of.sign_flip([math.nan], 1),
        lambda: of.sign_flip([0.5], 1, 0),
        lambda: of.sign_flip([0.5], 1, exact_up_to=40),
        lambda: of.bootstrap_mean([math.inf], 1),
        lambda: of.bootstrap_mean([0.5], 1, 99),
        lambda: of.bootstrap_mean([0.5], 1, confidence=1),
        lambda: of.connor_tasks(-0.1, 0.2),
        lambda: of.connor_tasks(0.7, 0.6),
        lambda: of.connor_tasks(0.1, math.nan),
        lambda: of.connor_tasks(0.1, 0.2, power=1),
        lambda: of.connor_power(-1, 0.1, 0.2),
        lambda: of.exact_power(10, 0.1, 0.2, alpha=0),
        lambda: of.minimum_detectable(-1, 0.2),
        lambda: of.minimum_detectable(10, math.nan),
        lambda: of.minimum_detectable_mean(-1),
        lambda: of.minimum_detectable_mean(math.nan),
        lambda: of.minimum_detectable_mean(0.1, df=0),
        lambda: of.miller_tasks(0, 0.1, 0.1, 0.1),
        lambda: of.miller_tasks(0.1, -0.1, 0.1, 0.1),
        lambda: of.miller_tasks(0.1, 0.1, 0.1, 0.1, k_a=0),
        lambda: of.cochran_q([[1, 0], [1]]),
        lambda: of.cochran_q([[1], [0]]),
        lambda: of.cochran_q([[1, 2]]),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        call()


def test_importing_statistics_loads_no_numpy() -> None:
    """A summary without repeats imports neither numpy nor scipy, because loading them would take most of the time."""
    code = "import sys; from agentbench_report.statistics import wilson; wilson(1, 2); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "'agentbench_report.statistics.rates'" in loaded
    assert "'numpy'" not in loaded
    assert "'scipy'" not in loaded


# Repeats: the gate and power


@pytest.mark.parametrize("n", [2, 3, 10, 60, 200])
@pytest.mark.parametrize("margin", [0.0, 0.05, 0.2])
def test_identical_repeats_are_never_better_than_one_attempt(n: int, margin: float) -> None:
    order = ["fail", "inconclusive", "pass"]
    for b in range(min(n, 8) + 1):
        for c in range(min(n - b, 8) + 1):
            once = of.noninferiority(table(n - b - c, b, c, 0), margin)
            again = of.noninferiority_mean([-1.0] * b + [1.0] * c + [0.0] * (n - b - c), margin)
            assert order.index(again.verdict) <= order.index(once.verdict)
            assert again.interval.low <= once.interval.low + 1e-12
            assert again.interval.high >= once.interval.high - 1e-12
            assert again.p >= once.p - 1e-12


@LAW
@given(DIFFERENCES, st.floats(0.0, 0.99), st.floats(0.001, 0.499))
def test_with_repeats_p_and_the_verdict_agree(differences: list[float], margin: float, alpha: float) -> None:
    answer = of.noninferiority_mean(differences, margin, alpha)
    if abs(answer.interval.low + margin) > 1e-9:
        assert (answer.verdict == "pass") == (answer.p < alpha)
    assert (answer.z is None) == (len(differences) < 2)
    if len(differences) > 1:
        low, high = unseen_bounds(sum(differences) / len(differences), len(differences), 1 - 2 * alpha)
        assert answer.interval.low <= low + 1e-9
        assert answer.interval.high >= high - 1e-9


@pytest.mark.parametrize(("n", "at_most"), [(60, 0.05), (100, 0.04), (200, 0.03)])
def test_type_1_error_of_noninferiority_mean_is_bounded(n: int, at_most: float) -> None:
    """Each task is lost with the probability of the margin. With 100 tasks, t alone would pass 12% of the time."""
    passes = 0.0
    for lost in range(n + 1):
        differences = [-1.0] * lost + [0.0] * (n - lost)
        if of.noninferiority_mean(differences, 0.05).verdict == "pass":
            passes += math.comb(n, lost) * 0.05**lost * 0.95 ** (n - lost)
    assert passes < at_most


def test_the_power_of_t() -> None:
    """G*Power gives 0.5645 for 20 tasks and an effect of 0.5 SD. Without an effect, the power is alpha."""
    assert power_of.t_power(0.5, 20**-0.5, 19) == pytest.approx(0.5645, abs=5e-5)
    assert power_of.t_power(-0.5, 20**-0.5, 19) == power_of.t_power(0.5, 20**-0.5, 19)
    assert power_of.t_power(0.0, 0.1, 7, alpha=0.03) == pytest.approx(0.03, abs=1e-9)


@LAW
@given(st.floats(0, 1), st.floats(1e-9, 1), st.integers(1, 100_000), st.floats(1e-6, 0.49))
def test_power_of_t_is_valid_for_extreme_arguments(effect: float, se: float, df: int, alpha: float) -> None:
    found = power_of.t_power(effect, se, df, alpha)
    assert alpha * 0.99 <= found <= 1
    assert power_of.t_power(effect, se / 2, df, alpha) >= found - 1e-6


@LAW
@given(st.floats(0.02, 0.9), st.floats(0.0, 1.0), st.floats(0.3, 0.97), st.sampled_from([0.2, 0.05, 0.01]))
@example(0.5, 5e-324, 0.5, 0.2)
def test_tasks_of_t_reach_the_power_and_one_less_does_not(
    effect: float, variance: float, power: float, alpha: float
) -> None:
    n, least = power_of.t_tasks(effect, variance, power, alpha), power_of.sign_flip_tasks(alpha)
    assert n is not None
    assert n >= least
    if variance > 1e-6:
        assert power_of.t_power(effect, math.sqrt(variance) / math.sqrt(n), n - 1, alpha) >= power
        if n > least:
            assert power_of.t_power(effect, math.sqrt(variance) / math.sqrt(n - 1), n - 2, alpha) < power
    assert power_of.t_tasks(effect, variance, power, alpha, at_most=n - 1) is None


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.01, 0.001])
def test_minimum_tasks_of_a_sign_flip_test(alpha: float) -> None:
    n = power_of.sign_flip_tasks(alpha)
    assert of.sign_flip([0.5] * n, 1).two_sided < alpha <= of.sign_flip([0.5] * (n - 1), 1).two_sided


def test_tiny_power_still_needs_a_task() -> None:
    assert of.connor_tasks(0.1 - 5e-10, 0.1 + 5e-10, power=0.025) == pytest.approx(0, abs=1)
    assert of.exact_tasks(0.1 - 5e-10, 0.1 + 5e-10, power=0.025) is not None
    assert of.exact_tasks(0.0, 1e-200) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: power_of.t_power(0.1, 0.0, 5),
        lambda: power_of.t_power(math.nan, 0.1, 5),
        lambda: power_of.t_power(0.1, 0.1, 0),
        lambda: power_of.t_power(0.1, 0.1, 5, alpha=0),
        lambda: power_of.t_tasks(0.0, 0.1),
        lambda: power_of.t_tasks(0.1, -0.1),
        lambda: power_of.t_tasks(0.1, math.inf),
        lambda: power_of.t_tasks(0.1, 0.1, power=1),
        lambda: power_of.sign_flip_tasks(0),
    ],
)
def test_invalid_power_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        call()
