"""The final state of a workspace, saved as its difference to the prepared tree.

``repo/`` has the files that were added or changed. ``workspace.json`` lists everything that files cannot express. The
disk space that an attempt uses therefore depends on the size of its change, not of its repository. Verdicts do not
depend on these files.
"""

from __future__ import annotations

import os

import attrs

from agentbench_core.evidence import journal, layout
from agentbench_core.run.attempt.change import FrozenChange
from agentbench_core.run.recording import Evidence
from agentbench_core.values.record import Change
from agentbench_core.values.text import quantity, short_name
from agentbench_core.workspace.git import EXECUTABLE, LINK
from agentbench_core.workspace.snapshot import Snapshots

_MAX_BYTES = 1 << 30  # maximum total size of one attempt's saved files and link targets
_MAX_FILES = 50_000  # maximum number of saved files and links
_LISTED = 20  # maximum omitted files listed by name in the events


@attrs.frozen(kw_only=True)
class Link:
    """A symbolic link that was added or changed. It is only listed, never created."""

    path: str
    target: str


@attrs.frozen(kw_only=True)
class Omitted:
    """A file or link that was added or changed, but is not saved."""

    path: str
    reason: str


@attrs.frozen(kw_only=True)
class FinalState:
    """``workspace.json``. All paths are relative to the workspace, and sorted by their bytes."""

    schema: int = 1
    commit: str
    """Commit of the task's code."""
    prepared_tree: str
    """Id of the git tree of the workspace after setup, without large files: all other fields are relative to it."""
    removed: tuple[str, ...] = ()
    """Files and links that no longer exist."""
    executable: tuple[str, ...] = ()
    """Files that became executable, with the same content."""
    not_executable: tuple[str, ...] = ()
    """Files that are no longer executable, with the same content."""
    links: tuple[Link, ...] = ()
    omitted: tuple[Omitted, ...] = ()
    odd: tuple[str, ...] = ()
    """Descriptions of items that a snapshot cannot represent, such as large files, FIFOs and nested repositories."""


def save_final_state(
    change: FrozenChange, commit: str, prepared_tree: str, snapshots: Snapshots, files: Evidence
) -> list[str]:
    """Write ``repo/`` and ``workspace.json``. Links, tool caches and ``.git`` are not written as files.

    Returns a line for each file that is missing because of a limit, or because it cannot be written.
    """
    changes = change.all_changes
    new_modes = [one for one in changes if _is_new_mode(one)]
    # Without old_blob, only the content after the change is read.
    new_content = [attrs.evolve(one, old_blob="") for one in changes if one.kind != "deleted" and not _is_new_mode(one)]
    links: list[Link] = []
    omitted = [Omitted(path=one.path, reason=f"the limit is {_MAX_FILES} files") for one in new_content[_MAX_FILES:]]
    remaining = _MAX_BYTES
    for one, _, data in snapshots.contents(new_content[:_MAX_FILES]):
        if len(data) > remaining:
            omitted.append(Omitted(path=one.path, reason=f"the limit is {_MAX_BYTES >> 20} MiB for all files"))
            continue
        remaining -= len(data)
        if one.new_mode == LINK:
            links.append(Link(path=one.path, target=os.fsdecode(data)))
            continue
        try:
            files.write(f"{layout.REPO}/{one.path}", data, executable=one.new_mode == EXECUTABLE)
        except OSError as error:  # redacted names may be too long, or conflict with each other
            omitted.append(Omitted(path=one.path, reason=error.strerror or "it cannot be written"))
    state = FinalState(
        commit=commit,
        prepared_tree=prepared_tree,
        removed=tuple(one.path for one in changes if one.kind == "deleted"),
        executable=tuple(one.path for one in new_modes if one.new_mode == EXECUTABLE),
        not_executable=tuple(one.path for one in new_modes if one.new_mode != EXECUTABLE),
        links=tuple(links),
        omitted=tuple(omitted),
        odd=change.oddities,
    )
    files.write(layout.WORKSPACE, journal.json_line(files.cleaned(state), indent=2))
    more = len(omitted) - _LISTED
    lines = [f"{short_name(one.path)} ({one.reason})" for one in omitted[:_LISTED]]
    return [*lines, *([quantity(more, "more file")] if more > 0 else [])]


def _is_new_mode(change: Change) -> bool:
    """Whether a regular file only became executable, or is no longer executable."""
    is_link = LINK in (change.old_mode, change.new_mode)
    return change.kind == "modified" and change.old_blob == change.new_blob and not is_link
