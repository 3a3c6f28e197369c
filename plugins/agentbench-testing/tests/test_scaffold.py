"""The files of a new plugin: names that are valid everywhere, and no partial output."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as some
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentbench_core import InputError
from agentbench_testing.authoring.scaffold import plugin_names, write_plugin


def test_existing_module_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module belongs to a distribution of another name."""
    (tmp_path / "agentbench_mine.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="a module named agentbench_mine already exists in this environment"):
        write_plugin(tmp_path, "mine", "tool")


def test_failed_write_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full at the third file, neither the plugin's nor another directory remains."""
    written = []
    really = Path.write_text

    def write(path: Path, text: str, **more: Any) -> int:
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really(path, text, **more)

    parent = tmp_path / "place"
    parent.mkdir()
    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(InputError, match="No space left on device"):
        write_plugin(parent, "mine", "reporter")
    assert written[0].is_relative_to(parent)
    assert list(parent.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "component", "distribution", "module"),
    [
        ("my-fixer", "my-fixer", "agentbench-my-fixer", "agentbench_my_fixer"),
        ("agentbench-my-fixer", "my-fixer", "agentbench-my-fixer", "agentbench_my_fixer"),
        ("agentbench-agentbench-x", "agentbench-x", "agentbench-agentbench-x", "agentbench_agentbench_x"),
        ("count_lines", "count_lines", "agentbench-count-lines", "agentbench_count_lines"),
        ("3d", "3d", "agentbench-3d", "agentbench_3d"),
        ("a--b", "a--b", "agentbench-a-b", "agentbench_a_b"),
    ],
)
def test_derived_names(said: str, component: str, distribution: str, module: str) -> None:
    """The distribution and module names follow from the component's name."""
    names = plugin_names(said)
    assert (names.component, names.distribution, names.module) == (component, distribution, module)


@given(some.text() | some.from_regex(r"(agentbench[-_])?[A-Za-z0-9._-]{1,70}", fullmatch=True))
def test_any_text_is_a_name_or_is_refused(text: str) -> None:
    """Accepted names are valid for pip, Python and the registry. The error for others suggests a valid one."""
    try:
        names = plugin_names(text)
    except InputError as error:
        plugin_names(error.remedy.rpartition(": ")[2])
        return
    assert canonicalize_name(names.distribution, validate=True) == names.distribution
    assert Requirement(names.distribution).name == names.distribution
    assert names.module.isidentifier()
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", names.component)
    assert text.endswith(names.component)
