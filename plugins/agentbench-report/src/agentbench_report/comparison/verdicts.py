"""What an estimate says, in words. Nobody may read "no difference" where nothing could have been seen."""

from __future__ import annotations

import attrs

from agentbench_report.comparison.detectable import Detectable
from agentbench_report.comparison.estimates import Estimate, Question, Verdict
from agentbench_report.statistics import Interval
from agentbench_report.text import p_value, points

TESTS = {"mcnemar_midp": "McNemar mid-p", "sign_flip": "sign-flip test"}

BEYOND_CHANCE = "This is a difference beyond chance between two runs of one variant: look for what else changed."

_SAYS = {"better": "{} would be better", "worse": "{} would be worse", "undecided": "no difference could be told"}


def headline(found: Estimate, seen: Detectable, question: Question) -> str:
    """The verdict; beside "no difference" what could have been told at all. Sentences, each with a full stop."""
    if found.difference is None:
        return "Nothing can be said: no task has a score in both runs."
    said = f"{between(found.interval)}, {p_of(found.p)} by {TESTS[found.p_method]}"
    if found.verdict == "undecided":
        known = f"No difference can be told: {points(found.difference)} ({said})."
        return " ".join([known, *_doubts(found, question), could_be_seen(found, seen)])
    known = f"B is {found.verdict} by {abs(100 * found.difference):.1f} points ({said})."
    return " ".join([known, *_doubts(found, question)])


@attrs.frozen(kw_only=True)
class Bound:
    """Another case, such as the worst one, judged as the complete pairs were: ``p`` is adjusted where theirs is."""

    difference: float | None
    p: float
    verdict: Verdict


def about_missing(
    incomplete: int, pairs: int, main: Verdict, worst: Bound | None, best: Bound | None, who: str = "B"
) -> str:
    """What the missing attempts could change; empty when nothing is missing. ``who`` is judged."""
    if worst is None or best is None or worst.difference is None or best.difference is None:
        return ""
    bounds = [f"{points(bound.difference or 0)} ({p_of(bound.p)})" for bound in (worst, best)]
    changes = [
        f"in the {name} case {_SAYS[bound.verdict].format(who)}"
        for name, bound in (("worst", worst), ("best", best))
        if bound.verdict != main
    ]
    turned = f", and {' and '.join(changes)}" if changes else ", and the verdict stays the same"
    return (
        f"{incomplete} of {some_tasks(pairs)} {'is' if incomplete == 1 else 'are'} incomplete: in the worst case for "
        f"{who} the difference is {bounds[0]}, in the best {bounds[1]}{turned}."
    )


def about_aside(
    quarantined: int, suspected: int, main: Verdict, with_: Bound | None, without: Bound | None, who: str = "B"
) -> str:
    """What quarantined tasks and suspected attempts could change; empty when there are none. ``who`` is judged."""
    said = []
    if quarantined:
        several = quarantined > 1
        numbers = f"{some_tasks(quarantined)} {'are' if several else 'is'} quarantined, and in none of these numbers"
        said.append(f"{numbers}{_otherwise('with them' if several else 'with it', main, with_, who)}.")
    if suspected:
        them = "without them" if suspected > 1 else "without it"
        attempts = f"{suspected} attempt{' is' if suspected == 1 else 's are'} suspected of tampering or of leaks"
        said.append(f"{attempts}{_otherwise(them, main, without, who)}.")
    return " ".join(said)


def _otherwise(how: str, main: Verdict, bound: Bound | None, who: str) -> str:
    if bound is None:
        return ""
    if bound.difference is None:
        return f"; {how} nothing could be said"
    turned = "the verdict stays the same" if bound.verdict == main else _SAYS[bound.verdict].format(who)
    return f"; {how} the difference is {points(bound.difference)} ({p_of(bound.p)}), and {turned}"


def of_one_variant(verdict: Verdict, *, same_terms: bool, confidence: float) -> str:
    """What two runs of one variant (A/A) say: noise, or that something else changed. One or two sentences."""
    if verdict != "undecided":
        return BEYOND_CHANCE
    if not same_terms:
        return (
            "Both runs are of one variant, but not on the same terms: what differs between them may be more than noise."
        )
    return (
        "Both runs are of the same variant: what differs between them is noise, and a difference is told by chance in "
        f"no more than about {100 * (1 - confidence):.3g}% of such comparisons."
    )


def some_tasks(count: int) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{count} task{'' if count == 1 else 's'}"


def between(interval: Interval) -> str:
    """An interval of a difference: ``95% interval -2.0 to +5.1 points``."""
    return f"{100 * interval.confidence:.4g}% interval {100 * interval.low:+z.1f} to {100 * interval.high:+z.1f} points"


def p_of(p: float) -> str:
    """``p = 0.0347``, ``p < 0.0001``."""
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


ROOM_FOR_NONE = "It is a close call: the interval has room for no difference."


def room_for_none(interval: Interval) -> bool:
    """Whether 0 is in it."""
    return interval.low <= 0 <= interval.high


def _doubts(found: Estimate, question: Question) -> list[str]:
    """Where another reading of the same numbers would not say so."""
    if found.verdict == "undecided":
        if room_for_none(found.interval):
            return []
        return ["It is a close call: the interval has no room for no difference, but the test decides."]
    doubts = []
    if found.mcnemar_exact is not None and found.p_method == "mcnemar_midp" and found.mcnemar_exact >= question.alpha:
        doubts.append(f"It is a close call: the exact test would not say so ({p_of(found.mcnemar_exact)}).")
    if room_for_none(found.interval):
        doubts.append(ROOM_FOR_NONE)
    return doubts


def could_be_seen(found: Estimate, seen: Detectable) -> str:
    """What belongs beside every "no difference": how great one would have had to be."""
    tasks = some_tasks(found.tasks)
    if seen.difference is not None:
        how = "differ as often" if found.table is not None else "vary"
        least = f"at least {100 * seen.difference:.1f} points"
        return f"With {tasks} that {how} as these, only a difference of {least} would be seen 4 times of 5."
    said = []
    if seen.nonzero < seen.least_nonzero:
        differ = f"{seen.nonzero} of {tasks}" if seen.nonzero else f"none of {tasks}"
        test = "no exact test" if found.p_method == "sign_flip" else "no mid-p test"
        few = f"with fewer than {seen.least_nonzero} {test} could have found a difference"
        said.append(f"The runs differ on {differ}, and {few}.")
    if found.tasks < seen.least_nonzero:
        said.append("So few tasks can never tell a difference.")
    elif seen.at_best is not None:
        least = f"at least {100 * seen.at_best:.1f} points"
        said.append(
            f"With {tasks}, a difference of {least} would be seen 4 times of 5, if all that differ went one way."
        )
    elif not said:
        said.append(f"With {tasks} that vary as these, no difference at all would be seen 4 times of 5.")
    return " ".join(said)
