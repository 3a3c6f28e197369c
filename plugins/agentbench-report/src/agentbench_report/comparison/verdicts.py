"""Describe estimates in words. An inconclusive result always states which effect would have been detectable."""

from __future__ import annotations

import attrs

from agentbench_report.comparison.detectable import DetectableEffect
from agentbench_report.comparison.estimates import Estimate, Question, Verdict
from agentbench_report.statistics import Interval
from agentbench_report.text import p_value, points

TESTS = {"mcnemar_midp": "McNemar mid-p", "sign_flip": "sign-flip p"}

SAME_VARIANT_DIFFERENCE = (
    "Both runs use the same variant, so a significant difference means that something else changed."
)

INTERVAL_INCLUDES_ZERO = "Borderline: the interval includes 0."

_OUTCOMES = {
    "better": "{} would be better",
    "worse": "{} would be worse",
    "undecided": "the result would be inconclusive",
}


def headline(estimate: Estimate, detectable: DetectableEffect, question: Question) -> str:
    """The verdict in full sentences, with the detectable effect if it is inconclusive."""
    if estimate.difference is None:
        return "No comparison is possible: no task has a score in both runs."
    evidence = f"{interval_text(estimate.interval)}, {_p_text(TESTS[estimate.p_method], estimate.p)}"
    if estimate.verdict == "undecided":
        result = f"Inconclusive: {points(estimate.difference)} ({evidence})."
        return " ".join([result, *_caveats(estimate, question), sensitivity(estimate, detectable)])
    result = f"B is {estimate.verdict} by {abs(100 * estimate.difference):.1f} pp ({evidence})."
    return " ".join([result, *_caveats(estimate, question)])


@attrs.frozen(kw_only=True)
class Alternative:
    """The result under another assumption, such as the worst case. ``p`` is Holm-adjusted if the main p is."""

    difference: float | None
    p: float
    verdict: Verdict


def about_missing(
    incomplete: int, pairs: int, main: Verdict, worst: Alternative | None, best: Alternative | None, subject: str = "B"
) -> str:
    """The effect of missing attempts on the result for ``subject``; empty if none are missing or no task is counted."""
    if worst is None or best is None or worst.difference is None or best.difference is None:
        return ""
    cases = [f"{points(case.difference or 0)} ({p_text(case.p)})" for case in (worst, best)]
    changes = [
        f"In the {name} case, {_OUTCOMES[case.verdict].format(subject)}."
        for name, case in (("worst", worst), ("best", best))
        if case.verdict != main
    ]
    return (
        f"{incomplete} of {count_tasks(pairs)} {'is' if incomplete == 1 else 'are'} incomplete. Worst case for "
        f"{subject}: {cases[0]}. Best case: {cases[1]}. {' '.join(changes) or 'The verdict is the same in both cases.'}"
    )


def about_excluded(
    quarantined: int,
    suspected: int,
    main: Verdict,
    including: Alternative | None,
    excluding: Alternative | None,
    subject: str = "B",
) -> str:
    """The effect of quarantined tasks and suspect attempts on the result for ``subject``; empty without any."""
    sentences = []
    if quarantined:
        several = quarantined > 1
        sentences.append(f"{count_tasks(quarantined)} {'are' if several else 'is'} quarantined and not counted.")
        sentences += _alternative(f"Including {'them' if several else 'it'}", main, including, subject)
    if suspected:
        several = suspected > 1
        sentences.append(f"{suspected} attempt{'s are' if several else ' is'} suspected of tampering or leaks.")
        sentences += _alternative(f"Excluding {'them' if several else 'it'}", main, excluding, subject)
    return " ".join(sentences)


def _alternative(condition: str, main: Verdict, case: Alternative | None, subject: str) -> list[str]:
    if case is None:
        return []
    if case.difference is None:
        return [f"{condition}, no comparison is possible."]
    outcome = "the verdict is the same" if case.verdict == main else _OUTCOMES[case.verdict].format(subject)
    return [f"{condition}, the difference is {points(case.difference)} ({p_text(case.p)}) and {outcome}."]


def same_variant_note(verdict: Verdict, *, same_terms: bool, confidence: float) -> str:
    """Interpret the comparison of two runs of the same variant: noise, or an effect of something else."""
    if verdict != "undecided":
        return SAME_VARIANT_DIFFERENCE
    if not same_terms:
        return "Both runs use the same variant, but other conditions differ, so differences may be more than noise."
    return (
        "Both runs use the same variant, so differences are noise. By chance, up to about "
        f"{100 * (1 - confidence):.3g}% of such comparisons are significant."
    )


def count_tasks(count: int) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{count} task{'' if count == 1 else 's'}"


def interval_text(interval: Interval) -> str:
    """The interval of a difference: ``95% CI -2.0 to +5.1 pp``."""
    return f"{100 * interval.confidence:.4g}% CI {100 * interval.low:+z.1f} to {100 * interval.high:+z.1f} pp"


def p_text(p: float) -> str:
    """``p = 0.0347``, ``p < 0.0001``."""
    return _p_text("p", p)


def _p_text(name: str, p: float) -> str:
    value = p_value(p)
    return f"{name} {value}" if value.startswith("<") else f"{name} = {value}"


def includes_zero(interval: Interval) -> bool:
    """Whether 0 is in the interval."""
    return interval.low <= 0 <= interval.high


def _caveats(estimate: Estimate, question: Question) -> list[str]:
    """Sentences on statistics that disagree with the verdict."""
    if estimate.verdict == "undecided":
        if includes_zero(estimate.interval):
            return []
        return ["Borderline: the interval excludes 0, but the test is not significant, and the test decides."]
    caveats = []
    exact = estimate.mcnemar_exact
    if exact is not None and estimate.p_method == "mcnemar_midp" and exact >= question.alpha:
        caveats.append(f"Borderline: the exact test is not significant ({p_text(exact)}).")
    if includes_zero(estimate.interval):
        caveats.append(INTERVAL_INCLUDES_ZERO)
    return caveats


def sensitivity(estimate: Estimate, detectable: DetectableEffect) -> str:
    """The effect that an inconclusive comparison could have detected, in full sentences."""
    tasks, power = count_tasks(estimate.tasks), f"{detectable.power:.0%} power"
    if detectable.difference is not None:
        condition = "discordance" if estimate.table is not None else "spread"
        effect = f"{100 * detectable.difference:.1f} pp"
        return f"Minimum detectable effect with {tasks}: {effect} at {power} (at the observed {condition})."
    sentences = []
    if detectable.nonzero < detectable.least_nonzero:
        test = "exact" if estimate.p_method == "sign_flip" else "mid-p"
        sentences.append(
            f"The runs differ on {detectable.nonzero} of {tasks}, but the {test} test requires at least "
            f"{detectable.least_nonzero} to reach significance."
        )
    if estimate.tasks < detectable.least_nonzero:
        sentences.append("With so few tasks, no difference could reach significance.")
    elif detectable.at_best is not None:
        effect = f"{100 * detectable.at_best:.1f} pp"
        sentences.append(
            f"Minimum detectable effect with {tasks}: {effect} at {power} (if all discordant tasks change in the same "
            "direction)."
        )
    elif not sentences:
        sentences.append(f"With {tasks} at the observed spread, no difference is detectable at {power}.")
    return " ".join(sentences)
