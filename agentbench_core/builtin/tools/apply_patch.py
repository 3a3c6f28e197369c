"""The ``apply_patch`` tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from agentbench_core import (
    FilePatch,
    ToolContext,
    ToolError,
    ToolResult,
    ToolSpec,
    Workspace,
    apply_hunks,
    load,
    option,
    parse_patch,
    unified_diff,
)
from agentbench_core.builtin.options import NoOptions
from agentbench_core.builtin.tools.files import LARGEST_FILE


@attrs.frozen(kw_only=True)
class _ApplyPatch:
    unified_diff: str = option(help="unified diff with paths relative to the workspace")


@attrs.frozen
class _Edit:
    """An edited file. ``before`` and ``after`` are its contents; ``None`` where the file does not exist."""

    path: str
    before: bytes | None
    after: bytes | None
    executable: bool | None
    was_executable: bool
    moved: tuple[int, ...]


@attrs.frozen
class ApplyPatch:
    """Applies a unified diff: every hunk of every file, or nothing."""

    options: NoOptions

    @property
    def spec(self) -> ToolSpec:
        """The description for models."""
        description = (
            "Change, create or delete files by a unified diff. All hunks are applied or none. "
            "Context lines must match the file exactly; line numbers may be off."
        )
        return ToolSpec.of("apply_patch", description, _ApplyPatch, "edits")

    def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Return ``changed_files``, and ``moved``: the line offsets of hunks found elsewhere than stated, by file."""
        wanted = load(arguments, _ApplyPatch, where="apply_patch")
        patches = parse_patch(wanted.unified_diff)
        for patch in patches:
            if not context.editable(patch.path):
                raise ToolError("not_editable", f"the task does not allow edits to {patch.path!r}")
        edits = [_edit(patch, context.workspace) for patch in patches]
        _write(edits, context.workspace)
        paths = [edit.path for edit in edits]
        context.save_diff("".join(unified_diff(edit.path, edit.before, edit.after) for edit in edits), paths)
        moved = {edit.path: list(edit.moved) for edit in edits if any(edit.moved)}
        return ToolResult.success(changed_files=paths, **({"moved": moved} if moved else {}))


def _edit(patch: FilePatch, workspace: Workspace) -> _Edit:
    """The result of a patch for one file, without writing it."""
    before = _read(patch.path, workspace)
    if patch.kind == "create":
        if before is not None:
            raise ToolError("patch_conflict", f"{patch.path!r} cannot be created: it already exists")
        before_text = ""
    elif before is None:
        raise ToolError("not_found", f"{patch.path!r} does not exist")
    else:
        before_text = _text(patch.path, before)
    applied = apply_hunks(patch, before_text)
    after = None if patch.kind == "delete" else applied.text.encode("utf-8", "surrogateescape")
    was_executable = before is not None and workspace.is_executable(patch.path)
    return _Edit(patch.path, before, after, patch.executable, was_executable, applied.moved)


def _write(edits: Sequence[_Edit], workspace: Workspace) -> None:
    """Make all edits or none: if one fails, the earlier ones are reverted.

    Deletions come first, so that a file can become a directory.
    """
    done: list[_Edit] = []
    try:
        for edit in sorted(edits, key=lambda edit: edit.after is not None):
            _put(workspace, edit.path, edit.after, edit.executable)
            done.append(edit)
    except ToolError:
        for edit in reversed(done):
            _put(workspace, edit.path, edit.before, edit.was_executable)
        raise


def _put(workspace: Workspace, path: str, data: bytes | None, executable: bool | None) -> None:
    if data is None:
        workspace.remove(path)
    else:
        workspace.write(path, data, executable=executable)


def _read(path: str, workspace: Workspace) -> bytes | None:
    try:
        data = workspace.read(path, limit=LARGEST_FILE + 1)
    except ToolError as error:
        if error.error_type != "not_found":
            raise
        return None
    if len(data) > LARGEST_FILE:
        raise ToolError("too_large", f"{path!r} is larger than {LARGEST_FILE >> 20} MiB")
    return data


def _text(path: str, data: bytes) -> str:
    if b"\0" in data[:8192]:
        raise ToolError("not_text", f"{path!r} is a binary file")
    return data.decode("utf-8", "surrogateescape")
