"""The files of a mined task."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

from agentbench_core import InputError, Tree, UnavailableError
from agentbench_core.harness import TASK_FILE, Task, read_task
from agentbench_tasks.mining.splitting import Split, marked, with_canary

CHECKS = "checks"
"""Directory of the hidden tests."""
PATCH = "solution.patch"
"""File of the reference patch."""
_OF_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
_SLUG_WORDS = 6
_SLUG_LENGTH = 48


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as a block, and quotes text that YAML could read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never write aliases, which task files do not allow."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else '"')


def _mapping(dumper: yaml.SafeDumper, mapping: Mapping[str, Any]) -> yaml.Node:
    pairs = [
        (yaml.ScalarNode("tag:yaml.org,2002:str", key), dumper.represent_data(value)) for key, value in mapping.items()
    ]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=False)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)


@attrs.frozen(kw_only=True)
class TaskText:
    """The contents of task.yaml, except for the id, the suite and the files."""

    url: str
    base: str  #: full SHA of the fix's parent
    omits_submodules: bool = False  #: whether submodules are left out of the workspace
    description: str
    tags: Sequence[str]
    environment: Mapping[str, Any]
    setup: Sequence[str]
    failing_command: str
    passing_command: str
    protected_globs: Sequence[str]
    fail_to_pass: Sequence[str] = ()
    pass_to_pass: Sequence[str] = ()
    writable: bool = False
    provenance: Mapping[str, Any]

    def document(self, task_id: str, suite: str) -> Mapping[str, Any]:
        """The content of task.yaml as plain data, without fields that have their defaults."""
        lists = {"fail_to_pass": list(self.fail_to_pass), "pass_to_pass": list(self.pass_to_pass)}
        return {
            "id": task_id,
            "suite": suite,
            "description": self.description.rstrip() + "\n",
            **({"tags": list(self.tags)} if self.tags else {}),
            "repo": {
                "url": self.url,
                "commit": self.base,
                **({"submodules": "omitted"} if self.omits_submodules else {}),
            },
            "environment": dict(self.environment),
            "setup": {"commands": list(self.setup), "shared_cache": False},
            "validation": {
                "failing_command": self.failing_command,
                "passing_command": self.passing_command,
                "files": f"{CHECKS}/",
                "files_at": ".",
                "protected_globs": list(self.protected_globs),
                **({"writable": True} if self.writable else {}),
                **{name: tests for name, tests in lists.items() if tests},
            },
            "oracle": {"patch": PATCH},
            "provenance": dict(self.provenance),
        }


def portable_url(url: str, task: Path) -> str:
    """The URL for a task: relative if the repository contains the task's directory, so that every clone has both."""
    task = task.resolve()
    return os.path.relpath(url, task) if url.startswith("/") and task.is_relative_to(url) else url


def write_task(directory: Path, task_id: str, suite: str, text: TaskText, split: Split) -> Task:
    """Write all files of a task into an empty or missing directory, and read it.

    Raises:
        UnavailableError: the disk is full or damaged.
        InputError: something else prevents it.
    """
    try:
        (directory / CHECKS).mkdir(parents=True)
        with Tree(directory / CHECKS) as tree:  # never writes outside of it
            for path, file in split.hidden.items():
                tree.write(path, marked(path, file.data), executable=file.executable)
        (directory / PATCH).write_text(with_canary(split.patch), encoding="utf-8", newline="")
    except OSError as error:
        raise _unwritten(directory, error) from None
    return rewrite_task(directory, task_id, suite, text)


def rewrite_task(directory: Path, task_id: str, suite: str, text: TaskText) -> Task:
    """Write task.yaml only, and read the task. Raises like :func:`write_task`."""
    written = yaml.dump(
        text.document(task_id, suite), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    try:
        (directory / TASK_FILE).write_text(written, encoding="utf-8")
    except OSError as error:
        raise _unwritten(directory, error) from None
    return read_task(directory)


def install_task(staged: Path, suite: Path, task_id: str) -> Path:
    """Move a staged task into its suite, in one step. Raises like :func:`write_task`."""
    target = suite / task_id
    try:
        staged.rename(target)
    except OSError as error:
        raise _unwritten(target, error) from None
    return target


def _unwritten(path: Path, error: OSError) -> InputError | UnavailableError:
    """The error for a directory; a full disk ends the command, since every other commit would also fail."""
    message = f"{path} cannot be written: {error.strerror}"
    if error.errno in _OF_DISK:
        return UnavailableError(message, remedy="Free some space and run the command again to continue.")
    return InputError(message)


def remove_staged(directory: Path) -> None:
    """Remove a staging directory, if it exists. A symbolic link is removed, not its target."""
    if directory.is_symlink():  # in a suite that somebody else created
        directory.unlink()
    shutil.rmtree(directory, ignore_errors=True)


def task_id_for(title: str, taken: set[str]) -> str:
    """An unused task id from the first words of a title. It contains no commit id, which could reveal the fix."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    words = [word for word in words if not re.fullmatch(r"[0-9a-f]{7,40}|\d+", word)] or ["task"]
    stem = "-".join(words[:_SLUG_WORDS])[:_SLUG_LENGTH].strip("-")
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
