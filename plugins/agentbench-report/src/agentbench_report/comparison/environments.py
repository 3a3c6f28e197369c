"""Compare the environments of two runs by the facts that can affect results.

The same environment has different digests on different machines, since rebuilt images have different ids. If digests
differ, the facts in ``meta/environment.json`` are compared: the base image name, Python, the operating system, the
output of capture commands (packages), the sandbox and its isolation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from agentbench_core.harness import MACHINE_FACTS
from agentbench_report.comparison.alignment import TaskPair
from agentbench_report.counts import RunCounts, Sandbox, TaskCounts

FILE = "meta/environment.json"
READABLE, MISSING_FILE, UNREADABLE = "readable", "missing", "unreadable"
"""The possible states of ``FILE``."""

_SETTINGS = ("sandbox", "isolated", "network_policy", "limits")
_MAX_VALUE_LINES = 3
_SANDBOX_FACTS: Sequence[tuple[str, Callable[[Sandbox], str]]] = (
    ("sandbox", lambda sandbox: sandbox.name),
    ("sandbox isolation", lambda sandbox: "isolated" if sandbox.isolated else "not isolated"),
    ("sandbox network", lambda sandbox: sandbox.network),
)

Facts = Mapping[str, str]


@attrs.frozen(kw_only=True)
class Difference:
    """A fact that differs between the runs for ``tasks``."""

    fact: str
    a: str
    b: str
    tasks: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Environments:
    """A comparison of task environments that differ in digest or sandbox."""

    rebuilt: tuple[str, ...]
    """Tasks with different digests but the same facts."""
    agreeing: tuple[str, ...]
    """The facts that match for all ``rebuilt`` tasks."""
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]
    """Tasks with a score in both runs but a digest in only one, so that their environments cannot be compared."""


def compare_environments(a: RunCounts, b: RunCounts, pairs: Iterable[TaskPair]) -> Environments:
    """Compare the sandboxes of all pairs, and the facts of pairs with different digests.

    Facts are read once per combination of digests.
    """
    by_digests: dict[tuple[frozenset[str], frozenset[str]], list[TaskPair]] = {}
    different: dict[tuple[str, str, str], list[str]] = {}
    unknown: list[str] = []
    for pair in pairs:
        digests = (pair.a.environments, pair.b.environments)
        sandbox_differences = _sandbox_differences(pair.a.sandboxes, pair.b.sandboxes)
        if sandbox_differences:  # other differences follow from it
            for difference in sandbox_differences:
                different.setdefault(difference, []).append(pair.task_id)
        elif all(digests) and digests[0] != digests[1]:
            by_digests.setdefault(digests, []).append(pair)
        elif pair.complete and any(digests) and not all(digests):
            unknown.append(pair.task_id)
    rebuilt: list[str] = []
    agreeing: set[str] | None = None
    for group in by_digests.values():
        tasks = [pair.task_id for pair in group]
        facts = _facts(a, group[0].a), _facts(b, group[0].b)
        differences = _differences(*facts)
        if not differences:
            rebuilt += tasks
            names = {name for one in facts[0][0] for name in one}
            agreeing = names if agreeing is None else agreeing & names
        for difference in differences:
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


def _sandbox_differences(a: frozenset[Sandbox], b: frozenset[Sandbox]) -> Sequence[tuple[str, str, str]]:
    """(fact, value in A, value in B) for each differing fact; only the name if different sandboxes were used."""
    if not a or not b or a == b:
        return []
    values = [(fact, _values(value_of, a), _values(value_of, b)) for fact, value_of in _SANDBOX_FACTS]
    different = [entry for entry in values if entry[1] != entry[2]]
    if different:
        return different[:1] if different[0][0] == _SANDBOX_FACTS[0][0] else different
    # The values are the same, but combined differently.
    in_a, in_b = (
        "; ".join(sorted(", ".join(value_of(sandbox) for _, value_of in _SANDBOX_FACTS) for sandbox in side))
        for side in (a, b)
    )
    return [(_SANDBOX_FACTS[0][0], in_a, in_b)]


def _values(value_of: Callable[[Sandbox], str], side: Iterable[Sandbox]) -> str:
    return ", ".join(sorted({value_of(sandbox) for sandbox in side}))


def _facts(run: RunCounts, task: TaskCounts) -> tuple[Sequence[Facts], str]:
    """The distinct facts of a task's attempts, and the state of the files. No facts if a file cannot be used.

    Attempts in the same environment have the same facts, so one file is enough. Only a run that was resumed on another
    machine has several environments.
    """
    repeats = task.repeats if len(task.environments) > 1 else task.repeats[:1]
    distinct: list[Facts] = []
    for repeat in repeats:
        data = run.view.file(task.task_id, repeat, FILE)
        if data is None:
            return [], MISSING_FILE
        facts = _read(data)
        if facts is None:
            return [], UNREADABLE
        if facts not in distinct:
            distinct.append(facts)
    return sorted(distinct, key=lambda facts: sorted(facts.items())), READABLE


def _read(data: bytes) -> Facts | None:
    """The facts to compare; ``None`` if the file is damaged or was truncated."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # RecursionError: deeply nested brackets
        return None
    if not isinstance(value, dict) or not isinstance(value.get("facts"), dict):
        return None
    facts = {name: value.get(name) for name in _SETTINGS} | value["facts"]
    return {name: _text(fact) for name, fact in facts.items() if name not in MACHINE_FACTS}


def _text(fact: object) -> str:
    return fact if isinstance(fact, str) else json.dumps(fact, sort_keys=True)


def _differences(
    facts_a: tuple[Sequence[Facts], str], facts_b: tuple[Sequence[Facts], str]
) -> Sequence[tuple[str, str, str]]:
    """(fact, value in A, value in B) for each differing fact."""
    (a, state_a), (b, state_b) = facts_a, facts_b
    if not a or not b:
        return [(FILE, state_a, state_b)]
    differences = []
    for name in sorted({name for facts in (*a, *b) for name in facts}):
        in_a, in_b = (sorted({facts.get(name, "") for facts in side}) for side in (a, b))
        if in_a != in_b:
            differences.append((name, *_unique_lines("\n".join(in_a), "\n".join(in_b))))
    return differences


def _unique_lines(a: str, b: str) -> tuple[str, str]:
    """The first lines of each string that the other does not contain. The strings may be long package lists."""
    lines_a, lines_b = a.splitlines(), b.splitlines()
    return _without(lines_a, set(lines_b)), _without(lines_b, set(lines_a))


def _without(lines: Sequence[str], others: set[str]) -> str:
    unique = [line for line in lines if line not in others]
    more = f" and {len(unique) - _MAX_VALUE_LINES} more" if len(unique) > _MAX_VALUE_LINES else ""
    return ", ".join(unique[:_MAX_VALUE_LINES]) + more if unique else "absent"
