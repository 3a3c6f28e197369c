"""What an estimate says, in words. Nobody may read "no difference" where nothing could have been seen."""

from __future__ import annotations

from agentbench_report.comparison.estimates import Detectable, Estimate, Question
from agentbench_report.statistics import Interval
from agentbench_report.text import p_value, points

TESTS = {"mcnemar_midp": "McNemar mid-p", "sign_flip": "sign-flip test"}

_SAYS = {"better": "B would be better", "worse": "B would be worse", "undecided": "no difference could be told"}


def headline(found: Estimate, seen: Detectable, question: Question) -> str:
    """The verdict; beside "no difference" what could have been told at all. Sentences, each with a full stop."""
    if found.difference is None:
        return "Nothing can be said: no task has a score in both runs."
    said = f"{between(found.interval)}, {p_of(found.p)} by {TESTS[found.p_method]}"
    if found.verdict == "undecided":
        known = f"No difference can be told: {points(found.difference)} ({said})."
        return f"{known} {could_be_seen(found, seen)}"
    known = f"B is {found.verdict} by {abs(100 * found.difference):.1f} points ({said})."
    return " ".join([known, *_doubts(found, question)])


def about_missing(incomplete: int, pairs: int, main: Estimate, worst: Estimate | None, best: Estimate | None) -> str:
    """What the missing attempts could change; empty when nothing is missing."""
    if worst is None or best is None or worst.difference is None or best.difference is None:
        return ""
    bounds = [f"{points(bound.difference or 0)} ({p_of(bound.p)})" for bound in (worst, best)]
    changes = [
        f"in the {name} case {_SAYS[bound.verdict]}"
        for name, bound in (("worst", worst), ("best", best))
        if bound.verdict != main.verdict
    ]
    turned = f", and {' and '.join(changes)}" if changes else ", and the verdict stays the same"
    return (
        f"{incomplete} of {pairs} tasks {'is' if incomplete == 1 else 'are'} incomplete: in the worst case for B the "
        f"difference is {bounds[0]}, in the best {bounds[1]}{turned}."
    )


def between(interval: Interval) -> str:
    """An interval of a difference: ``95% interval -2.0 to +5.1 points``."""
    return f"{100 * interval.confidence:.4g}% interval {100 * interval.low:+z.1f} to {100 * interval.high:+z.1f} points"


def p_of(p: float) -> str:
    """``p = 0.0347``, ``p < 0.0001``."""
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _doubts(found: Estimate, question: Question) -> list[str]:
    """Where another reading of the same numbers would not say so."""
    doubts = []
    if found.mcnemar_exact is not None and found.p_method == "mcnemar_midp" and found.mcnemar_exact >= question.alpha:
        doubts.append(f"It is a close call: the exact test would not say so ({p_of(found.mcnemar_exact)}).")
    if found.interval.low <= 0 <= found.interval.high:
        doubts.append("It is a close call: the interval has room for no difference.")
    return doubts


def could_be_seen(found: Estimate, seen: Detectable) -> str:
    """What belongs beside every "no difference": how great one would have had to be."""
    tasks = f"{found.tasks} task{'' if found.tasks == 1 else 's'}"
    few = ""
    if seen.nonzero < seen.least_nonzero:
        differ = f"{seen.nonzero} of {tasks}" if seen.nonzero else f"none of {tasks}"
        few = (
            f"The runs differ on {differ}, and with fewer than {seen.least_nonzero} no exact test could have found a "
            "difference. "
        )
    elif seen.difference is not None:
        how = "differ as often" if found.table is not None else "vary"
        least = f"at least {100 * seen.difference:.1f} points"
        return f"With {tasks} that {how} as these, only a difference of {least} would be seen 4 times of 5."
    if seen.at_best is not None:
        least = f"at least {100 * seen.at_best:.1f} points"
        return (
            f"{few}With {tasks}, a difference of {least} would be seen 4 times of 5, if all that differ went one way."
        )
    if found.table is not None:
        return f"{few}With {tasks}, no difference at all would be seen 4 times of 5."
    if seen.difference is not None:
        least = f"at least {100 * seen.difference:.1f} points"
        return f"{few}With {tasks} that vary as these, a difference of {least} would be seen 4 times of 5."
    if found.task_means is not None and found.task_means.se:
        return f"{few}With {tasks} that vary as these, no difference at all would be seen 4 times of 5."
    return f"{few}What could have been seen is not known: the tasks do not vary."
