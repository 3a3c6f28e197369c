"""The agent's change: frozen, and filtered for scoring."""

from __future__ import annotations

import itertools
from pathlib import Path

import attrs

from agentbench_core.errors import ToolError
from agentbench_core.inputs.suite import Task, editable_paths, protected_paths
from agentbench_core.values.record import Change, Label
from agentbench_core.values.text import name_some
from agentbench_core.workspace.git import LINK
from agentbench_core.workspace.paths import TOOL_CACHES
from agentbench_core.workspace.snapshot import Snapshot, Snapshots
from agentbench_core.workspace.tree import Tree


@attrs.frozen(kw_only=True)
class FrozenChange:
    """The change made in an attempt. Part of it is scored; the rest, without tool caches, is excluded and labeled."""

    included: tuple[Change, ...]  #: the scored changes
    excluded: tuple[str, ...]  #: paths of all other changes, followed by `oddities`
    diff: bytes  #: unified diff of the included changes, for readers
    labels: tuple[Label, ...]  #: labels for excluded changes, and for protected files that agents are allowed to edit
    all_changes: tuple[Change, ...] = ()  #: included and excluded changes, without tool caches
    oddities: tuple[str, ...] = ()  #: items that a snapshot cannot represent, or why the snapshot failed


def freeze(snapshots: Snapshots, base: Snapshot, workspace: Path, task: Task) -> FrozenChange:
    """The change to a workspace relative to the prepared tree.

    Tool caches are ignored. Links, protected files (including hidden tests), and files that the task does not allow
    the agent to edit are excluded. If ``editable_globs`` contains the exact path of a protected file, its change is
    included and labeled. A workspace that cannot be frozen (removed, unreadable, too large) is the agent's fault, and
    is treated as no change.
    """
    try:
        frozen = snapshots.freeze(base, workspace)
    except ToolError as error:
        label = Label(name="odd_files", evidence=error.message)
        return FrozenChange(included=(), excluded=(), diff=b"", labels=(label,), oddities=(error.message,))
    changes = [one for one in frozen.changes if TOOL_CACHES.isdisjoint(one.path.split("/"))]
    is_protected, is_editable = protected_paths(task), editable_paths(task.spec)
    spelled_out = task.spec.agent.editable_globs
    included: list[Change] = []
    labelled: dict[str, list[str]] = {}
    for change in changes:
        if is_protected(change.path):
            labelled.setdefault("touched_protected", []).append(change.path)
            if change.path not in spelled_out:
                continue
        if LINK in (change.old_mode, change.new_mode):
            labelled.setdefault("dropped_link", []).append(change.path)
        elif not is_editable(change.path):
            labelled.setdefault("dropped_not_editable", []).append(change.path)
        else:
            included.append(change)
    labels = [Label(name=name, evidence=name_some(paths)) for name, paths in sorted(labelled.items())]
    if frozen.oddities:
        labels.append(Label(name="odd_files", evidence=name_some(frozen.oddities)))
    excluded = {*itertools.chain(*labelled.values())} - {change.path for change in included}
    return FrozenChange(
        included=tuple(included),
        excluded=(*sorted(excluded), *frozen.oddities),
        diff=snapshots.diff(base, frozen.snapshot, included),
        labels=tuple(labels),
        all_changes=tuple(changes),
        oddities=frozen.oddities,
    )


def editable_python(task: Task, workspace: Path) -> tuple[str, ...]:
    """The Python files of a workspace in which changes are scored."""
    is_editable, is_protected = editable_paths(task.spec), protected_paths(task)
    spelled_out = task.spec.agent.editable_globs
    with Tree(workspace) as tree:
        results = [path for path in tree.files() if path.endswith(".py") and is_editable(path)]
    return tuple(path for path in results if path in spelled_out or not is_protected(path))
