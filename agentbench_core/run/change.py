"""What an agent changed: frozen, filtered, and ready to be put on a fresh copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from agentbench_core.errors import ToolError
from agentbench_core.evidence.store import AttemptFiles
from agentbench_core.values.globs import matches
from agentbench_core.values.record import Label
from agentbench_core.values.task import TaskSpec
from agentbench_core.workspace.git import LINK
from agentbench_core.workspace.paths import TOOL_CACHES, printable
from agentbench_core.workspace.snapshot import Change, Snapshot, Snapshots
from agentbench_core.workspace.tree import Tree

_KEPT_FILE_BYTES = 64 << 20
_KEPT_BYTES = 1 << 30  # of all files of one attempt
_NAMED = 5  # paths that a label names before it only counts


@attrs.frozen(kw_only=True)
class FrozenChange:
    """``kept`` is what gets judged; the rest is dropped and labelled."""

    kept: tuple[Change, ...]
    diff: bytes
    labels: tuple[Label, ...]


def freeze(snapshots: Snapshots, base: Snapshot, workspace: Path, task: TaskSpec) -> FrozenChange:
    """The change of a workspace against the prepared tree.

    Caches of tools count as nothing. Dropped: links, protected files, hidden tests' places, and what the task
    does not let the agent edit. A path that ``editable_globs`` names wins over the protection, and is labelled.
    """
    frozen = snapshots.freeze(base, workspace)
    hidden = (f"/{task.validation.files.strip('/')}/**",) if task.validation.files else ()
    protected = matches((*task.validation.protected_globs, *hidden))
    editable = editable_paths(task)
    named = task.agent.editable_globs
    kept: list[Change] = []
    dropped: dict[str, list[str]] = {}
    for change in frozen.changes:
        if not TOOL_CACHES.isdisjoint(change.path.split("/")):
            continue
        guarded = protected(change.path)
        if guarded:
            dropped.setdefault("touched_protected", []).append(change.path)
        if guarded and change.path not in named:
            continue
        if LINK in (change.old_mode, change.new_mode):
            dropped.setdefault("dropped_link", []).append(change.path)
        elif not editable(change.path):
            dropped.setdefault("dropped_not_editable", []).append(change.path)
        else:
            kept.append(change)
    labels = [Label(name=name, evidence=_some(paths)) for name, paths in sorted(dropped.items())]
    if frozen.oddities:
        labels.append(Label(name="odd_files", evidence=_some(list(frozen.oddities))))
    return FrozenChange(kept=tuple(kept), diff=snapshots.diff(base, frozen.snapshot, kept), labels=tuple(labels))


def editable_paths(task: TaskSpec) -> Callable[[str], bool]:
    """Which paths the agent may edit."""
    if not task.agent.allow_file_write:
        return matches(())
    return matches(task.agent.editable_globs or ("**",))


def keep_final_state(workspace: Path, files: AttemptFiles) -> list[str]:
    """Copy the regular files of a workspace into ``repo/``, for readers; it decides nothing.

    No links, and no ``.git`` that a reader's own git would obey. Gives what was left out: files that cannot be
    read, that are too large, and what comes after too much.
    """
    left_out = []
    room = _KEPT_BYTES
    with Tree(workspace) as source:
        for path in source.files():
            if not TOOL_CACHES.isdisjoint(path.split("/")):
                continue
            try:
                data = source.read(path, limit=min(_KEPT_FILE_BYTES, room) + 1)
                if len(data) > min(_KEPT_FILE_BYTES, room):
                    left_out.append(f"{printable(path)} (too large)")
                    continue
                room -= len(data)
                files.write(f"repo/{path}", data, executable=source.is_executable(path))
            except (ToolError, OSError) as error:
                left_out.append(f"{printable(path)} ({error})")
    return left_out


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(map(printable, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")
