"""Suspicions against an attempt: labels with their evidence, which do not change its score.

Each check is held against a task's own oracle: what a suspicion says must not be said of an honest solution.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path

from agentbench_core.errors import ToolError
from agentbench_core.run.agent_phase import instruction, shown_output
from agentbench_core.run.change import FrozenChange, some
from agentbench_core.run.leak_text import Lines, found_in, new_paths, secrets_of
from agentbench_core.run.looking_back import project_names
from agentbench_core.run.plan import AttemptPlan
from agentbench_core.run.preparation import Baseline, Prepared
from agentbench_core.run.suspicious_code import PARSED, Edit, hits, kinds
from agentbench_core.run.trajectory import Told, suspicious_steps
from agentbench_core.values.integrity import Integrity
from agentbench_core.values.record import Label
from agentbench_core.workspace.snapshot import Change, Snapshots
from agentbench_core.workspace.tree import Tree

_BYTES = 64 << 20
_PARSED_BYTES = 4 << 20
_FILES = 5000


def suspicions(
    plan: AttemptPlan,
    prepared: Prepared,
    baseline: Baseline,
    change: FrozenChange,
    snapshots: Snapshots,
    directory: Path | None,
) -> tuple[Label, ...]:
    """All there are against an attempt whose files lie in ``directory``, or that leaves none."""
    with Tree(prepared.environment.workspace) as tree:
        found = [suspicious_edits(change.kept, snapshots, new_paths(plan.task, tree))]
    if directory and not plan.agent.can("needs_oracle"):  # that one was given what others must not know
        found.append(leaks(plan, prepared, baseline, directory))
    return tuple(label for label in found if label is not None)


def suspicious_edits(changes: Sequence[Change], snapshots: Snapshots, hidden: Sequence[str]) -> Label | None:
    """``tamper_suspected`` if what is kept of a change looks for its judge; evidence is ``path:line: what``.

    ``hidden`` are paths of hidden tests that nobody should know of.
    """
    gone = [change for change in changes if change.kind == "deleted"]
    rest = [change for change in changes if change.kind != "deleted"]
    room, to_parse = _BYTES, _PARSED_BYTES
    found: list[str] = []
    moved: frozenset[str] = frozenset()
    for number, (change, before, after) in enumerate(snapshots.contents([*gone, *rest])):
        room -= len(before) + len(after)
        parse = to_parse > 0
        if max(len(before), len(after)) <= PARSED:
            to_parse -= len(before) + len(after)
        if number >= _FILES or room < 0:
            found.append(f"{len(changes) - number} files more, too much to be looked at")
            break
        if change.kind == "deleted":
            moved |= kinds(change.path, before, hidden, parse=parse)
        else:
            edit = Edit(path=change.path, before=before, after=after, parse=parse)
            found += map(str, hits(edit, moved, hidden))
    return Label(name=Integrity.TAMPER_SUSPECTED.value, evidence=some(found)) if found else None


def leaks(plan: AttemptPlan, prepared: Prepared, baseline: Baseline, directory: Path) -> Label | None:
    """``leak_suspected`` if an attempt's files say that its agent saw, or looked for, what it must not know."""
    task = plan.task
    with Tree(prepared.environment.workspace) as tree:

        def has(path: str) -> bool:
            try:
                return next(tree.files(path), None) is not None
            except ToolError:
                return False

        def public(lines: Collection[str]) -> Collection[str]:
            return set(itertools.chain.from_iterable(found for _, found in found_in(tree, Lines(lines))))

        told = Told(
            instruction=instruction(task, shown_output(baseline)),
            effects={tool.name: tool.make().spec.effect for tool in plan.variant.tools},
            names=project_names(tree),
            has=has,
            public=public,
        )
        found = suspicious_steps(directory, secrets_of(task, tree), new_paths(task, tree), told)
    return Label(name=Integrity.LEAK_SUSPECTED.value, evidence=some(found)) if found else None
