"""Descriptions of bundles: what is refused without an engine."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import InputError
from agentbench_docker import bundle, transfer

ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
ENTRY = {
    "key": ONE,
    "kind": "environment",
    "image": TWO,
    "base": "python:3.11",
    "base_id": ONE,
    "hosted": True,
    "variables": {},
    "commit": "",
    "facts": {},
    "created_at": "2026-01-01T00:00:00Z",
    "tree": "",
    "volumes": [],
}
DESCRIPTION: dict[str, Any] = {
    "format": 1,
    "version": "0.1.0",
    "user": "1000:1000",
    "images": [
        {"id": ONE, "name": "python:3.11", "source": f"localhost:5000/team/environments@{TWO}"},
        {"id": TWO, "name": "Registry.example.com:5000/team/image_2:v1.0"},
        {"id": TWO},
    ],
    "archive": "4" * 64,
    "environments": [{"entry": ENTRY, "tree": "3" * 64, "setup": []}],
}


def read(directory: Path, content: str) -> bundle.Bundle:
    (directory / "environments.json").write_text(content)
    return bundle.read(directory)


def test_a_description_is_read(tmp_path: Path) -> None:
    """The form of names and digests is not too strict."""
    found = read(tmp_path, json.dumps(DESCRIPTION))
    assert found.environments[0].entry.key == ONE
    assert [image.name for image in found.images] == [image.get("name", "") for image in DESCRIPTION["images"]]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("environments", 0, "entry", "key"), "../../victim"),
        (("environments", 0, "entry", "key"), ""),
        (("environments", 0, "entry", "key"), "sha256:"),
        (("environments", 0, "entry", "key"), f"{ONE}\n"),
        (("environments", 0, "entry", "key"), "a\0b"),
        (("environments", 0, "entry", "key"), "\ud800"),
        (("environments", 0, "entry", "key"), "x" * 1_000_000),
        (("environments", 0, "entry", "image"), "--help"),
        (("environments", 0, "entry", "image"), "python:3.11"),
        (("environments", 0, "entry", "base_id"), "--help"),
        (("environments", 0, "entry", "kind"), "layer"),
        (("environments", 0, "entry", "layer"), ONE),
        (("environments", 0, "entry", "tree"), "../../victim"),
        (("environments", 0, "entry", "schema"), 10**1000),
        (("environments", 0, "tree"), "../../victim"),
        (("images", 0, "id"), "--help"),
        (("images", 0, "name"), "--help"),
        (("images", 0, "name"), "\x1b[31mred"),
        (("images", 0, "name"), f"python@{ONE}"),
        (("images", 0, "source"), "--all-tags"),
        (("images", 0, "source"), f"-q/x@{ONE}"),
        (("images", 0, "source"), "registry.example.com/team/environments:latest"),
        (("archive",), "../../victim"),
        (("user",), "x" * 1_000_000),
        (("version",), "x" * 1_000_000),
        (("format",), "x" * 1_000_000),
        (("format",), True),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else ascii(value)[:20],
)
def test_hostile_descriptions_are_refused(path: tuple[str | int, ...], value: object, tmp_path: Path) -> None:
    """W13: what becomes part of a path or an argument of docker has a strict form. The message is short."""
    description = copy.deepcopy(DESCRIPTION)
    inner: Any = description
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(InputError) as refused:
        read(tmp_path, json.dumps(description))
    assert str(path[-1]) in refused.value.message or "entry" in refused.value.message
    assert len(refused.value.message) < 1000


def test_deep_descriptions_are_refused(tmp_path: Path) -> None:
    """W13: nested more deeply than Python reads."""
    with pytest.raises(InputError, match="is not valid JSON"):
        read(tmp_path, "[" * 200_000)


def test_names_that_other_engines_cannot_have() -> None:
    """An image that is named by a digest could be saved, but not loaded. All such names are shown."""
    with pytest.raises(InputError) as refused:
        bundle.check_names({f"python@{ONE}", ONE, "-q", "python:3.11", "Registry.example.com:5000/python"})
    assert refused.value.message.startswith("3 problems")
    for name in (f"python@{ONE}", ONE, "-q"):
        assert f"the image {name!r} cannot be saved" in refused.value.message
    bundle.check_names({"python", "python:3.11-slim", "localhost:5000/a/b_c:V1"})


def test_directories_that_cannot_be_written(tmp_path: Path) -> None:
    """They are refused before anything is prepared, and nothing is left there."""
    for target in (Path("/proc/bundle"), tmp_path / ("x" * 255)):
        with pytest.raises(InputError, match="cannot be written: "):
            transfer.check_target(target)
    transfer.check_target(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("docker.io/team/environments", "team/environments"),
        ("index.docker.io/library/environments", "environments"),
        ("team/environments", "team/environments"),
        ("registry.example.com:5000/team/environments", "registry.example.com:5000/team/environments"),
    ],
)
def test_repositories_have_the_name_that_the_engine_uses(repository: str, name: str) -> None:
    """Digests of pushed images are found by that name."""
    assert transfer._familiar(repository) == name
