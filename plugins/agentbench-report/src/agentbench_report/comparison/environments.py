"""Whether the environments of two runs are the same in what results can depend on.

Digests of equal environments differ from one machine to the next, since images that are built twice have two ids.
So, where digests differ, what ``meta/environment.json`` says is compared: the name of the base image, Python, the
operating system, what capture commands printed (packages), the sandbox and its isolation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from agentbench_report.comparison.alignment import TaskPair
from agentbench_report.counts import RunCounts, Sandbox, TaskCounts

FILE = "meta/environment.json"
THERE, ABSENT, UNREADABLE = "there", "not there", "cannot be read"
"""How that file is found."""

OF_THE_MACHINE = frozenset(
    {
        *("image_id", "base_image_id", "base_image_digest"),  # of images that were built twice
        *("cache", "user"),
        *("engine", "engine_kernel", "engine_cpus", "runc", "storage_driver", "cgroup"),
        *("supervision", "limits_not_enforced"),  # follow from the sandbox and the operating system
    }
)
"""Facts that may differ between machines without making another environment."""

_SETTINGS = ("sandbox", "isolated", "network_policy", "limits")
_LINES_SHOWN = 3
_LOOKS: Sequence[tuple[str, Callable[[Sandbox], str]]] = (
    ("sandbox", lambda one: one.name),
    ("isolation of the sandbox", lambda one: "isolated" if one.isolated else "not isolated"),
    ("network of the sandbox", lambda one: one.network),
)

Facts = Mapping[str, str]


@attrs.frozen(kw_only=True)
class Difference:
    """A fact that is not the same in both runs; ``tasks`` are those for which it was found so."""

    fact: str
    a: str
    b: str
    tasks: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Environments:
    """What was found of the tasks that did not run in one environment, by its digest and sandbox."""

    rebuilt: tuple[str, ...]
    """Tasks whose facts are the same."""
    agreeing: tuple[str, ...]
    """The facts that are the same for all of ``rebuilt``."""
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]
    """Tasks with a digest in one run only, so that nobody knows whether the environments are alike."""


def compare_environments(a: RunCounts, b: RunCounts, pairs: Iterable[TaskPair]) -> Environments:
    """Compare sandboxes, and the facts of all pairs whose digests differ; these are read once per pair of digests."""
    alike: dict[tuple[frozenset[str], frozenset[str]], list[TaskPair]] = {}
    different: dict[tuple[str, str, str], list[str]] = {}
    unknown: list[str] = []
    for pair in pairs:
        digests = (pair.a.environments, pair.b.environments)
        held = _sandboxes(pair.a.sandboxes, pair.b.sandboxes)
        if held:  # all else follows from that
            for difference in held:
                different.setdefault(difference, []).append(pair.task_id)
        elif all(digests) and digests[0] != digests[1]:
            alike.setdefault(digests, []).append(pair)
        elif pair.complete and any(digests) and not all(digests):
            unknown.append(pair.task_id)
    rebuilt: list[str] = []
    agreeing: set[str] | None = None
    for same in alike.values():
        tasks = [pair.task_id for pair in same]
        facts = _facts(a, same[0].a), _facts(b, same[0].b)
        found = _differences(*facts)
        if not found:
            rebuilt += tasks
            known = {name for one in facts[0][0] for name in one}
            agreeing = known if agreeing is None else agreeing & known
        for difference in found:
            different.setdefault(difference, []).extend(tasks)
    return Environments(
        rebuilt=tuple(sorted(rebuilt)),
        agreeing=tuple(sorted(agreeing or ())),
        differences=tuple(
            Difference(fact=fact, a=in_a, b=in_b, tasks=tuple(sorted(tasks)))
            for (fact, in_a, in_b), tasks in sorted(different.items())
        ),
        unknown=tuple(sorted(unknown)),
    )


def _sandboxes(a: frozenset[Sandbox], b: frozenset[Sandbox]) -> Sequence[tuple[str, str, str]]:
    """(what, in A, in B) for each thing in which the sandboxes differ; of other ones only their names."""
    if not a or not b or a == b:
        return []
    found = [(what, _named(look, a), _named(look, b)) for what, look in _LOOKS]
    apart = [one for one in found if one[1] != one[2]]
    if apart:
        return apart[:1] if apart[0][0] == _LOOKS[0][0] else apart
    # The same parts, put together in other ways.
    in_a, in_b = ("; ".join(sorted(", ".join(look(one) for _, look in _LOOKS) for one in side)) for side in (a, b))
    return [(_LOOKS[0][0], in_a, in_b)]


def _named(look: Callable[[Sandbox], str], side: Iterable[Sandbox]) -> str:
    return ", ".join(sorted({look(one) for one in side}))


def _facts(run: RunCounts, task: TaskCounts) -> tuple[Sequence[Facts], str]:
    """The facts of a task's attempts, each different set once; empty when an attempt does not tell them. And why.

    Attempts in one environment have the same facts, so the first tells them; only a run that was taken up again
    somewhere else has more than one.
    """
    repeats = task.repeats if len(task.environments) > 1 else task.repeats[:1]
    found: list[Facts] = []
    for repeat in repeats:
        data = run.view.file(task.task_id, repeat, FILE)
        if data is None:
            return [], ABSENT
        facts = _read(data)
        if facts is None:
            return [], UNREADABLE
        if facts not in found:
            found.append(facts)
    return sorted(found, key=lambda facts: sorted(facts.items())), THERE


def _read(data: bytes) -> Facts | None:
    """What counts in a file of facts; ``None`` when it is none, as a file that is so long that it was cut."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # the latter: brackets in brackets in brackets
        return None
    if not isinstance(value, dict) or not isinstance(value.get("facts"), dict):
        return None
    every = {name: value.get(name) for name in _SETTINGS} | value["facts"]
    return {name: _text(fact) for name, fact in every.items() if name not in OF_THE_MACHINE}


def _text(fact: object) -> str:
    return fact if isinstance(fact, str) else json.dumps(fact, sort_keys=True)


def _differences(
    in_a_: tuple[Sequence[Facts], str], in_b_: tuple[Sequence[Facts], str]
) -> Sequence[tuple[str, str, str]]:
    """(fact, in A, in B) for each that differs."""
    (a, state_a), (b, state_b) = in_a_, in_b_
    if not a or not b:
        return [(FILE, state_a, state_b)]
    found = []
    for name in sorted({name for facts in (*a, *b) for name in facts}):
        in_a, in_b = (sorted({facts.get(name, "") for facts in side}) for side in (a, b))
        if in_a != in_b:
            found.append((name, *_apart("\n".join(in_a), "\n".join(in_b))))
    return found


def _apart(a: str, b: str) -> tuple[str, str]:
    """The first lines that only one of two texts has: lists of packages are long."""
    lines_a, lines_b = a.splitlines(), b.splitlines()
    return _first(lines_a, set(lines_b)), _first(lines_b, set(lines_a))


def _first(lines: Sequence[str], others: set[str]) -> str:
    own = [line for line in lines if line not in others]
    more = f" and {len(own) - _LINES_SHOWN} more" if len(own) > _LINES_SHOWN else ""
    return ", ".join(own[:_LINES_SHOWN]) + more if own else "not there"
