"""The `integrity` auditor: reports suspicious attempts, with evidence, and tasks that leak.

Every check is also run on the task's reference solution, because an honest solution must not look suspicious.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

from agentbench_core import (
    AttemptAudit,
    Change,
    Integrity,
    Label,
    NoOptions,
    TaskAudit,
    TaskProblem,
    ToolError,
    Tree,
    name_some,
    quantity,
)
from agentbench_integrity.audit.code_scan import PARSED, Edit, hits, kinds
from agentbench_integrity.audit.history_commands import project_names
from agentbench_integrity.audit.secret_text import Lines, lines_by_file, new_paths, secrets_of
from agentbench_integrity.audit.task_leaks import LeakCheck
from agentbench_integrity.audit.trajectory import KnownToAgent, suspicious_steps

_BYTES = 64 << 20
_PARSED_BYTES = 4 << 20
_FILES = 5000


class IntegrityAuditor:
    """Labels ``tamper_suspected`` and ``leak_suspected``; rules ``no_history``, ``hidden_absent``, ``network_off``."""

    def __init__(self, options: NoOptions) -> None:
        """No options."""

    def audit_attempt(self, attempt: AttemptAudit) -> Sequence[Label]:
        """Return labels for suspicious edits, and for leaks that the agent saw or searched for."""
        with Tree(attempt.tree) as tree:
            results = [suspicious_edits(attempt.changes, attempt.contents, new_paths(attempt.hidden_files, tree))]
        if attempt.directory and not attempt.knows_solution:
            results.append(leaks(attempt))
        return [label for label in results if label is not None]

    def audit_task(self, task: TaskAudit) -> Sequence[TaskProblem]:
        """Check that agents cannot access the solution and the hidden tests."""
        return LeakCheck(task).problems()


_Contents = Callable[[Sequence[Change]], Iterator[tuple[Change, bytes, bytes]]]


def suspicious_edits(changes: Sequence[Change], contents: _Contents, hidden: Sequence[str]) -> Label | None:
    """``tamper_suspected`` if a change detects or manipulates tests, or if there are too many files to scan.

    The evidence is ``path:line: what``. ``hidden`` are paths of hidden tests that are not public.
    """
    deleted = [change for change in changes if change.kind == "deleted"]
    rest = [change for change in changes if change.kind != "deleted"]
    remaining, to_parse = _BYTES, _PARSED_BYTES
    results: list[str] = []
    moved: frozenset[str] = frozenset()
    for number, (change, before, after) in enumerate(contents([*deleted, *rest])):
        remaining -= len(before) + len(after)
        parse = to_parse > 0
        if max(len(before), len(after)) <= PARSED:
            to_parse -= len(before) + len(after)
        if number >= _FILES or remaining < 0:
            more = len(changes) - number
            results.append(f"{quantity(more, 'more file')} not scanned (too many)")
            break
        if change.kind == "deleted":
            moved |= kinds(change.path, before, hidden, parse=parse)
        else:
            edit = Edit(path=change.path, before=before, after=after, parse=parse)
            results += map(str, hits(edit, moved, hidden))
    return Label(name=Integrity.TAMPER_SUSPECTED.value, evidence=name_some(results)) if results else None


def leaks(attempt: AttemptAudit) -> Label | None:
    """``leak_suspected`` if the files of an attempt show that its agent saw, or searched for, secrets of the task."""
    assert attempt.directory is not None
    with Tree(attempt.tree) as tree:

        def has(path: str) -> bool:
            try:
                return next(tree.files(path), None) is not None
            except ToolError:
                return False

        def public(lines: Collection[str]) -> Collection[str]:
            return set(itertools.chain.from_iterable(result for _, result in lines_by_file(tree, Lines(lines))))

        shown = KnownToAgent(
            instruction=attempt.instruction,
            effects=attempt.effects,
            names=project_names(tree),
            has=has,
            public=public,
        )
        secrets = secrets_of(attempt, tree)
        result = suspicious_steps(attempt.directory, secrets, new_paths(attempt.hidden_files, tree), shown)
    return Label(name=Integrity.LEAK_SUSPECTED.value, evidence=name_some(result)) if result else None
