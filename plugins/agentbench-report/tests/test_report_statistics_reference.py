"""Reference answers with tolerances. Most were computed in Python and in R, and some are published.

``left_out`` in ``reference.json`` names the functions of the collection that no command needs, with the reason.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentbench_report import statistics as of
from agentbench_report.statistics.bootstrap import bca_parameters, bootstrap_from

REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))
CASES = REFERENCE["cases"]


def table(both_pass: int, regressions: int, improvements: int, both_fail: int) -> of.PairTable:
    return of.PairTable(both_pass=both_pass, regressions=regressions, improvements=improvements, both_fail=both_fail)


def pairs(question: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a question about a table of pairs, passing a margin or alpha if the case has one."""

    def ask(margin: float | None = None, alpha: float | None = None, **counts: int) -> Any:
        more = {} if margin is None else {"margin": margin}
        more |= {} if alpha is None else {"confidence": 1 - alpha}
        return question(table(**counts), **more)

    return ask


def ends(interval: of.Interval) -> list[float]:
    return [interval.low, interval.high]


def every_resample(x: Sequence[float]) -> np.ndarray:
    """Return the means of all nⁿ resamples of n values."""
    return np.array([math.fsum(drawn) / len(x) for drawn in itertools.product(x, repeat=len(x))])


def bootstrap(x: Sequence[float], alpha: float = 0.05) -> of.Bootstrap:
    return bootstrap_from(x, every_resample(x), 0, 1 - alpha)


def means(groups: Sequence[Sequence[float]]) -> list[float]:
    return [sum(group) / len(group) for group in groups]


def minus(new: Sequence[float], base: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(base, new, strict=True)]


def macro(base: list[list[int]], new: list[list[int]]) -> list[float | None]:
    found = of.mean_difference(minus(means(new), means(base)))
    rates = [of.mean_of_means((sum(task), len(task)) for task in run) for run in (base, new)]
    return [*rates, found.mean, found.se]


def components(trials: list[list[float]]) -> list[float | None]:
    found = of.variance_components(trials)
    return [found.mean, found.of_means, found.within, found.between, found.se]


def multitrial_t(diffs_by_task: list[list[float]]) -> list[float | None]:
    found = of.mean_difference(means(diffs_by_task))
    return [*ends(found.interval), found.p]


def z_and_p(found: of.NonInferiority) -> list[float | None]:
    return [found.z, found.p]


def flipped(diffs: list[float]) -> list[float]:
    found = of.sign_flip(diffs, seed=0)
    assert found.exact
    return [found.two_sided, found.greater]


CALLS: dict[str, Callable[..., Any]] = {
    "adjust_bh": lambda p: of.benjamini_hochberg(ps=p),
    "adjust_by": lambda p: of.benjamini_yekutieli(ps=p),
    "adjust_holm": lambda p: of.holm(ps=p),
    "bca_parameters": lambda x: list(bca_parameters(x, every_resample(x))),
    "bootstrap_mean_bca_exact": lambda x, alpha: ends(bootstrap(x, alpha).interval),
    "bootstrap_mean_exact_se": lambda x: bootstrap(x).se,
    "bootstrap_mean_percentile_exact": lambda x, alpha: ends(bootstrap(x, alpha).percentile),
    "clopper_pearson_ci": lambda successes, n, alpha: ends(of.clopper_pearson(successes, n, 1 - alpha)),
    "cochran_q": lambda matrix: list(of.cochran_q(matrix)),
    "discordant_odds_ratio_ci_exact": pairs(lambda found: ends(of.discordant_odds_ratio(found))),
    "mcnemar_asymptotic": pairs(lambda found: list(of.mcnemar_asymptotic(found))),
    "mcnemar_exact": pairs(of.mcnemar_exact),
    "mcnemar_mde": of.minimum_detectable,
    "mcnemar_midp": pairs(of.mcnemar_midp),
    "mcnemar_power_connor": of.connor_power,
    "mcnemar_power_exact": lambda **inputs: of.exact_power(**inputs, midp=False),
    "mcnemar_power_midp": of.exact_power,
    "mcnemar_sample_size_connor": of.connor_tasks,
    "mcnemar_sample_size_miettinen": of.miettinen_tasks,
    "mean_pass_at_k": lambda tasks, k: of.mean_pass_at_k(tasks, k).value,
    "miller_sample_size": lambda delta, **inputs: of.miller_tasks(effect=delta, **inputs),
    "noninferiority_tango": pairs(lambda found, margin: z_and_p(of.noninferiority(found, margin))),
    "paired_diff_ci_newcombe10": pairs(lambda found, confidence: ends(of.newcombe10(found, confidence))),
    "paired_diff_ci_t": lambda base, new, alpha: ends(of.mean_difference(minus(new, base), 1 - alpha).interval),
    "paired_diff_ci_tango": pairs(lambda found, confidence: ends(of.tango(found, confidence))),
    "paired_diff_se": lambda base, new: of.mean_difference(minus(new, base)).se,
    "paired_macro_diff_unequal_trials": macro,
    "paired_multitrial_se": lambda diffs_by_task: of.mean_difference(means(diffs_by_task)).se,
    "paired_multitrial_t": multitrial_t,
    "pass_at_k": of.pass_at_k,
    "pass_hat_k": of.pass_hat_k,
    "se_clt": of.se_clt,
    "se_cluster_cr1": of.cluster_se,
    "sign_flip_exact": flipped,
    "variance_components": components,
    "wilson_ci": lambda successes, n, alpha: ends(of.wilson(successes, n, 1 - alpha)),
    "wilson_ci_cluster_korn_graubard": lambda scores, clusters, level: ends(of.korn_graubard(scores, clusters, level)),
    "zero_failure_upper_bound": lambda n, alpha: of.clopper_pearson(0, n, 1 - 2 * alpha).high,
}
"""The function under test for the cases of each reference function."""


@pytest.mark.parametrize("case", CASES, ids=[f"{case['function']}-{i}" for i, case in enumerate(CASES)])
def test_known_answers(case: dict[str, Any]) -> None:
    found = CALLS[case["function"]](**case["inputs"])
    if case["expected"] is None:
        assert found is None
    else:
        assert found == pytest.approx(case["expected"], rel=0, abs=case["tolerance"])


def test_every_reference_function_is_tested_or_excluded() -> None:
    assert {case["function"] for case in CASES} == set(CALLS)
    assert not set(CALLS) & set(REFERENCE["left_out"])
    assert len(CASES) == 165
    assert all(REFERENCE["left_out"].values())


@pytest.mark.parametrize("case", [case for case in CASES if case["function"] == "noninferiority_tango"])
def test_small_p_values_of_noninferiority_are_compared_relatively(case: dict[str, Any]) -> None:
    """The absolute tolerance of these cases would accept any p below 1e-6, so compare relatively."""
    _, p = CALLS["noninferiority_tango"](**case["inputs"])
    assert p == pytest.approx(case["expected"][1], rel=1e-6)


def test_bca_of_skewed_values() -> None:
    """scipy 1.17.1, ``_bca_interval`` on the same resamples, gives levels .100087 and .984425."""
    found = bootstrap([0.05, 0.9, 0.1, 0.2, 0.0], alpha=0.1)
    assert ends(found.interval) == pytest.approx([0.07, 0.6], abs=1e-9)
    assert ends(found.percentile) == pytest.approx([0.05, 0.55], abs=1e-9)


def test_excluded_tasks_are_counted() -> None:
    assert of.mean_pass_at_k([(5, 2), (1, 1)], 2) == of.MeanAtK(value=pytest.approx(0.7), tasks=1, excluded=1)
    assert of.mean_pass_hat_k([(5, 2), (1, 1)], 2) == of.MeanAtK(value=pytest.approx(0.1), tasks=1, excluded=1)
    assert of.mean_pass_hat_k([(1, 1)], 2) == of.MeanAtK(value=None, tasks=0, excluded=1)


def test_published_sizes() -> None:
    assert math.ceil(of.connor_tasks(0.05, 0.45)) == 23  # powerandsamplesize.com: 22.01
    assert of.connor_tasks(0.1, 0.2) == pytest.approx(233.09, abs=0.01)  # R MESS
    assert of.exact_power(100, 0.05, 0.15, midp=False) == pytest.approx(0.544, abs=0.0005)
    assert of.minimum_detectable(500, 0.12) == pytest.approx(0.043, abs=0.0005)
