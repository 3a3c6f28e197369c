"""The files of a commit, read from a bare repository of the harness."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import attrs

from agentbench_core import Deadline
from agentbench_core.harness import Git, GitFailedError

LARGEST = 16 << 20
"""Maximum bytes of one file that is read."""


@attrs.frozen(slots=False)
class CommitTree:
    """The tree of one commit. Paths that are not UTF-8 contain surrogate escapes."""

    git: Git
    commit: str
    deadline: Deadline

    @cached_property
    def _entries(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Path of every entry, with its mode, type, id and size."""
        lines = self.git.lines("ls-tree", "-r", "-z", "-l", self.commit, deadline=self.deadline)
        parts = (line.partition(b"\t") for line in lines)
        return [(os.fsdecode(path), fields.decode().split()) for fields, _, path in parts]

    @cached_property
    def _blobs(self) -> Mapping[str, tuple[str, int]]:
        """Blob and size of every regular file, by path."""
        return {path: (blob, int(size)) for path, (mode, _, blob, size) in self._entries if mode.startswith("100")}

    @property
    def has_submodules(self) -> bool:
        """Whether the commit refers to other repositories, whose files it does not contain."""
        return any(kind == "commit" for _, (_, kind, _, _) in self._entries)

    def paths(self) -> Collection[str]:
        """The paths of all regular files."""
        return self._blobs.keys()

    def read(self, path: str, limit: int = 1 << 20) -> bytes | None:
        """The content of a file; ``None`` if there is no such file, or if it is larger than ``limit`` bytes."""
        blob, size = self._blobs.get(path, ("", 0))
        if not blob or size > limit:
            return None
        try:
            return self.git.run("cat-file", "blob", blob, deadline=self.deadline)
        except GitFailedError:
            return None

    def contains_word(self, word: str) -> bool:
        """Whether a Python file of the commit contains ``word`` as a whole word."""
        try:
            self.git.run("grep", "-q", "-w", "-F", "-e", word, self.commit, "--", "*.py", deadline=self.deadline)
        except GitFailedError:
            return False
        return True
